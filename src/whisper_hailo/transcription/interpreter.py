"""What takes a batch of windows to text, whoever owns the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.longform.plan import Heard


@dataclass(slots=True)
class Context:
    """What a recording's windows know of those before them.

    Attributes:
        language: code; `auto` until it was detected.
        previous: ids of the text so far, as far as the next window is to see it.
        n_open: so many at its end a plan may still change.
        doubted: the text that a plan holds back is not to be shown.
        sequential: windows wait for each other; where they do not, only the first one is shown
            what was before it, in whatever batch the others are.
        language_probs: of the detection.
        last_speech_s: end of the last word.
        n_windows: windows heard so far.
        clock: where the time went.
    """

    language: str
    previous: tuple[int, ...] = ()
    n_open: int = 0
    doubted: bool = False
    sequential: bool = True
    language_probs: dict[str, float] = field(default_factory=dict)
    last_speech_s: float = 0.0
    n_windows: int = 0
    clock: StageClock = field(default_factory=StageClock)


class Interpreter(Protocol):
    """Audio features in, segments out."""

    def context(self) -> Context:
        """Of a recording that has not begun."""
        ...

    def interpret(
        self,
        audio_features: FloatArray | None,
        windows: Sequence[Window],
        contexts: Sequence[Context],
        clock: StageClock,
    ) -> list[Heard]:
        """Take windows to segments.

        Args:
            audio_features: `(batch, n_audio_ctx, d_model)` float32; `None` without an encoder.
            windows: one per row.
            contexts: per window, that of its recording; windows of one recording share one.
            clock: told where the time goes.
        """
        ...
