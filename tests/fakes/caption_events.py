"""Events of two segments with a loss between them, and of a source that goes away."""

from __future__ import annotations

from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Completed,
    Lost,
    Partial,
    Started,
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
