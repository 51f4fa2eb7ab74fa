"""Views of captions on a terminal or in JSON, and the figures at their end."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from shutil import get_terminal_size
from typing import Any, Final

from whisper_hailo.cli.messages import is_verbose, note
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import shaded
from whisper_hailo.core.errors import display_path
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Cleared,
    Completed,
    Control,
    Event,
    Lost,
    Marker,
    Partial,
    Settings,
    Started,
    as_json,
)
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.text.subtitles import speaker_label

_ERASE: Final = "\r\x1b[K"
_DIM, _RESET = "\x1b[2m", "\x1b[0m"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ELLIPSIS: Final = "…"

BEHIND_S: Final = 5.0
"""A reader has lost the speaker by then."""

_CAUGHT_UP_S: Final = 1.0

logger = logging.getLogger(__name__)


class JsonView:
    """Writes events to standard output as JSON Lines."""

    def put(self, event: Event) -> None:
        emit_json(as_json(event))


class TerminalView:
    """Writes captions to standard output."""

    def __init__(self, *, colour: bool = False, terminal: bool | None = None) -> None:
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        self._colour = colour and self._terminal

    def put(self, event: Event) -> None:
        if isinstance(event, Completed):
            erase = _ERASE if self._terminal else ""
            words = _of_speaker(event.speaker, event.words)
            if event.text:
                emit(erase + "".join(f"{line}\n" for line in self._lines(words)))
                translated = [CaptionWord(f" {word}") for word in (event.translation or "").split()]
                for line in self._lines(_from_margin(translated)):
                    emit(f"{_DIM}{line}{_RESET}\n" if self._terminal else f"{line}\n")
            elif erase:
                emit(erase)
        elif isinstance(event, Partial) and self._terminal:
            emit(_ERASE + self._running(event))

    def close(self) -> None:
        if self._terminal:
            emit(_ERASE)

    def _lines(self, words: Sequence[CaptionWord]) -> Iterator[str]:
        """Yield the lines of a final text; on a terminal they end between words."""
        whole = [replace(word, text=clean(word.text)) for word in words]
        room = get_terminal_size().columns - 1 if self._terminal else 0
        while whole:
            line = first_columns(whole, room) if room else whole
            whole = _from_margin(whole[len(line) :])
            yield self._shaded(line) if self._colour else "".join(w.text for w in line).rstrip()

    def _running(self, event: Partial) -> str:
        """Return the end of the partial text, as much as one line holds."""
        room = max(4, get_terminal_size().columns - 1)  # the last column may wrap
        words = _of_speaker(event.speaker, [*event.committed, *event.tentative])
        texts = [clean(word.text) for word in words]
        shown = fitting(texts, room)
        kept = words[len(words) - len(shown) :]
        kept = [replace(word, text=text) for word, text in zip(kept, shown, strict=True)]
        dots = _ELLIPSIS if "".join(shown) != "".join(texts) else ""
        if self._colour:
            return dots + self._shaded(kept)
        n_settled = len(kept) - min(len(event.tentative), len(kept))
        settled, rest = "".join(shown[:n_settled]), "".join(shown[n_settled:])
        return f"{dots}{settled}{_DIM}{rest}{_RESET}" if rest else dots + settled

    def _shaded(self, words: Sequence[CaptionWord]) -> str:
        return "".join(shaded(clean(word.text), word.probability) for word in words)


def _of_speaker(speaker: int | None, words: Sequence[CaptionWord]) -> list[CaptionWord]:
    """Return words behind the name of their speaker, if there is one."""
    name = [CaptionWord(speaker_label(speaker))] if speaker is not None else []
    return [*name, *_from_margin(words)]


def _from_margin(words: Sequence[CaptionWord]) -> list[CaptionWord]:
    """Return words without leading whitespace."""
    while words and not words[0].text.strip():
        words = words[1:]
    return [replace(word, text=word.text.lstrip()) for word in words[:1]] + list(words[1:])


def clean(text: str) -> str:
    """Sanitize a text: no control characters, which move the cursor."""
    return _CONTROL.sub(" ", text).strip("\n")


def first_columns(words: Sequence[CaptionWord], room: int) -> Sequence[CaptionWord]:
    """Return as many of the first words as fit `room` columns; at least one."""
    for n_words in range(1, len(words)):
        if _columns("".join(word.text for word in words[: n_words + 1])) > room:
            return words[:n_words]
    return words


def fitting(words: Sequence[str], room: int) -> list[str]:
    """Return as many of the last words as fit `room` columns with an ellipsis; at least one."""
    kept: list[str] = []
    left = room if _columns("".join(words)) <= room else room - _columns(_ELLIPSIS)
    for word in reversed(words):
        left -= _columns(word)
        if left < 0:
            if not kept:
                kept.append(_last_columns(word, room - _columns(_ELLIPSIS)))
            break
        kept.append(word)
    return kept[::-1]


def _last_columns(word: str, room: int) -> str:
    """Return the end of a word that is wider than the line."""
    while _columns(word) > room:
        word = word[1:]
    return word


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
            note(line)


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


class VerboseView:
    """Writes a line for each event, with the cost since the event before."""

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._before = copy(statistics)
        self._erase = _ERASE if sys.stderr.isatty() else ""  # the running line stands there

    def put(self, event: Event) -> None:
        print(self._erase + self._told(event), file=sys.stderr)
        self._before = copy(self._statistics)

    def _told(self, event: Event) -> str:
        if isinstance(event, Lost | Away | Back | Control):
            return _between(event)
        segment = f"segment {event.segment_id}"
        if isinstance(event, Started):
            return f"{segment} starts at {event.start_s:.2f} s"
        now, before = self._statistics, self._before
        heard_s = (now.n_heard_samples - before.n_heard_samples) / SAMPLE_RATE_HZ
        cost = f"{heard_s:.2f} s heard in {1000 * (now.compute_s - before.compute_s):.0f} ms"
        skipped = f", partials skipped: {event.n_skipped}" if event.n_skipped else ""
        if isinstance(event, Partial):
            return (
                f"{segment}: {cost}, decoder passes: {now.partial_passes - before.partial_passes}; "
                f"words that stay: {len(event.committed)}, "
                f"that may change: {len(event.tentative)}{skipped}"
            )
        return (
            f"{segment} ends at {event.end_s:.2f} s ({event.reason}): {cost}; "
            f"words: {len(event.words)}{skipped}"
        )


def _between(event: Lost | Away | Back | Control) -> str:
    """Describe an event between segments, or an action of a user."""
    match event:
        case Lost():
            return f"lost: {event.start_s:.2f} to {event.end_s:.2f} s"
        case Away():
            return f"away from {event.start_s:.2f} s: {event.why}"
        case Back():
            return f"back after {event.end_s - event.start_s:.2f} s"
        case Marker():
            return f"marker at {event.start_s:.2f} s: {display_path(event.label)}"
        case Cleared():
            return f"cleared at {event.start_s:.2f} s"
        case Settings():
            changed = ", ".join(f"{name} {value}" for name, value in event.settings.items())
            return f"settings from {event.start_s:.2f} s on: {changed}"


class LatencyWarning:
    """Warns once when the captions whose statistics these are fall behind, with advice."""

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._is_told = False

    def put(self, event: Event) -> None:
        """Check how late a final text came."""
        if not isinstance(event, Completed):
            return
        behind_s = self._statistics.behind_s
        if behind_s > BEHIND_S and not self._is_told:
            self._is_told = True
            logger.warning(
                "captions are %.0f s behind what is said: this machine has too much to compute; "
                "take a smaller --model, --min-partial 1, or end other programs",
                behind_s,
            )
        elif behind_s < _CAUGHT_UP_S:
            self._is_told = False


def _columns(text: str) -> int:
    from rich.cells import cell_len  # takes longer than the rest of this file

    return cell_len(text)
