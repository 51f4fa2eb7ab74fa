"""Results of two segments: a transcript, and events of captions, of which some are lost."""

from __future__ import annotations

from typing import Final

from whisper_hailo.core.types import Segment, Settings, Timings, Transcript
from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Completed,
    Lost,
    Partial,
    Started,
)

SETTINGS: Final = Settings(
    "toy", "onnx-fp32", "cached-none", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1
)
A = CaptionWord(" a", 0.5)
B = CaptionWord(" b")
C = CaptionWord(" c", 0.123456)
START = Started(segment_id=0, start_s=1.0, heard_s=1.5, at_s=0.1)
FIRST = Partial(
    segment_id=0,
    start_s=1.0,
    end_s=2.0,
    committed=(A,),
    tentative=(B,),
    heard_s=2.0,
    at_s=0.2,
)
SECOND = Partial(
    segment_id=0,
    start_s=1.0,
    end_s=2.5,
    committed=(A, B),
    tentative=(C,),
    heard_s=2.5,
    at_s=0.3,
)
DONE = Completed(
    segment_id=0,
    start_s=1.0,
    end_s=3.0,
    words=(A, B, C),
    reason="silence",
    heard_s=3.0,
    at_s=0.4,
)
GONE = Lost(start_s=3.0, end_s=4.0, heard_s=4.0, at_s=0.5)
NEXT = Started(segment_id=1, start_s=4.0, heard_s=4.5, at_s=0.6)
END = Completed(
    segment_id=1, start_s=4.0, end_s=5.0, words=(), reason="end", heard_s=5.0, at_s=0.7
)
AWAY = Away(start_s=3.5, why="the microphone was unplugged", heard_s=3.5, at_s=0.45)
BACK = Back(start_s=3.5, end_s=9.0, heard_s=9.0, at_s=0.5)


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
