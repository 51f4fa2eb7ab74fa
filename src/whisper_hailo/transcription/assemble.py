"""From a window's tokens to its timed segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.segments import TimedTokens, split_at_timestamps
from whisper_hailo.decoding.words.split import split_words
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.window import WindowResult


def assemble(
    window: Window, decoded: Decoded, language: str, tokenizer: Tokenizer, options: DecodingOptions
) -> WindowResult:
    """Split a window's tokens at their timestamps; silence and empty segments are dropped.

    Args:
        window: the window.
        decoded: its tokens.
        language: spoken in it.
        tokenizer: of the model.
        options: thresholds, and whether there are timestamps.
    """
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


def rounded(segment: Segment) -> Segment:
    """A segment with its times to a tenth of a millisecond, as they are told.

    Before, they are left as they were computed: rules about words compare their differences, and
    half a second more or less is a matter of the last bit.
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
    """Words of a decoder that cannot align them, their times by their number of letters.

    Good enough to join overlapping windows; these times are never shown.

    Args:
        result: a window's result.
        tokenizer: of the model; `None` where there is text but no tokens.
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
