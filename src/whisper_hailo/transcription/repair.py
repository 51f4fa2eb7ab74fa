"""Repair: speech that a window's text skips is decoded as a window of its own.

A window in two languages, or with a quiet voice before a loud one, mostly gets the text of one of
them. Heard alone, in its own language, the other one has a text, too. That costs another encoder
pass, but only where speech would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import SAMPLE_RATE_HZ, UntranscribedSpeech
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.own_language import LIKELY
from whisper_hailo.transcription.untranscribed import subtract_text
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
)

_PAD_S: Final = 0.3
"""Kept around speech: detectors miss soft first and last sounds."""

_MOST_SHARE: Final = 0.8
"""Of a window: more of it would be decoded again for the same text."""


def repair_windows(
    engine: DecoderEngine,
    encode: Callable[[Sequence[WindowRequest]], Encoded],
    clock: StageClock,
    requests: Sequence[WindowRequest],
    results: Sequence[WindowResult],
) -> Steps[list[WindowResult]]:
    """Return the results of windows, with texts of the speech that they skip.

    Stage times are added to `clock`.
    """
    repaired = list(results)
    for index, request in enumerate(requests):
        if not request.context.trusts_detector:
            continue  # what it takes for speech without text may have none
        for gap in _find_gaps(results[index]):
            part_request = _request_part(request, repaired[index], gap)
            encoded = encode([part_request])
            (part,) = yield from engine.decode_windows(encoded, [part_request])
            clock.add(encoded.clock)
            if _is_text(engine, part, part_request.context, repaired[index]):
                repaired[index] = _insert(repaired[index], part)
    return repaired


def _find_gaps(result: WindowResult) -> list[UntranscribedSpeech]:
    """Return the speech without text; windows that are packed or sought have none to repair."""
    window = result.window
    longest_s = _MOST_SHARE * window.content_s
    if window.pieces or window.is_sought:
        return []
    if not result.segments:  # every attempt failed; more of them would, too
        return []
    if result.decoded.runaway:  # the text was cut at a bound, which may be the caller's
        return []
    return [gap for gap in result.untranscribed if gap.end_s - gap.start_s <= longest_s]


def _request_part(
    request: WindowRequest, result: WindowResult, gap: UntranscribedSpeech
) -> WindowRequest:
    """Return a window of a gap and the silence around it, up to the text of its neighbours."""
    window = request.window
    ends_s = [part.end_s for part in result.segments if part.end_s <= gap.start_s]
    starts_s = [part.start_s for part in result.segments if part.start_s >= gap.end_s]
    start_s = max([gap.start_s - _PAD_S, window.start_s, *ends_s])
    end_s = min([gap.end_s + _PAD_S, window.end_s, *starts_s])
    first = round((start_s - window.start_s) * SAMPLE_RATE_HZ)
    end = round((end_s - window.start_s) * SAMPLE_RATE_HZ)
    part = Window(
        window.audio[first:end],
        window.start_s + first / SAMPLE_RATE_HZ,
        needs_words=window.needs_words,
    )
    return WindowRequest(part, _own_context(request.context))


def _own_context(context: Context) -> Context:
    """Return a context without earlier text, whose language is detected if that is allowed."""
    return replace(
        context,
        language=AUTO_LANGUAGE if context.detects else context.language,
        previous=(),
        language_probs={},
        n_detections=0,
        n_windows=1,  # the initial prompt was shown to the first window
        clock=StageClock(),
    )


def _is_text(
    engine: DecoderEngine, part: WindowResult, context: Context, whole: WindowResult
) -> bool:
    """Return whether a part has a text to trust, in a language to trust."""
    if not part.segments or not engine.trusts(part.decoded):
        return False
    is_known = part.language == whole.language or not context.language_probs
    return is_known or context.language_probs[part.language] >= LIKELY


def _insert(whole: WindowResult, part: WindowResult) -> WindowResult:
    """Return a window's result with the text of a part, in the order of time."""
    segments = sorted(
        (*whole.segments, *part.segments), key=lambda segment: segment.start_s
    )
    return replace(
        whole,
        segments=tuple(segments),
        silent=False,
        untranscribed=subtract_text(whole.untranscribed, segments),
    )
