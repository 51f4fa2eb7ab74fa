"""Extras, as pip calls the parts of the installation that not everyone needs: how to add one."""

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
"""Those of `pyproject.toml` that the program can lack."""


_ROOT: Final = Path(__file__).resolve().parents[3]
"""Of the clone; some other folder where there is only an installed package."""

_TOOLS: Final = "src/whisper_hailo_tools"
"""In the clone: where the second distribution is built."""


def to_add(extra: Extra) -> str:
    """What to type to have an extra, for messages.

    Only the clone has the locks: what an extra needs, version by version, with hashes.
    """
    if (_ROOT / "requirements" / f"{extra}.txt").is_file():
        return f"pip install -r requirements/{extra}.txt in the clone"
    return f"pip install 'whisper-hailo[{extra}]'"


def tools_to_add() -> str:
    """What to type to have the commands that build HEFs, for messages."""
    if (_ROOT / _TOOLS).is_dir():
        return f"pip install --no-deps -e {_TOOLS} in the clone"
    return "pip install whisper-hailo-tools"


def require(extra: Extra, what: str, *modules: str) -> None:
    """Say before any work which extra is missing.

    Raises:
        OptionError: one is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(f"{what} needs {name}, which is not installed: {to_add(extra)}")
