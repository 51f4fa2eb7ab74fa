"""What a system must be able to do to be measured; rivals' scripts know no more of us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.case import Case


@dataclass(frozen=True, slots=True)
class Heard:
    """What a system made of one recording.

    Attributes:
        text: raw text.
        stages_ms: time of the stages that the system tells apart: `mel`, `encode`, `cross_kv`,
            `decode`.
        n_tokens: text tokens generated; `None` where it does not tell.
        runaway: some window used its budget up without an end-of-transcript; `None` likewise.
    """

    text: str
    stages_ms: dict[str, float] = field(default_factory=dict)
    n_tokens: int | None = None
    runaway: bool | None = None


class System(Protocol):
    """One system with one set of options, in the only process it ever runs in."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions whose versions go into the record."""
        ...

    def open(self, watch: Watch) -> dict[str, Any]:
        """Load everything.

        Args:
            watch: call it with a component's name around its loading.

        Returns:
            what the system says it will do, for the record.

        Raises:
            WhisperHailoError: something is missing, and what.
        """
        ...

    def warm_up(self, audio: FloatArray, watch: Watch) -> None:
        """One run that nobody times, memory watched per component."""
        ...

    def transcribe(self, audio: FloatArray, language: str) -> Heard:
        """Text of `(n_samples,)` float32 samples, 16 kHz mono, in a language such as `en`."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Watch(Protocol):
    """Notes how memory grows while something is done for a component."""

    def __call__(self, component: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Do `work` and give back what it gives."""
        ...


@dataclass(frozen=True, slots=True)
class Loading:
    """What a system is made from.

    Attributes:
        case: its options.
        path: checkpoint in the system's own format, or the name it was given.
    """

    case: Case
    path: str
