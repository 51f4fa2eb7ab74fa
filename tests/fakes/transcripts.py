"""A transcript of two segments."""

from __future__ import annotations

from typing import Final

from whisper_hailo.core.types import Segment, Settings, Timings, Transcript

SETTINGS: Final = Settings(
    "toy", "onnx-fp32", "cached-none", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1
)


def transcript() -> Transcript:
    """Return 12.5 s of English in two segments, the second cut off for repetition."""
    segments = (
        Segment(0.0, 9.0, "Grüße.", (1, 2), -0.25, 0.01),
        Segment(
            9.0,
            12.5,
            "All the rest.",
            (3,),
            -0.5,
            0.02,
            runaway=True,
            window_start_s=8.5,
        ),
    )
    timings = Timings(
        load_ms=1.0, mel_ms=2.0, encode_ms=3.0, decode_ms=5.0, total_ms=10.0
    )
    return Transcript("a.wav", 12.5, "en", "transcribe", segments, timings, SETTINGS)
