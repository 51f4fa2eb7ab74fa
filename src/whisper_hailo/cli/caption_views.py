"""Captions on a terminal, a warning when they are late, and the figures at their end."""

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
from whisper_hailo.live.events import (
    CaptionWord,
    Completed,
    Event,
    Partial,
    Untranscribed,
)
from whisper_hailo.live.statistics import CaptionStatistics

_ERASE: Final = "\r\x1b[K"
_DIM: Final = "\x1b[2m"
_RESET: Final = "\x1b[0m"

_SHADES: Final = ((0.5, "\x1b[31m"), (0.8, "\x1b[33m"), (1.01, "\x1b[32m"))
"""Red, yellow and green: the probability up to which a word has the colour."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that move the cursor."""

BEHIND_S: Final = 5.0
"""Captions that are later than this are of no use to somebody who watches the speaker."""

logger = logging.getLogger(__name__)


class TerminalView:
    """Writes captions to standard output: final lines, and on a terminal the partial text, too."""

    def __init__(self, *, colour: bool = False, terminal: bool | None = None) -> None:
        self._is_terminal = sys.stdout.isatty() if terminal is None else terminal
        self._has_colour = colour and self._is_terminal

    def put(self, event: Event) -> None:
        """Write a final text, or rewrite the last line with a partial one."""
        if isinstance(event, Completed):
            self._write_final(event)
        elif isinstance(event, Partial) and self._is_terminal:
            emit(_ERASE + self._format_partial(event))
        elif isinstance(event, Untranscribed) and self._is_terminal:
            seconds = event.end_s - event.start_s
            emit(f"{_ERASE}{_DIM}[{seconds:.1f} s of speech without text]{_RESET}\n")

    def close(self) -> None:
        """Erase the partial text."""
        if self._is_terminal:
            emit(_ERASE)

    def _write_final(self, event: Completed) -> None:
        lines: list[str] = []
        if event.text:
            for line in self._break_lines(_clean_words(event.words)):
                text = _join_words(line).rstrip()
                lines.append(_colour_words(line) if self._has_colour else text)
            translated = [
                CaptionWord(f" {word}") for word in (event.translation or "").split()
            ]
            for line in self._break_lines(_clean_words(translated)):
                text = _join_words(line)
                lines.append(f"{_DIM}{text}{_RESET}" if self._is_terminal else text)
        output = "".join(f"{line}\n" for line in lines)
        if self._is_terminal:
            output = _ERASE + output
        if output:
            emit(output)

    def _break_lines(self, words: list[CaptionWord]) -> Iterator[list[CaptionWord]]:
        """Yield the lines of a final text; on a terminal they end between words."""
        room = get_terminal_size().columns - 1 if self._is_terminal else sys.maxsize
        while words:
            n_words = _count_fitting((word.text for word in words), room)
            yield words[:n_words]
            words = _strip_margin(words[n_words:])

    def _format_partial(self, event: Partial) -> str:
        """Return the end of the partial text, as much as one line holds."""
        words = _clean_words([*event.committed, *event.tentative])
        room = max(4, get_terminal_size().columns - 1)  # the last column may wrap
        shown = take_last_columns(words, room)
        ellipsis = "" if shown == words else "…"
        if self._has_colour:
            return ellipsis + _colour_words(shown)
        n_committed = max(0, len(shown) - len(event.tentative))
        committed = ellipsis + _join_words(shown[:n_committed])
        tentative = _join_words(shown[n_committed:])
        return f"{committed}{_DIM}{tentative}{_RESET}" if tentative else committed


def _join_words(words: Iterable[CaptionWord]) -> str:
    return "".join(word.text for word in words)


def _colour_words(words: Iterable[CaptionWord]) -> str:
    """Colour words by their probability; without one a word counts as certain."""
    text = ""
    for word in words:
        probability = 1.0 if word.probability is None else word.probability
        colour = next(code for limit, code in _SHADES if probability < limit)
        bare = word.text.lstrip()
        blank = word.text[: len(word.text) - len(bare)]
        text += f"{blank}{colour}{bare}{_RESET}"
    return text


def _clean_words(words: Iterable[CaptionWord]) -> list[CaptionWord]:
    """Return words that cannot move the cursor, without a margin."""
    return _strip_margin(
        [replace(word, text=_CONTROL.sub(" ", word.text).strip("\n")) for word in words]
    )


def _strip_margin(words: list[CaptionWord]) -> list[CaptionWord]:
    """Return words without leading whitespace."""
    while words and not words[0].text.strip():
        words = words[1:]
    if not words:
        return []
    return [replace(words[0], text=words[0].text.lstrip()), *words[1:]]


def _count_fitting(texts: Iterable[str], room: int) -> int:
    """Return how many of the first texts fit `room` columns; at least one."""
    n_texts = 0
    for text in texts:
        room -= _count_columns(text)
        if room < 0 and n_texts:
            break
        n_texts += 1
    return n_texts


def take_last_columns(words: list[CaptionWord], room: int) -> list[CaptionWord]:
    """Return as many of the last words as fit `room` columns with an ellipsis; at least one."""
    if _count_columns(_join_words(words)) <= room:
        return words
    room -= 1  # the ellipsis
    n_words = _count_fitting((word.text for word in reversed(words)), room)
    first, *rest = words[-n_words:]
    text = first.text
    while not rest and _count_columns(text) > room:
        text = text[1:]
    return [replace(first, text=text), *rest]


def print_statistics(statistics: CaptionStatistics, *, as_json: bool) -> None:
    """Print the statistics: all as JSON on standard output, or lines on standard error."""
    figures = statistics.as_json()
    if as_json:
        emit_json({"event": "statistics", **figures})
    elif is_verbose():
        for name, value in figures.items():
            print(f"{name:>32}  {'-' if value is None else value}", file=sys.stderr)
    else:
        for line in summarise(figures, statistics.words_in):
            print_note(line)


def summarise(figures: dict[str, Any], words_in: Counter[str]) -> Iterator[str]:
    """Yield three lines: the words, the cost, and the latency."""
    languages = [
        language_name(code)
        for code, n_words in words_in.most_common()
        if code and n_words
    ]
    language = f" ({', '.join(languages)})" if languages else ""
    yield (
        f"{figures['words']} words{language} in {figures['full_segments']} segments: "
        f"{figures['segment_s']:.1f} s of speech in {figures['stream_s']:.1f} s of sound"
    )
    rtfx = figures["rtfx"]
    speed = f", {rtfx:.1f} times as fast as it was spoken" if rtfx else ""
    yield f"computed in {figures['compute_s']:.1f} s{speed}, in {figures['memory_mib']:.0f} MiB"
    yield "; ".join(_describe_delays(figures)) or "no audio was lost"


def _describe_delays(figures: dict[str, Any]) -> Iterator[str]:
    """Yield the latencies, and audio that was not transcribed."""
    first_s = figures["first_partial_latency_s_median"]
    final_s = figures["final_latency_s_median"]
    if final_s is not None:
        first = "" if first_s is None else f"first text after {first_s:.2f} s, "
        yield f"{first}final text {final_s:.2f} s after the end of speech (medians)"
    settle_s = figures["word_settle_s_median"]
    if settle_s is not None:
        latest_s = figures["word_settle_s_p95"]
        yield f"half of the words were final within {settle_s:.1f} s, 95 % within {latest_s:.1f} s"
    if figures["untranscribed_s"]:
        yield f"{figures['untranscribed_s']:.1f} s of speech gave no text"
    if figures["lost_s"]:
        yield f"{figures['lost_s']:.1f} s were lost"
    if figures["absences"]:
        yield f"the source was away {figures['away_s']:.1f} s"
    n_stalls = figures["stalls"]
    if n_stalls:
        how_often = "once" if n_stalls == 1 else f"{n_stalls} times"
        yield f"{how_often} no audio arrived for two seconds or more"
    if figures["paused_s"]:
        yield f"it was paused {figures['paused_s']:.1f} s"


class LatencyWarning:
    """Warns once when captions fall behind what is said, by their statistics."""

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._has_warned = False

    def put(self, event: Event) -> None:
        """Check how late a final text came."""
        behind_s = self._statistics.behind_s
        if (
            isinstance(event, Completed)
            and behind_s > BEHIND_S
            and not self._has_warned
        ):
            self._has_warned = True
            logger.warning(
                "captions are %.0f s behind: this computer cannot keep up; use a "
                "smaller --model or --min-partial 1, or close other programs",
                behind_s,
            )


def _count_columns(text: str) -> int:
    from rich.cells import cell_len  # takes longer than the rest of this file

    return cell_len(text)
