"""Which systems there are, what they load, and in which environment they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.systems.protocol import Loading, System

Form: TypeAlias = Literal[
    "checkpoint", "ctranslate2", "ggml", "openai", "optimum", "optimum-int8", "own"
]
"""What a system loads: our own names, a format a checkpoint is converted to, or its own weights."""


@dataclass(frozen=True, slots=True)
class SystemEntry:
    """One system.

    Attributes:
        module: where its class is; empty for those that run as scripts.
        class_name: the class.
        form: what it loads.
        script: file under `lab/benchmarks/rivals/`, for those that need torch.
        label: name for tables.
        environment: whose environment it runs in; empty for its own.
        whole: a runtime that people use as it is; the others are engines or recipes, for the
            comparison of speed only.
    """

    label: str
    form: Form
    module: str = ""
    class_name: str = ""
    script: str = ""
    environment: str = ""
    whole: bool = True

    def make(self, loading: Loading) -> System:
        """The system itself; its engine is imported when it opens."""
        module = import_module(f"whisper_hailo_lab.systems.{self.module}")
        factory: Callable[[Loading], Any] = getattr(module, self.class_name)
        system: System = factory(loading)
        return system


SYSTEMS: Final[dict[str, SystemEntry]] = {
    "ours": SystemEntry("whisper-hailo", "checkpoint", "ours", "Ours"),
    "faster-whisper": SystemEntry(
        "faster-whisper", "ctranslate2", "faster_whisper", "FasterWhisper"
    ),
    "whisper-cpp": SystemEntry("whisper.cpp", "ggml", "whisper_cpp", "WhisperCpp"),
    "onnx-asr": SystemEntry("onnx-asr", "optimum", "onnx_asr", "OnnxAsr"),
    "moonshine": SystemEntry("Moonshine", "own", "moonshine", "MoonshineSystem"),
    "openai-whisper": SystemEntry("openai-whisper", "openai", script="openai_whisper.py"),
    "transformers": SystemEntry("Transformers", "checkpoint", script="transformers_whisper.py"),
    "ctranslate2": SystemEntry(
        "CTranslate2", "ctranslate2", "ctranslate2", "CTranslate2",
        environment="faster-whisper", whole=False,
    ),
    "speech2text": SystemEntry(
        "Hailo's Speech2Text", "own", "speech2text", "Speech2Text", whole=False
    ),
    "study": SystemEntry("the study's recipe", "optimum-int8", "study", "Study", whole=False),
}  # fmt: skip


def find_system(name: str) -> SystemEntry:
    """Look a system up.

    Raises:
        OptionError: no such system.
    """
    try:
        return SYSTEMS[name]
    except KeyError:
        raise OptionError(f"--system is {name!r}, expected one of: {', '.join(SYSTEMS)}") from None
