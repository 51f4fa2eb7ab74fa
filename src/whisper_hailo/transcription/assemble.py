"""From a window's tokens to its timed segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.words import split_words
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.window import WindowResult


@dataclass(frozen=True, slots=True)
class TimedTokens:
    """Ids of one segment, timestamps included, and its times within the window."""

    start_s: float
    end_s: float
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """A window's tokens by segments.

    Attributes:
        segments: in order of time.
        advance_s: seconds from this window's start to the next one's.
        ends_alone: the window ends with a single timestamp: no speech follows it.
    """

    segments: tuple[TimedTokens, ...]
    advance_s: float
    ends_alone: bool


def split_at_timestamps(
    tokens: Sequence[int], begin: int | None, content_s: float, *, keeps_rest: bool = False
) -> Split:
    """Split where one segment's end meets the next one's start.

    Text after the last pair is an unfinished segment: it is left to the next window, which starts
    at that pair. Without pairs all of the window is one segment, and the next one follows it.

    Args:
        tokens: ids of the window.
        begin: id of `<|0.00|>`; `None` for models without timestamps.
        content_s: seconds of audio in the window.
        keeps_rest: the next window starts elsewhere, so keep an unfinished segment.

    Source: OpenAI Whisper, `transcribe`.
    """
    if begin is None:
        whole = TimedTokens(0.0, content_s, tuple(tokens))
        return Split((whole,), content_s, ends_alone=False)
    is_time = [token >= begin for token in tokens]
    ends_alone = is_time[-2:] == [False, True]
    seams = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    if not seams:
        later = [token for token in tokens if token > begin]
        end_s = (later[-1] - begin) * SECONDS_PER_TIMESTAMP if later else content_s
        return Split((TimedTokens(0.0, end_s, tuple(tokens)),), content_s, ends_alone)
    if ends_alone or keeps_rest:
        seams.append(len(tokens))
    parts = [tuple(tokens[a:b]) for a, b in zip([0, *seams], seams, strict=False)]
    segments = tuple(
        TimedTokens(
            start_s=max(0, part[0] - begin) * SECONDS_PER_TIMESTAMP,
            end_s=(part[-1] - begin) * SECONDS_PER_TIMESTAMP if part[-1] >= begin else content_s,
            tokens=part,
        )
        for part in parts
    )
    return Split(segments, content_s if ends_alone else segments[-1].end_s, ends_alone)


def assemble_segments(
    window: Window, decoded: Decoded, language: str, tokenizer: Tokenizer, options: DecodingOptions
) -> WindowResult:
    """Split a window's tokens at their timestamps; silence and empty segments are dropped."""
    content_s = window.content_s
    begin = tokenizer.special.timestamp_begin if options.timestamps else None
    split = split_at_timestamps(decoded.tokens, begin, content_s, keeps_rest=not window.is_sought)
    silent = decoded.is_silence(options.thresholds)
    timed = () if silent else split.segments
    segments = (_segment(window, decoded, part, language, tokenizer) for part in timed)
    return WindowResult(
        window=window,
        decoded=decoded,
        segments=tuple(segment for segment in segments if segment.text),
        advance_s=split.advance_s,
        ends_alone=split.ends_alone,
        silent=silent,
        end_s=window.locate(min(timed[-1].end_s, content_s)) if timed else None,
        language=language,
    )


def _segment(
    window: Window, decoded: Decoded, part: TimedTokens, language: str, tokenizer: Tokenizer
) -> Segment:
    content_s = window.content_s
    return Segment(
        start_s=window.locate(min(part.start_s, content_s), is_start=True),
        end_s=window.locate(min(part.end_s, content_s)),
        text=tokenizer.decode(part.tokens).strip(),
        tokens=part.tokens,
        avg_logprob=decoded.avg_logprob,
        no_speech_prob=decoded.no_speech_prob,
        runaway=decoded.runaway,
        temperature=decoded.temperature,
        compression_ratio=decoded.compression_ratio,
        language=language,
        window_start_s=window.start_s,
    )


def round_times(segment: Segment) -> Segment:
    """Return the segment with its times rounded to 0.1 ms, for output.

    Until then they stay exact: rules about words compare differences of times.
    """
    words = tuple(
        replace(word, start_s=round(word.start_s, 4), end_s=round(word.end_s, 4))
        for word in segment.words
    )
    return replace(
        segment,
        start_s=round(segment.start_s, 4),
        end_s=round(segment.end_s, 4),
        words=words,
        window_start_s=round(segment.window_start_s, 4),
    )


def spread_words(result: WindowResult, tokenizer: Tokenizer | None) -> WindowResult:
    """Add words to a result without alignment, timed by their number of letters.

    Good enough to join overlapping windows; these times are never shown.
    """
    segments = []
    for segment in result.segments:
        if tokenizer is None:
            pieces: Sequence[tuple[str, tuple[int, ...]]] = [
                (f" {word}", ()) for word in segment.text.split()
            ]
        else:
            text = [token for token in segment.tokens if token < tokenizer.special.eot]
            pieces = split_words(tokenizer, text, segment.language)
        n_letters = sum(len(text) for text, _ in pieces)
        duration_s, at, words = segment.end_s - segment.start_s, 0, []
        for word, tokens in pieces:
            start_s = segment.start_s + duration_s * at / n_letters
            at += len(word)
            end_s = segment.start_s + duration_s * at / n_letters
            words.append(Word(start_s, end_s, word, 0.0, tokens))
        segments.append(replace(segment, words=tuple(words)))
    return replace(result, segments=tuple(segments))
