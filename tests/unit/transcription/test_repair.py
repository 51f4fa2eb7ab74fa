"""Speech that a window's text skips: what is decoded again, and which text is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.audio.windows import PackedPiece, Window
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, UntranscribedSpeech
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.search.loop import Steps, run_steps
from whisper_hailo.transcription.repair import repair_windows
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
)

LIKELY = Decoded((1,), -0.3, 0.1, runaway=False)


def said(start_s: float, end_s: float, text: str, language: str = "de") -> Segment:
    return Segment(start_s, end_s, text, (1,), -0.3, 0.1, language=language)


@dataclass
class Interpreter:
    """Skips the first seconds of a window of ten; says them in a window of their own.

    Attributes:
        gap: speech that it skips, in the recording.
        probability: of the language of what is skipped.
        requests: what it was asked for.
    """

    gap: tuple[float, float] = (101.0, 105.0)
    probability: float = 0.9
    text: str = "quiet words"
    trusted: bool = True
    loud_text: tuple[Segment, ...] = (said(106.0, 109.0, "laute Worte"),)
    runaway: bool = False
    requests: list[WindowRequest] = field(default_factory=list)

    def decode_windows(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        yield
        self.requests += requests
        return [self._decode(request) for request in requests]

    def _decode(self, request: WindowRequest) -> WindowResult:
        window = request.window
        if window.content_s > 9:
            skipped = UntranscribedSpeech(*self.gap, "left_out")
            return WindowResult(
                window,
                replace(LIKELY, runaway=self.runaway),
                self.loud_text,
                10,
                language="de",
                untranscribed=(skipped,),
            )
        language = request.context.language
        if language == "auto":
            language = "en"
            request.context.language_probs = {language: self.probability}
        segment = said(window.start_s, window.end_s, self.text, language)
        segments = (segment,) if self.text else ()
        return WindowResult(window, LIKELY, segments, 10, language=language)

    def trusts(self, _: Decoded) -> bool:
        return self.trusted


def encode(requests: Sequence[WindowRequest]) -> Encoded:
    return Encoded(np.zeros((len(requests), 1, 1), np.float32), StageClock())


def repair(
    engine: Interpreter,
    *,
    detects: bool = True,
    trusts_detector: bool = True,
    **changes: Any,
) -> WindowResult:
    """Return the result of a window of ten seconds at 100 s."""
    audio = np.arange(10 * SAMPLE_RATE_HZ, dtype=np.float32)
    window = replace(Window(audio, 100.0), **changes)
    context = Context("de", (7, 8), detects=detects, trusts_detector=trusts_detector)
    request = WindowRequest(window, context)
    results = run_steps(engine.decode_windows(encode([request]), [request]))
    steps = repair_windows(engine, encode, StageClock(), [request], results)  # type: ignore[arg-type]
    (result,) = run_steps(steps)
    return result


def test_skipped_speech_gets_its_text_in_its_language() -> None:
    engine = Interpreter()
    result = repair(engine)
    texts = [(segment.text, segment.language) for segment in result.segments]
    assert texts == [("quiet words", "en"), ("laute Worte", "de")]
    assert result.untranscribed == ()
    _, part = engine.requests
    assert part.window.start_s == pytest.approx(100.7)
    assert part.window.content_s == pytest.approx(4.6)
    assert part.window.audio[0] == round(0.7 * SAMPLE_RATE_HZ)
    assert part.context.previous == ()


def test_part_ends_where_its_neighbour_begins() -> None:
    engine = Interpreter(gap=(101.0, 105.9))
    repair(engine)
    assert engine.requests[1].window.end_s == pytest.approx(106.0)


def test_part_begins_with_its_window() -> None:
    engine = Interpreter(gap=(100.1, 104.0))
    repair(engine)
    assert engine.requests[1].window.start_s == 100.0


def test_given_language_is_kept_for_skipped_speech() -> None:
    result = repair(Interpreter(), detects=False)
    assert [segment.language for segment in result.segments] == ["de", "de"]


@pytest.mark.parametrize(
    "engine",
    [
        Interpreter(text=""),
        Interpreter(trusted=False),
        Interpreter(probability=0.4),
    ],
    ids=["no text", "doubtful text", "a language that is not likely"],
)
def test_text_not_to_trust_is_left_out(engine: Interpreter) -> None:
    result = repair(engine)
    assert [segment.text for segment in result.segments] == ["laute Worte"]
    assert len(result.untranscribed) == 1


def test_window_is_not_repaired_without_a_detector() -> None:
    engine = Interpreter()
    repair(engine, trusts_detector=False)
    assert len(engine.requests) == 1


@pytest.mark.parametrize(
    "changes",
    [{"pieces": (PackedPiece(0.0, 100.0, 10.0),)}, {"is_sought": True}],
    ids=["packed", "sought"],
)
def test_packed_and_sought_windows_are_not_repaired(changes: dict[str, Any]) -> None:
    engine = Interpreter()
    repair(engine, **changes)
    assert len(engine.requests) == 1


def test_window_that_is_mostly_skipped_is_not_repaired() -> None:
    engine = Interpreter(gap=(100.5, 109.5))
    repair(engine)
    assert len(engine.requests) == 1


@pytest.mark.parametrize(
    "engine",
    [Interpreter(loud_text=()), Interpreter(runaway=True)],
    ids=["without any text", "with a text that was cut"],
)
def test_failed_and_cut_windows_are_not_repaired(engine: Interpreter) -> None:
    repair(engine)
    assert len(engine.requests) == 1
