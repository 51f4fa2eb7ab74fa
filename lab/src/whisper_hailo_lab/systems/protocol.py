"""What a system must be able to do to be measured; rivals' scripts know no more of us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.extras import LabExtra, install_command
from whisper_hailo_lab.runs.records import Case


@dataclass(frozen=True, slots=True)
class SystemResult:
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

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load everything.

        Args:
            watch: call it with a component's name around its loading.

        Returns:
            what the system says it will do, for the record.

        Raises:
            WhisperHailoError: something is missing, and what.
        """
        ...

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        """One run that nobody times, memory watched per component."""
        ...

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Text of `(n_samples,)` float32 samples, 16 kHz mono, in a language such as `en`."""
        ...

    def close(self) -> None: ...


class ComponentWatch(Protocol):
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


class WholeModel:
    """What systems have in common whose encoder and decoder come as one.

    A subclass loads `_model` when it opens, and transcribes.
    """

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._model: Any = None

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        raise NotImplementedError

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        watch("model", lambda: self.transcribe(audio, self._loading.case.language))

    def close(self) -> None:
        self._model = None


def package(name: str, extra: LabExtra) -> Any:  # noqa: ANN401 - packages without types
    """A rival's package.

    Raises:
        OptionError: it is not installed, or cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        distribution = name.partition(".")[0].replace("_", "-")
        raise OptionError(
            f"{distribution} is not installed ({error}); {install_command(extra)}"
        ) from error
