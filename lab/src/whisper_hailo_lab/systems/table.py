"""Table of the systems, with what they load and the environment that they run in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.systems.protocol import Loading, System

Form: TypeAlias = Literal["checkpoint", "ctranslate2", "ggml", "openai", "own"]
"""Format of weights: our names, a format that checkpoints are converted to, or a system's own."""


@dataclass(frozen=True, slots=True)
class SystemEntry:
    """One system.

    Attributes:
        label: name for tables.
        form: format of its weights.
        module: module of its class; empty if it runs as a script.
        class_name: name of its class.
        script: file in `lab/benchmarks/rivals/` if it needs torch.
    """

    label: str
    form: Form
    module: str = ""
    class_name: str = ""
    script: str = ""

    def make(self, loading: Loading) -> System:
        """Return the system; its engine is imported when it opens."""
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
    "moonshine": SystemEntry("Moonshine", "own", "moonshine", "MoonshineSystem"),
    "openai-whisper": SystemEntry("openai-whisper", "openai", script="openai_whisper.py"),
    "transformers": SystemEntry("Transformers", "checkpoint", script="transformers_whisper.py"),
}  # fmt: skip


def find_system(name: str) -> SystemEntry:
    """Return the entry of a system.

    Raises:
        OptionError: no such system.
    """
    if name not in SYSTEMS:
        raise OptionError(
            f"--system is {name!r}, expected one of: {', '.join(SYSTEMS)}"
        )
    return SYSTEMS[name]
