"""Segments of a window: its tokens split at timestamps, timed in the recording, and rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.words import split_words
from whisper_hailo.text.subtitles import spread_times
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.window import WindowResult


class TimedTokens(NamedTuple):
    """Ids of one segment, timestamps included, and its times within the window."""

    start_s: float
    end_s: float
    tokens: tuple[int, ...]


class Split(NamedTuple):
    """A window's tokens by segments; `advance_s` and `ends_alone` as in `WindowResult`."""

    segments: list[TimedTokens]
    advance_s: float
    ends_alone: bool


def split_at_timestamps(
    tokens: Sequence[int],
    begin: int | None,
    content_s: float,
    *,
    keeps_rest: bool = False,
) -> Split:
    """Split where one segment's end meets the next one's start.

    Text after the last pair is an unfinished segment: it is left to the next window, which starts
    at that pair, unless it `keeps_rest`. Without pairs all of the window is one segment, and the
    next one follows it. `begin` is the id of `<|0.00|>`; `None` for models without timestamps.

    Source: OpenAI Whisper, `transcribe`.
    """
    if begin is None:
        whole = TimedTokens(0.0, content_s, tuple(tokens))
        return Split([whole], content_s, ends_alone=False)

    def time_of(token: int) -> float:
        return max(0, token - begin) * SECONDS_PER_TIMESTAMP

    is_time = [token >= begin for token in tokens]
    ends_alone = is_time[-2:] == [False, True]
    seams = _find_seams(is_time)
    if not seams:
        later = [token for token in tokens if token > begin]
        end_s = time_of(later[-1]) if later else content_s
        return Split([TimedTokens(0.0, end_s, tuple(tokens))], content_s, ends_alone)
    if ends_alone or keeps_rest:
        seams.append(len(tokens))
    segments: list[TimedTokens] = []
    for first, end in pairwise([0, *seams]):
        part = tuple(tokens[first:end])
        end_s = time_of(part[-1]) if part[-1] >= begin else content_s
        segments.append(TimedTokens(time_of(part[0]), end_s, part))
    return Split(segments, content_s if ends_alone else segments[-1].end_s, ends_alone)


def _find_seams(is_time: Sequence[bool]) -> list[int]:
    """Return the indices of timestamps that follow a timestamp."""
    seams: list[int] = []
    for index, (before, after) in enumerate(pairwise(is_time), start=1):
        if before and after:
            seams.append(index)
    return seams


def assemble_segments(
    window: Window,
    decoded: Decoded,
    language: str,
    tokenizer: Tokenizer,
    options: DecodingOptions,
) -> WindowResult:
    """Return a window's result, its tokens split at their timestamps.

    A silent window has no segments, and none of the others is empty.
    """
    begin = tokenizer.special.timestamp_begin if options.timestamps else None
    split = split_at_timestamps(
        decoded.tokens, begin, window.content_s, keeps_rest=not window.is_sought
    )
    is_silent = decoded.is_silence(options.thresholds)
    timed = [] if is_silent else split.segments
    segments: list[Segment] = []
    for part in timed:
        text = tokenizer.decode(part.tokens).strip()
        if any(character.isalnum() for character in text):  # marks alone are no text
            segments.append(_make_segment(window, decoded, language, part, text))
    return WindowResult(
        window=window,
        decoded=decoded,
        segments=tuple(segments),
        advance_s=split.advance_s,
        ends_alone=split.ends_alone,
        silent=is_silent,
        end_s=_locate_end(window, timed[-1].end_s) if timed else None,
        language=language,
    )


def _make_segment(
    window: Window, decoded: Decoded, language: str, part: TimedTokens, text: str
) -> Segment:
    """Return a segment, timed in the recording."""
    return Segment(
        start_s=window.locate(min(part.start_s, window.content_s), is_start=True),
        end_s=_locate_end(window, part.end_s),
        text=text,
        tokens=part.tokens,
        avg_logprob=decoded.avg_logprob,
        no_speech_prob=decoded.no_speech_prob,
        runaway=decoded.runaway,
        temperature=decoded.temperature,
        compression_ratio=decoded.compression_ratio,
        language=language,
        window_start_s=window.start_s,
    )


def _locate_end(window: Window, end_s: float) -> float:
    """Return an end in the recording, at most that of the window's audio."""
    return window.locate(min(end_s, window.content_s))


TimedT = TypeVar("TimedT", Segment, Word)


def round_times(segment: Segment) -> Segment:
    """Return the segment with its times rounded to 0.1 ms, for output.

    Until then they stay exact: rules about words compare differences of times.
    """
    return replace(
        _round_start_and_end(segment),
        words=tuple(_round_start_and_end(word) for word in segment.words),
        window_start_s=round(segment.window_start_s, 4),
    )


def _round_start_and_end(timed: TimedT) -> TimedT:
    return replace(timed, start_s=round(timed.start_s, 4), end_s=round(timed.end_s, 4))


def start_after(segment: Segment, end_s: float) -> Segment:
    """Return the segment, with its words, starting where the previous one ends at the earliest.

    At the seam of two windows their times differ by an encoder position or two.
    """
    if segment.start_s >= end_s:
        return segment
    words = tuple(
        replace(word, start_s=max(word.start_s, end_s), end_s=max(word.end_s, end_s))
        for word in segment.words
    )
    return replace(segment, start_s=end_s, end_s=max(segment.end_s, end_s), words=words)


def spread_words(segments: Sequence[Segment], tokenizer: Tokenizer) -> list[Segment]:
    """Add words without alignment, timed by their letters: good enough to join windows."""
    eot = tokenizer.special.eot
    spread: list[Segment] = []
    for segment in segments:
        text = [token for token in segment.tokens if token < eot]
        pieces = split_words(tokenizer, text, segment.language)
        timed = spread_times(
            [word for word, _ in pieces], segment.start_s, segment.end_s
        )
        words = [
            replace(word, tokens=tokens)
            for word, (_, tokens) in zip(timed, pieces, strict=True)
        ]
        spread.append(replace(segment, words=tuple(words)))
    return spread
