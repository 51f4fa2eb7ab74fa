"""Optional extras of the installation, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, TypeAlias

from whisper_hailo.core.errors import OptionError

Extra: TypeAlias = Literal[
    "media",
    "live",
    "web",
    "server",
    "bench",
    "faster-whisper",
    "whisper-cpp",
    "onnx-asr",
    "moonshine",
    "cluster",
    "parquet",
]


_ROOT: Final = Path(__file__).resolve().parents[3]
"""The clone; some other folder for an installed package."""

_TOOLS: Final = "src/whisper_hailo_tools"
"""In the clone: where the second distribution is built."""


def to_add(extra: Extra) -> str:
    """Return the command that installs an extra; the clone has lock files with hashes."""
    for folder in ("requirements", "benchmarks/rivals/requirements"):
        if (_ROOT / folder / f"{extra}.txt").is_file():
            return f"pip install -r {folder}/{extra}.txt in the clone"
    return f"pip install 'whisper-hailo[{extra}]'"


def tools_to_add() -> str:
    """What to type to have the commands that build HEFs, for messages."""
    if (_ROOT / _TOOLS).is_dir():
        return f"pip install --no-deps -e {_TOOLS} in the clone"
    return "pip install whisper-hailo-tools"


def require(extra: Extra, what: str, *modules: str) -> None:
    """Refuse to start without the modules of an extra.

    Raises:
        OptionError: one is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(f"{what} needs {name}, which is not installed: {to_add(extra)}")
