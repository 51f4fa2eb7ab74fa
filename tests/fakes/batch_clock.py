"""Stand-ins for what a job works with: a clock, speech."""

from __future__ import annotations

from whisper_hailo.core.types import Segment, Word


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def segment(text: str, start_s: float = 0.0) -> Segment:
    """A second of speech with a word, heard in a window that begins with it."""
    word = Word(start_s + 0.25, start_s + 0.5, text, 0.9, (1,))
    return Segment(
        start_s,
        start_s + 1.0,
        text,
        (1, 2),
        -0.1,
        0.0,
        words=(word,),
        window_start_s=start_s,
    )
