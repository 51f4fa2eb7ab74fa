"""Protocol of a system that is measured; scripts of rivals use nothing else of the laboratory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.program import LabExtra, install_command
from whisper_hailo_lab.runs.records import Case


@dataclass(frozen=True, slots=True)
class SystemResult:
    """Transcript of one recording by a system.

    Attributes:
        text: raw text.
        stages_ms: times of the stages that the system reports: `mel`, `encode`, `cross_kv`,
            `decode`.
        n_tokens: generated text tokens; `None` if the system does not report them.
        runaway: whether a window used its budget up without an end-of-transcript; `None` if the
            system does not report it.
    """

    text: str
    stages_ms: dict[str, float] = field(default_factory=dict)
    n_tokens: int | None = None
    runaway: bool | None = None


class System(Protocol):
    """One system with one set of options, in a process of its own."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the distributions whose versions are recorded."""
        ...

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load everything.

        Args:
            watch: called with the name of each component and a function that loads it.

        Returns:
            the settings that the system uses, for the record.

        Raises:
            WhisperHailoError: something is missing.
        """
        ...

    def warm_up(self, audio: FloatArray, watch: ComponentWatch) -> None:
        """Transcribe once untimed, with the memory of each component watched."""
        ...

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return the text of `(n_samples,)` float32 samples, 16 kHz mono.

        Args:
            audio: samples.
            language: code such as `en`.
        """
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class ComponentWatch(Protocol):
    """Records how memory grows while a component works."""

    def __call__(self, component: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what `work` returns."""
        ...


@dataclass(frozen=True, slots=True)
class Loading:
    """Case and weights of a system.

    Attributes:
        case: options of the system.
        path: checkpoint in the system's own format, or a name.
    """

    case: Case
    path: str


class WholeModel:
    """Base of systems whose encoder and decoder are one object.

    A subclass sets `_model` when it opens, and transcribes.
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


def import_package(name: str, extra: LabExtra) -> Any:  # noqa: ANN401 - packages without types
    """Import the package of a rival.

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
