"""Which systems there are, what they load, and in which environment they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from whisper_hailo.bench.systems.protocol import Loading, System
from whisper_hailo.core.errors import OptionError

Form: TypeAlias = Literal["checkpoint", "ctranslate2", "ggml", "openai", "optimum", "own"]
"""What a system loads: our own names, a format a checkpoint is converted to, or its own weights."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One system.

    Attributes:
        module: where its class is; empty for those that run as scripts.
        class_name: the class.
        form: what it loads.
        script: file under `benchmarks/rivals/`, for those that need torch.
        label: name for tables.
    """

    label: str
    form: Form
    module: str = ""
    class_name: str = ""
    script: str = ""

    def make(self, loading: Loading) -> System:
        """The system itself; its engine is imported when it opens."""
        module = import_module(f"whisper_hailo.bench.systems.{self.module}")
        factory: Callable[[Loading], Any] = getattr(module, self.class_name)
        system: System = factory(loading)
        return system


SYSTEMS: Final[dict[str, Entry]] = {
    "ours": Entry("whisper-hailo", "checkpoint", "ours", "Ours"),
    "faster-whisper": Entry("faster-whisper", "ctranslate2", "faster_whisper", "FasterWhisper"),
    "whisper-cpp": Entry("whisper.cpp", "ggml", "whisper_cpp", "WhisperCpp"),
    "onnx-asr": Entry("onnx-asr", "optimum", "onnx_asr", "OnnxAsr"),
    "moonshine": Entry("Moonshine", "own", "moonshine", "Moonshine"),
    "openai-whisper": Entry("openai-whisper", "openai", script="openai_whisper.py"),
    "transformers": Entry("Transformers", "checkpoint", script="transformers_whisper.py"),
}


def entry(name: str) -> Entry:
    """Look a system up.

    Raises:
        OptionError: no such system.
    """
    try:
        return SYSTEMS[name]
    except KeyError:
        raise OptionError(f"--system is {name!r}, expected one of: {', '.join(SYSTEMS)}") from None
