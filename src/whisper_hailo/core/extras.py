"""Extras, as pip calls the parts of the installation that not everyone needs: how to add one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, TypeAlias

from whisper_hailo.core.errors import OptionError

Extra: TypeAlias = Literal[
    "media",
    "vad",
    "live",
    "web",
    "server",
    "bench",
    "ctranslate2",
    "faster-whisper",
    "whisper-cpp",
    "onnx-asr",
    "moonshine",
    "cluster",
    "parquet",
]
"""Those of `pyproject.toml` that the program can lack."""


def to_add(extra: Extra) -> str:
    """What to type to have an extra, for messages.

    Only the clone has the locks: what an extra needs, version by version, with hashes.
    """
    return f"pip install -r requirements/{extra}.txt in the clone"


def require(extra: Extra, what: str, *modules: str) -> None:
    """Say before any work which extra is missing.

    Args:
        extra: that brings the modules.
        what: needs them.
        modules: as they are imported.

    Raises:
        OptionError: one is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(f"{what} needs {name}, which is not installed: {to_add(extra)}")
