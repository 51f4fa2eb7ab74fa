"""What every plan of windows offers: windows out, results in, finished segments out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment
from whisper_hailo.transcription.longform.clips import WHOLE, Clip
from whisper_hailo.transcription.window import WindowResult

STRATEGIES: Final = ("auto", "seek", "overlap", "vad", "consecutive")

MIN_SAMPLES: Final = 160
"""One log-mel frame: less than that after other audio is not worth a window."""


@dataclass(frozen=True, slots=True)
class LongOptions:
    """How recordings longer than a window are taken apart.

    Attributes:
        strategy: one of `STRATEGIES`; `auto` seeks by timestamps where the model writes them and
            overlaps windows where it does not.
        overlap_s: seconds that neighbouring windows share; `None` is 2 s, at most a third of the
            window's content.
        clips: the stretches to transcribe.
        vad_threshold: probability above which a frame is speech.
        min_silence_s: silence that ends a stretch of speech.
        speech_pad_s: kept before and after each stretch of speech.
        snug: encode only as much of a window as its audio fills; of a batch, its longest audio.

    Raises:
        OptionError: a value out of range.
    """

    strategy: str = "auto"
    overlap_s: float | None = None
    clips: tuple[Clip, ...] = field(default=WHOLE)
    vad_threshold: float = 0.5
    min_silence_s: float = 0.5
    speech_pad_s: float = 0.2
    snug: bool = False

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise OptionError(
                f"--long is {self.strategy!r}, expected one of: {', '.join(STRATEGIES)}"
            )
        if self.overlap_s is not None and not 0 < self.overlap_s <= 15:
            raise OptionError(
                f"--overlap is {self.overlap_s:g} s, expected more than 0, at most 15"
            )
        if not 0 < self.vad_threshold < 1:
            raise OptionError(f"--vad-threshold is {self.vad_threshold:g}, expected 0 to 1")
        for option, value in (
            ("--vad-min-silence", self.min_silence_s),
            ("--vad-speech-pad", self.speech_pad_s),
        ):
            if not 0 <= value <= 10:
                raise OptionError(f"{option} is {value:g} s, expected 0 to 10")


class Plan(Protocol):
    """The windows of one recording."""

    @property
    def sequential(self) -> bool:
        """Whether each window depends on what came of the one before."""
        ...

    @property
    def pending(self) -> Sequence[Segment]:
        """Segments held back, of which the next window may change the end."""
        ...

    def windows(self) -> Iterator[Window]:
        """The windows, in order; of a sequential plan, after `take` of the one before."""
        ...

    def take(self, result: WindowResult) -> list[Segment]:
        """Take the result of the next window; gives the segments that are final now."""
        ...

    def finish(self) -> list[Segment]:
        """What is left after the last window."""
        ...
