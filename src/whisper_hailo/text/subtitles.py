"""Subtitles: which words form a cue, for how long, in which notation.

Cues are made while segments come: each as soon as nothing can be added to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_valid
from whisper_hailo.core.types import Segment, Word

_SENTENCE_ENDS: Final = tuple(".!?…。！？")  # noqa: RUF001 - full-width marks are meant
_CLAUSE_ENDS: Final = tuple(",;:—–、，；：")  # noqa: RUF001 - likewise


def split_clauses(
    words: Sequence[Word], max_width: int, max_lines: int
) -> Iterator[Sequence[Word]]:
    """Yield the words of each cue, in order; a word longer than a line has its own.

    A cue ends where a sentence does, else where a clause does, else as late as it can, but has at
    least half of what fits.
    """
    rest = list(words)
    while rest:
        n_words = n_fit = sum(map(len, _fill_lines(rest, max_width)[:max_lines]))
        if n_fit < len(rest):
            ends = range((n_fit + 1) // 2, n_fit + 1)
            n_words = max(ends, key=lambda end: (_rank_break(rest[end - 1]), end))
        yield rest[:n_words]
        rest = rest[n_words:]


def split_lines(words: Sequence[Word], max_width: int) -> list[str]:
    """Split the words of a cue into lines; two are split at a clause, or near the middle."""
    filled = [_join_words(line) for line in _fill_lines(words, max_width)]
    if len(filled) != 2:
        return filled
    best, least = filled, math.inf
    for at in range(1, len(words)):
        lines = [_join_words(words[:at]), _join_words(words[at:])]
        widths = list(map(len, lines))
        unevenness = abs(widths[0] - widths[1]) - max_width * _rank_break(words[at - 1])
        if max(widths) <= max_width and unevenness < least:
            best, least = lines, unevenness
    return best


def _fill_lines(words: Sequence[Word], max_width: int) -> list[list[Word]]:
    """Return words as lines, each as full as possible."""
    filled: list[list[Word]] = []
    for word in words:
        if filled and len(_join_words([*filled[-1], word])) <= max_width:
            filled[-1].append(word)
        else:
            filled.append([word])
    return filled


def _rank_break(word: Word) -> int:
    """Return 2 for the end of a sentence, 1 for that of a clause."""
    text = word.text.rstrip("\"'»”)] ")
    return 2 * text.endswith(_SENTENCE_ENDS) or 1 * text.endswith(_CLAUSE_ENDS)


def _join_words(words: Sequence[Word]) -> str:
    return "".join(word.text for word in words).strip()


_SUBTITLES: Final = "Subtitles"

_PAUSE_S: Final = 3.0
"""A pause as long as this ends a cue, as in OpenAI Whisper."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How subtitles are set; with a line width and count, cues may span segments."""

    max_line_width: int | None = flag(None, "Characters of a line.", _SUBTITLES)
    max_line_count: int | None = flag(None, "Lines per cue.", _SUBTITLES)
    max_words_per_line: int | None = flag(None, "Words of a line.", _SUBTITLES)
    highlight_words: bool = flag(False, "Underline each word in its time.", _SUBTITLES)

    def __post_init__(self) -> None:
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            value = getattr(self, name)
            require_valid(self, name, value is None or value >= 1, "1 or more")
        if self.max_line_count is not None and self.max_line_width is None:
            raise OptionError("--max-line-count needs --max-line-width; give both")


@dataclass(frozen=True, slots=True)
class Cue:
    """Text on screen at one time, with its line ends and its speaker's channel."""

    start_s: float
    end_s: float
    text: str
    speaker: int | None = None


def format_srt(cue: Cue, number: int) -> str:
    """Return a cue as SubRip, with its number."""
    times = f"{cue_time(cue.start_s, ',')} --> {cue_time(cue.end_s, ',')}"
    return f"{number}\n{times}\n{speaker_label(cue.speaker)}{_without_arrows(cue.text)}\n\n"


def format_vtt(cue: Cue, number: int) -> str:
    """Return a cue as WebVTT, with the speaker as its voice; its cues need no number."""
    del number
    times = f"{cue_time(cue.start_s, '.')} --> {cue_time(cue.end_s, '.')}"
    voice = "" if cue.speaker is None else f"<v Speaker {cue.speaker + 1}>"
    return f"{times}\n{voice}{_without_arrows(cue.text)}\n\n"


def _without_arrows(text: str) -> str:
    return text.replace("-->", "->")  # a line with `-->` is read as times


class CueWriter:
    """Sets the words of segments as cues; one per segment where the layout says nothing."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._begin()

    def _begin(self) -> None:
        self._words: list[Word] = []
        self._speaker: int | None = None
        self._width, self._n_words, self._n_lines = 0, 0, 1

    def write(self, segment: Segment) -> Iterator[Cue]:
        """Yield the cues that nothing can be added to any more."""
        if self._layout.max_line_width is None and self._layout.max_words_per_line is None:
            if segment.text:
                yield from self._cues(timed_words(segment), segment.speaker)
            return
        flows = self._layout.max_line_count is not None
        for index, word in enumerate(timed_words(segment)):
            ends = segment.speaker != self._speaker or (index == 0 and not flows)
            if self._words and (ends or not self._takes(word)):
                yield from self.finish()
            self._add(word, segment.speaker)

    def finish(self) -> Iterator[Cue]:
        """Yield the cue that waits for more words, if there is one."""
        words, speaker = self._words, self._speaker
        self._begin()
        if words:
            yield from self._cues(words, speaker)

    def _fits_line(self, word: Word) -> bool:
        width, n_words = self._layout.max_line_width, self._layout.max_words_per_line
        return (width is None or self._width + len(word.text.rstrip()) <= width) and (
            n_words is None or self._n_words < n_words
        )

    def _takes(self, word: Word) -> bool:
        """Return whether a word follows without a pause and has room, on this line or another."""
        if word.start_s - self._words[-1].end_s > _PAUSE_S:
            return False
        has_lines = self._layout.max_line_width is not None
        another = has_lines and self._n_lines != self._layout.max_line_count
        return another or self._fits_line(word)

    def _add(self, word: Word, speaker: int | None) -> None:
        """Add a word; its text begins with a line end where it begins a line."""
        text = word.text.rstrip()
        if not self._words:
            text = text.lstrip()
        elif not self._fits_line(word):
            text = "\n" + text.lstrip()
            self._width, self._n_words = 0, 0
            self._n_lines += 1
        self._words.append(replace(word, text=text))
        self._speaker = speaker
        self._width += len(text.lstrip("\n"))
        self._n_words += 1

    def _cues(self, words: Sequence[Word], speaker: int | None) -> Iterator[Cue]:
        """Yield the text once, or repeatedly with each word underlined in its time."""
        shown_s, end_s = words[0].start_s, words[-1].end_s
        if not self._layout.highlight_words:
            yield Cue(shown_s, end_s, _join_words(words), speaker)
            return
        for index, word in enumerate(words):
            if word.start_s > shown_s:
                yield Cue(shown_s, word.start_s, _join_words(words), speaker)
            bare = word.text.lstrip()
            lead = word.text[: len(word.text) - len(bare)]
            marked = replace(word, text=f"{lead}<u>{bare}</u>")
            text = _join_words([*words[:index], marked, *words[index + 1 :]])
            yield Cue(word.start_s, word.end_s, text, speaker)
            shown_s = word.end_s


def timed_words(segment: Segment) -> Sequence[Word]:
    """Return a segment's words; without word times they share its time by their length."""
    texts = [f" {text}" for text in segment.text.split()]
    return segment.words or spread_times(texts, segment.start_s, segment.end_s)


def spread_times(texts: Sequence[str], start_s: float, end_s: float) -> list[Word]:
    """Return words that share a time by their length."""
    ends = list(accumulate(map(len, texts), initial=0))
    times_s = [start_s + (end_s - start_s) * end / max(1, ends[-1]) for end in ends]
    pairs = zip(texts, pairwise(times_s), strict=True)
    return [Word(*times, text, 0.0) for text, times in pairs]


def speaker_label(speaker: int | None) -> str:
    """Return the speaker's label; empty without one."""
    return "" if speaker is None else f"Speaker {speaker + 1}: "


def cue_time(seconds: float, mark: str) -> str:
    """Format a cue's time, such as `00:00:01,500`, with `mark` before the milliseconds."""
    ms = round(max(0.0, seconds) * 1000)
    hours, ms = divmod(ms, 3_600_000)
    minutes, ms = divmod(ms, 60_000)
    whole, ms = divmod(ms, 1000)
    return f"{hours:02d}:{minutes:02d}:{whole:02d}{mark}{ms:03d}"
