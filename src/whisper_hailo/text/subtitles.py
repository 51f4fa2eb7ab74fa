"""Subtitles: their notation, and cues that follow the model's segments or the user's limits.

Cues are made while segments come: each as soon as no more words can be added to it. `cue_setter`
makes the default ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_choices, require_valid
from whisper_hailo.core.types import Segment, Speaker, Word

_SENTENCE_ENDS: Final = tuple(".!?…。！？")  # noqa: RUF001 - full-width marks are meant
_CLAUSE_ENDS: Final = tuple(",;:—–、，；：")  # noqa: RUF001 - full-width marks are meant

_CLOSING_MARKS: Final = "\"'»”)] "
"""Quotes, brackets and spaces that may follow the end of a sentence."""


def split_clauses(
    words: Sequence[Word], max_width: int, max_lines: int
) -> Iterator[Sequence[Word]]:
    """Yield the words of each cue, in order; a word longer than a line has its own.

    A cue ends where a sentence does, else where a clause does, else as late as it can, but has at
    least half of the words that fit.
    """
    rest = list(words)
    while rest:
        lines = _fill_lines(rest, max_width)
        n_fitting = sum(len(line) for line in lines[:max_lines])
        n_words = n_fitting
        if n_fitting < len(rest):
            half = (n_fitting + 1) // 2
            n_words = _best_end(rest, range(half, n_fitting + 1))
        yield rest[:n_words]
        rest = rest[n_words:]


def _best_end(words: Sequence[Word], counts: Iterable[int]) -> int:
    """Return how many words a cue takes, of several counts: up to the last of the best breaks."""
    return max(counts, key=lambda n_words: (_rank_break(words[n_words - 1]), n_words))


def split_lines(words: Sequence[Word], max_width: int) -> list[str]:
    """Split the words of a cue into lines; two are split at a clause, or near the middle."""
    lines = [_join_words(line) for line in _fill_lines(words, max_width)]
    if len(lines) != 2:
        return lines
    least_cost = math.inf
    for n_words in range(1, len(words)):
        upper = _join_words(words[:n_words])
        lower = _join_words(words[n_words:])
        if max(len(upper), len(lower)) > max_width:
            continue
        unevenness = abs(len(upper) - len(lower))
        # A better break outweighs any difference in width.
        cost = unevenness - max_width * _rank_break(words[n_words - 1])
        if cost < least_cost:
            lines = [upper, lower]
            least_cost = cost
    return lines


def _fill_lines(words: Sequence[Word], max_width: int) -> list[list[Word]]:
    """Return words as lines, each as full as possible."""
    lines: list[list[Word]] = []
    for word in words:
        if lines:
            longer_line = [*lines[-1], word]
            if len(_join_words(longer_line)) <= max_width:
                lines[-1] = longer_line
                continue
        lines.append([word])
    return lines


def _rank_break(word: Word) -> int:
    """Return 2 for the end of a sentence, 1 for that of a clause, else 0."""
    text = word.text.rstrip(_CLOSING_MARKS)
    if text.endswith(_SENTENCE_ENDS):
        return 2
    return 1 if text.endswith(_CLAUSE_ENDS) else 0


def _join_words(words: Sequence[Word]) -> str:
    text = "".join(word.text for word in words)
    return text.strip()


_SUBTITLES: Final = "Subtitles"  # heading in the help

READABLE: Final = "readable"
SEGMENTS: Final = "segments"

_PAUSE_S: Final = 3.0
"""A longer pause ends a cue, as in OpenAI Whisper."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How subtitles are set; with a line width and count, cues may span segments.

    Attributes:
        cues: `readable` sets them by the rules of subtitling guides; `segments` has one for each
            segment of the model, or with limits fills lines word by word.
    """

    cues: str = flag(
        READABLE,
        "Cues set for reading, or one per segment",
        _SUBTITLES,
        choices=(READABLE, SEGMENTS),
    )

    max_line_width: int | None = flag(None, "Characters of a line.", _SUBTITLES)
    max_line_count: int | None = flag(None, "Lines per cue.", _SUBTITLES)
    max_words_per_line: int | None = flag(None, "Words of a line.", _SUBTITLES)
    highlight_words: bool = flag(False, "Underline each word in its time.", _SUBTITLES)

    def __post_init__(self) -> None:
        require_choices(self)
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            value = getattr(self, name)
            require_valid(self, name, value is None or value >= 1, "1 or more")
        if self.max_line_count is not None and self.max_line_width is None:
            raise OptionError("--max-line-count needs --max-line-width; give both")

    @property
    def is_readable(self) -> bool:
        """Whether cues are set for reading, within the limits of lines if both are given.

        With `max_line_width` alone lines are split within the model's segments, and other options
        fill lines word by word, as in OpenAI Whisper.
        """
        counts_words = self.max_words_per_line is not None or self.highlight_words
        if self.cues != READABLE or counts_words:
            return False
        return self.max_line_width is None or self.max_line_count in (1, 2)


@dataclass(frozen=True, slots=True)
class Cue:
    """Text that is on screen at one time.

    Attributes:
        text: with its line ends.
        speaker: as in `Segment`.
    """

    start_s: float
    end_s: float
    text: str
    speaker: Speaker | None = None


def format_srt(cue: Cue, number: int) -> str:
    """Return a cue as SubRip, with its number."""
    times = _time_line(cue, ",")
    label = speaker_label(cue.speaker)
    text = _escape_arrows(cue.text)
    return f"{number}\n{times}\n{label}{text}\n\n"


def format_vtt(cue: Cue, number: int) -> str:
    """Return a cue as WebVTT, with the speaker as its voice; its cues need no number."""
    del number
    times = _time_line(cue, ".")
    voice = ""
    if cue.speaker is not None:
        name = _escape_markup(speaker_name(cue.speaker))
        voice = f"<v {name}>"
    text = _escape_markup(_escape_arrows(cue.text))
    return f"{times}\n{voice}{text}\n\n"


def _time_line(cue: Cue, mark: str) -> str:
    """Return the line with the times of a cue, `mark` before their milliseconds."""
    start = cue_time(cue.start_s, mark)
    end = cue_time(cue.end_s, mark)
    return f"{start} --> {end}"


def _escape_arrows(text: str) -> str:
    """Return a text without `-->`, by which players recognise the line with the times."""
    return text.replace("-->", "->")


def _escape_markup(text: str) -> str:
    """Return a text without the marks that WebVTT gives a meaning, but with our underlines."""
    import html  # here, since its table of entities is large

    escaped = html.escape(text, quote=False)
    return escaped.replace("&lt;u&gt;", "<u>").replace("&lt;/u&gt;", "</u>")


class CueWriter:
    """Groups the words of segments into cues; a layout without limits gives one per segment."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._begin()

    def _begin(self) -> None:
        self._words: list[Word] = []
        self._speaker: Speaker | None = None
        self._n_lines = 1
        self._width = 0  # of the last line, as `_n_words`
        self._n_words = 0

    def write(self, segment: Segment) -> Iterator[Cue]:
        """Yield the cues that no more words can be added to."""
        layout = self._layout
        if layout.max_line_width is None and layout.max_words_per_line is None:
            if segment.text:
                yield from self._make_cues(timed_words(segment), segment.speaker)
            return
        spans_segments = layout.max_line_count is not None
        for index, word in enumerate(timed_words(segment)):
            is_new_segment = index == 0 and not spans_segments
            must_end = is_new_segment or segment.speaker != self._speaker
            if self._words and (must_end or not self._has_room(word)):
                yield from self.finish()
            self._add(word, segment.speaker)

    def finish(self) -> Iterator[Cue]:
        """Yield the cue that waits for more words, if there is one."""
        words = self._words
        speaker = self._speaker
        self._begin()  # first: a caller may stop reading after the first cue
        if words:
            yield from self._make_cues(words, speaker)

    def _fits_line(self, word: Word) -> bool:
        """Return whether the last line has room for a word."""
        max_width = self._layout.max_line_width
        max_words = self._layout.max_words_per_line
        width = self._width + len(word.text.rstrip())
        if max_width is not None and width > max_width:
            return False
        return max_words is None or self._n_words < max_words

    def _has_room(self, word: Word) -> bool:
        """Return whether a word follows without a pause and fits, on this line or another."""
        pause_s = word.start_s - self._words[-1].end_s
        if pause_s > _PAUSE_S:
            return False
        has_lines = self._layout.max_line_width is not None
        may_add_line = has_lines and self._n_lines != self._layout.max_line_count
        return may_add_line or self._fits_line(word)

    def _add(self, word: Word, speaker: Speaker | None) -> None:
        """Add a word; if it begins a further line, a line end is added to its text."""
        text = word.text.rstrip()
        if not self._words:
            text = text.lstrip()
        elif not self._fits_line(word):
            text = "\n" + text.lstrip()
            self._width = 0
            self._n_words = 0
            self._n_lines += 1
        self._words.append(replace(word, text=text))
        self._speaker = speaker
        self._width += len(text.lstrip("\n"))
        self._n_words += 1

    def _make_cues(
        self, words: Sequence[Word], speaker: Speaker | None
    ) -> Iterator[Cue]:
        """Yield the text once, or repeatedly with each word underlined in its time."""
        text = _join_words(words)
        start_s = words[0].start_s
        if not self._layout.highlight_words:
            yield Cue(start_s, words[-1].end_s, text, speaker)
            return
        for index, word in enumerate(words):
            if word.start_s > start_s:
                yield Cue(start_s, word.start_s, text, speaker)
            underlined = list(words)
            underlined[index] = _underline(word)
            yield Cue(word.start_s, word.end_s, _join_words(underlined), speaker)
            start_s = word.end_s


def _underline(word: Word) -> Word:
    """Return a word with its text underlined, but not the space or line end before it."""
    text = word.text.lstrip()
    lead = word.text.removesuffix(text)
    return replace(word, text=f"{lead}<u>{text}</u>")


def timed_words(segment: Segment) -> Sequence[Word]:
    """Return a segment's words; without word times they share its time by their length."""
    if segment.words:
        return segment.words
    texts = [f" {text}" for text in segment.text.split()]
    return spread_times(texts, segment.start_s, segment.end_s)


def spread_times(texts: Sequence[str], start_s: float, end_s: float) -> list[Word]:
    """Return words that share a time by their length; their probability is unknown, so 0."""
    n_letters = sum(len(text) for text in texts)
    duration_s = end_s - start_s
    words = []
    n_before = 0
    word_start_s = start_s
    for text in texts:
        n_before += len(text)
        word_end_s = start_s + duration_s * n_before / max(1, n_letters)
        words.append(Word(word_start_s, word_end_s, text, 0.0))
        word_start_s = word_end_s
    return words


def speaker_label(speaker: Speaker | None) -> str:
    """Return the speaker's label; empty without one."""
    return "" if speaker is None else f"{speaker_name(speaker)}: "


def speaker_name(speaker: Speaker) -> str:
    """Return the name that was given, or `Speaker 1` and so on."""
    return speaker if isinstance(speaker, str) else f"Speaker {speaker + 1}"


def cue_time(seconds: float, mark: str) -> str:
    """Format a cue's time, such as `00:00:01,500`, with `mark` before the milliseconds."""
    ms = round(max(0.0, seconds) * 1000)
    hours, ms = divmod(ms, 3_600_000)
    minutes, ms = divmod(ms, 60_000)
    whole_seconds, ms = divmod(ms, 1000)
    clock = f"{hours:02d}:{minutes:02d}:{whole_seconds:02d}"
    return f"{clock}{mark}{ms:03d}"
