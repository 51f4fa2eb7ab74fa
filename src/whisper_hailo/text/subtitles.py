"""Subtitles: which words form a cue, for how long, in which notation.

Cues are made while segments come: each as soon as nothing can be added to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    filled = _fill_lines(words, max_width)
    if len(filled) != 2:
        return [_join_words(line) for line in filled]
    best, least = [_join_words(line) for line in filled], math.inf
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

    @property
    def breaks_lines(self) -> bool:
        return self.max_line_width is not None or self.max_words_per_line is not None


@dataclass(frozen=True, slots=True)
class Cue:
    """Text on screen at one time, with its line ends and its speaker's channel."""

    start_s: float
    end_s: float
    text: str
    speaker: int | None = None


def srt_cue(cue: Cue) -> str:
    """Format a cue without its number."""
    times = f"{cue_time(cue.start_s, ',')} --> {cue_time(cue.end_s, ',')}"
    return f"{times}\n{speaker_label(cue.speaker)}{_escape_arrows(cue.text)}\n\n"


def vtt_cue(cue: Cue) -> str:
    """Format a cue, the speaker as its voice."""
    times = f"{cue_time(cue.start_s, '.')} --> {cue_time(cue.end_s, '.')}"
    voice = "" if cue.speaker is None else f"<v Speaker {cue.speaker + 1}>"
    return f"{times}\n{voice}{_escape_arrows(cue.text)}\n\n"


def tsv_row(segment: Segment) -> str:
    """Return start and end in ms and text, with tabs between, as OpenAI Whisper writes them."""
    text = f"{speaker_label(segment.speaker)}{' '.join(segment.text.split())}"
    return f"{round(segment.start_s * 1000)}\t{round(segment.end_s * 1000)}\t{text}\n"


class CueWriter:
    """Sets the words of segments as cues; one per segment where the layout says nothing."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._flows = layout.max_line_count is not None
        self._page = _Page(layout)

    def write(self, segment: Segment) -> Iterator[Cue]:
        """Yield the cues that nothing can be added to any more."""
        if not self._layout.breaks_lines:
            if segment.text:
                yield from self._cues(timed_words(segment), segment.speaker)
            return
        for index, word in enumerate(timed_words(segment)):
            page = self._page
            ends = segment.speaker != page.speaker or (index == 0 and not self._flows)
            if page.words and (ends or not page.takes(word)):
                yield from self.finish()
            self._page.add(word, segment.speaker)

    def finish(self) -> Iterator[Cue]:
        """Yield the cue that waits for more words, if there is one."""
        page, self._page = self._page, _Page(self._layout)
        if page.words:
            yield from self._cues(page.words, page.speaker)

    def _cues(self, words: Sequence[Word], speaker: int | None) -> Iterator[Cue]:
        """Return one cue; a word whose text begins with a line end begins a line."""
        if self._layout.highlight_words:
            return _highlight_words(words, speaker)
        return iter([Cue(words[0].start_s, words[-1].end_s, _join_underlined(words), speaker)])


class _Page:
    """A cue that is being filled."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._width = self._n_words = 0
        self._n_lines = 1
        self.words: list[Word] = []
        self.speaker: int | None = None

    def _fits_line(self, word: Word) -> bool:
        width, n_words = self._layout.max_line_width, self._layout.max_words_per_line
        return (width is None or self._width + len(word.text.rstrip()) <= width) and (
            n_words is None or self._n_words < n_words
        )

    def takes(self, word: Word) -> bool:
        """Return whether a word follows without a pause and has room, on this line or another."""
        if word.start_s - self.words[-1].end_s > _PAUSE_S:
            return False
        has_lines = self._layout.max_line_width is not None
        another = has_lines and self._n_lines != self._layout.max_line_count
        return another or self._fits_line(word)

    def add(self, word: Word, speaker: int | None) -> None:
        """Add a word, on a new line where this one is full."""
        text = word.text.rstrip()
        if not self.words:
            text = text.lstrip()
        elif not self._fits_line(word):
            text = "\n" + text.lstrip()
            self._width, self._n_words = 0, 0
            self._n_lines += 1
        self.words.append(Word(word.start_s, word.end_s, text, word.probability))
        self.speaker = speaker
        self._width += len(text.lstrip("\n"))
        self._n_words += 1


def timed_words(segment: Segment) -> Sequence[Word]:
    """Return a segment's words; without word times they share its time by their length."""
    if segment.words:
        return segment.words
    return spread_times(
        [f" {text}" for text in segment.text.split()], segment.start_s, segment.end_s
    )


def spread_times(texts: Sequence[str], start_s: float, end_s: float) -> list[Word]:
    """Return words that share a time by their length."""
    n_letters = max(1, sum(len(text) for text in texts))
    words, at, length_s = [], 0, end_s - start_s
    for text in texts:
        word_s = start_s + length_s * at / n_letters
        at += len(text)
        words.append(Word(word_s, start_s + length_s * at / n_letters, text, 0.0))
    return words


def _highlight_words(words: Sequence[Word], speaker: int | None) -> Iterator[Cue]:
    """Yield the same text repeatedly, with each word underlined in its time."""
    shown_s = words[0].start_s
    for index, word in enumerate(words):
        if word.start_s > shown_s:
            yield Cue(shown_s, word.start_s, _join_underlined(words), speaker)
        yield Cue(word.start_s, word.end_s, _join_underlined(words, index), speaker)
        shown_s = word.end_s


def _join_underlined(words: Sequence[Word], underlined: int | None = None) -> str:
    text = ""
    for index, word in enumerate(words):
        bare = word.text.lstrip()
        marked = f"<u>{bare}</u>" if index == underlined else bare
        text += word.text[: len(word.text) - len(bare)] + marked
    return text.strip()


def _escape_arrows(text: str) -> str:
    """Remove the arrow that separates times."""
    return text.replace("-->", "->")


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
