"""Views of captions on a terminal or in JSON, and the figures at their end."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from shutil import get_terminal_size
from typing import Any, Final

from whisper_hailo.cli.messages import is_verbose, print_note
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.languages import language_name
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial
from whisper_hailo.live.statistics import CaptionStatistics

_ERASE: Final = "\r\x1b[K"
_DIM, _RESET = "\x1b[2m", "\x1b[0m"

_SHADES: Final = ((0.5, "\x1b[31m"), (0.8, "\x1b[33m"), (1.01, "\x1b[32m"))
"""Red, yellow and green: the probability up to which a word has the colour."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that move the cursor."""

BEHIND_S: Final = 5.0
"""A reader has lost the speaker by then."""

logger = logging.getLogger(__name__)


class TerminalView:
    """Writes captions to standard output."""

    def __init__(self, *, colour: bool = False, terminal: bool | None = None) -> None:
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        self._colour = colour and self._terminal

    def put(self, event: Event) -> None:
        if isinstance(event, Completed):
            lines: list[str] = []
            if event.text:
                for line in self._lines(_clean_words(event.words)):
                    lines.append(_in_colour(line) if self._colour else _join_words(line).rstrip())
                translated = [CaptionWord(f" {word}") for word in (event.translation or "").split()]
                dim = f"{_DIM}{{}}{_RESET}" if self._terminal else "{}"
                lines += [
                    dim.format(_join_words(line)) for line in self._lines(_clean_words(translated))
                ]
            if whole := (_ERASE if self._terminal else "") + "".join(f"{one}\n" for one in lines):
                emit(whole)
        elif isinstance(event, Partial) and self._terminal:
            emit(_ERASE + self._running(event))

    def close(self) -> None:
        if self._terminal:
            emit(_ERASE)

    def _lines(self, words: list[CaptionWord]) -> Iterator[list[CaptionWord]]:
        """Yield the lines of a final text; on a terminal they end between words."""
        room = get_terminal_size().columns - 1 if self._terminal else sys.maxsize
        while words:
            n_words = _n_fitting((word.text for word in words), room)
            yield words[:n_words]
            words = _from_margin(words[n_words:])

    def _running(self, event: Partial) -> str:
        """Return the end of the partial text, as much as one line holds."""
        words = _clean_words([*event.committed, *event.tentative])
        room = max(4, get_terminal_size().columns - 1)  # the last column may wrap
        kept = last_columns(words, room)
        dots = "" if kept == words else "…"
        if self._colour:
            return dots + _in_colour(kept)
        n_settled = max(0, len(kept) - len(event.tentative))
        settled, rest = _join_words(kept[:n_settled]), _join_words(kept[n_settled:])
        return f"{dots}{settled}{_DIM}{rest}{_RESET}" if rest else dots + settled


def _join_words(words: Iterable[CaptionWord]) -> str:
    return "".join(word.text for word in words)


def _in_colour(words: Iterable[CaptionWord]) -> str:
    """Colour words by their probability; without one a word counts as certain."""
    text = ""
    for word in words:
        sure = 1.0 if word.probability is None else word.probability
        colour = next(code for limit, code in _SHADES if sure < limit)
        bare = word.text.lstrip()
        text += f"{word.text[: len(word.text) - len(bare)]}{colour}{bare}{_RESET}"
    return text


def _clean_words(words: Iterable[CaptionWord]) -> list[CaptionWord]:
    """Return words for a terminal."""
    return _from_margin(
        [replace(word, text=_CONTROL.sub(" ", word.text).strip("\n")) for word in words]
    )


def _from_margin(words: list[CaptionWord]) -> list[CaptionWord]:
    """Return words without leading whitespace."""
    while words and not words[0].text.strip():
        words = words[1:]
    return [replace(word, text=word.text.lstrip()) for word in words[:1]] + words[1:]


def _n_fitting(texts: Iterable[str], room: int) -> int:
    """Return how many of the first texts fit `room` columns; at least one."""
    n_texts = 0
    for text in texts:
        room -= _count_columns(text)
        if room < 0 and n_texts:
            break
        n_texts += 1
    return n_texts


def last_columns(words: list[CaptionWord], room: int) -> list[CaptionWord]:
    """Return as many of the last words as fit `room` columns with an ellipsis; at least one."""
    if _count_columns(_join_words(words)) <= room:
        return words
    room -= 1  # the ellipsis
    first, *rest = words[-_n_fitting((word.text for word in reversed(words)), room) :]
    text = first.text
    while not rest and _count_columns(text) > room:
        text = text[1:]
    return [replace(first, text=text), *rest]


def report(statistics: CaptionStatistics, *, as_json: bool) -> None:
    """Print the statistics: all as JSON on standard output, or lines on standard error."""
    figures = statistics.as_json()
    if as_json:
        emit_json({"event": "statistics", **figures})
    elif is_verbose():
        for name, value in figures.items():
            print(f"{name:>32}  {'-' if value is None else value}", file=sys.stderr)
    else:
        for line in summary(figures, statistics.words_in):
            print_note(line)


def summary(figures: dict[str, Any], words_in: Counter[str]) -> Iterator[str]:
    """Yield three lines: the words, the cost, and the latency."""
    heard = [language_name(code) for code, n_words in words_in.most_common() if code and n_words]
    language = f" ({', '.join(heard)})" if heard else ""
    yield (
        f"{figures['words']} words{language} in {figures['full_segments']} segments: "
        f"{figures['segment_s']:.1f} s of speech in {figures['stream_s']:.1f} s of sound"
    )
    rtfx = figures["rtfx"]
    speed = f", {rtfx:.1f} times as fast as it was said" if rtfx else ""
    yield f"computed in {figures['compute_s']:.1f} s{speed}, in {figures['memory_mib']:.0f} MiB"
    felt = []
    if figures["final_latency_s_median"] is not None:
        first, final = figures["first_partial_latency_s_median"], figures["final_latency_s_median"]
        shown = "" if first is None else f"first text after {first:.2f} s, "
        felt.append(f"{shown}final text {final:.2f} s after the end of speech (medians)")
    if figures["lost_s"]:
        felt.append(f"{figures['lost_s']:.1f} s were lost")
    if figures["absences"]:
        felt.append(f"the source was away {figures['away_s']:.1f} s")
    if figures["paused_s"]:
        felt.append(f"it was paused {figures['paused_s']:.1f} s")
    yield "; ".join(felt) or "no sound was lost"


class LatencyWarning:
    """Warns once when the captions whose statistics these are fall behind, with advice."""

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._is_told = False

    def put(self, event: Event) -> None:
        """Check how late a final text came."""
        behind_s = self._statistics.behind_s
        if isinstance(event, Completed) and behind_s > BEHIND_S and not self._is_told:
            self._is_told = True
            logger.warning(
                "captions are %.0f s behind what is said: this machine has too much to compute; "
                "take a smaller --model, --min-partial 1, or end other programs",
                behind_s,
            )


def _count_columns(text: str) -> int:
    from rich.cells import cell_len  # takes longer than the rest of this file

    return cell_len(text)
