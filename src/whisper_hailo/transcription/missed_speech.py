"""Speech that a window's text left out: where it goes on, and how its text is joined.

Whisper was trained on windows whose last sentence may be cut: it leaves that sentence to the next
window, and sometimes all that follows a pause. OpenAI Whisper seeks back to the end of the text.
Windows cut in advance are completed instead: the decoder gets its own text and the time at which
speech goes on, and may not end there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    SpeechDetector,
    frames_to_seconds,
    quiet_gain,
    split_frames,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, SECONDS_PER_TIMESTAMP, FloatArray
from whisper_hailo.decoding.decoded import Decoded, compression_ratio
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.attempt_checks import is_doubtful
from whisper_hailo.text.tokenizer import Tokenizer

MAX_ROUNDS: Final = 3
"""Times that a window's text is continued."""

_MIN_TAIL_S: Final = 1.0
"""Less audio after the text is the end of its last word."""

_MIN_SPEECH_S: Final = 0.6

_LEAD_S: Final = 0.2
"""Kept before speech: detectors miss soft first sounds."""


def settle_for_more(
    decoded: Decoded,
    audio: FloatArray,
    begin: int,
    detector: Callable[[], SpeechDetector],
) -> tuple[int, ...] | None:
    """Return a window's ids and the time at which its speech goes on; `None` where it does not.

    `audio` `(n_samples,)` is the window's, `begin` the id of `<|0.00|>`. The detector is only
    loaded if there is audio behind the text.
    """
    tokens = decoded.tokens
    if not tokens or tokens[-1] < begin:  # the text has no end
        return None
    end_s = (tokens[-1] - begin) * SECONDS_PER_TIMESTAMP
    tail = audio[round(end_s * SAMPLE_RATE_HZ) :]
    if tail.size < _MIN_TAIL_S * SAMPLE_RATE_HZ:
        return None
    onset_s = _find_onset(tail, detector())
    if onset_s is None:
        return None
    start_s = end_s + max(0.0, onset_s - _LEAD_S)
    start = begin + round(start_s / SECONDS_PER_TIMESTAMP)
    is_pair = len(tokens) > 1 and tokens[-2] >= begin
    text = tokens[:-1] if is_pair else tokens  # ends with the end of its last segment
    return (*text, start)


def _find_onset(tail: FloatArray, detector: SpeechDetector) -> float | None:
    """Return where speech begins, in seconds; `None` where there is too little of it."""
    detector.reset()
    frames = split_frames(quiet_gain(tail) * tail)
    is_speech = [detector.probability(frame) > CERTAIN_THRESHOLD for frame in frames]
    if frames_to_seconds(sum(is_speech)) < _MIN_SPEECH_S:
        return None
    return frames_to_seconds(is_speech.index(True))


def join_continuation(
    decoded: Decoded,
    continued: Decoded,
    n_settled: int,
    tokenizer: Tokenizer,
    limits: Thresholds,
) -> Decoded | None:
    """Return a window's tokens with those behind the `n_settled` first; `None` if they are no text.

    A doubtful continuation is left out rather than sampled: the window has its text already.
    """
    rest = continued.tokens[n_settled:]
    text = tokenizer.decode(rest).strip()
    rest_alone = replace(
        continued, tokens=rest, compression_ratio=compression_ratio(text)
    )
    if not text or continued.runaway or is_doubtful(rest_alone, limits):
        return None
    n_before = len(decoded.tokens)
    sum_logprob = decoded.avg_logprob * n_before + continued.avg_logprob * len(rest)
    whole = tokenizer.decode(continued.tokens).strip()
    return replace(
        decoded,
        tokens=continued.tokens,
        avg_logprob=sum_logprob / (n_before + len(rest)),
        compression_ratio=compression_ratio(whole),
    )
