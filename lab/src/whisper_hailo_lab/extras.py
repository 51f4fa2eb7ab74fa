"""The laboratory's optional packages: what to type where one is missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.repository import LAB

LabExtra: TypeAlias = Literal["bench", "faster-whisper", "whisper-cpp"]


def install_command(extra: LabExtra) -> str:
    """Return the command that installs an extra; the clone has lock files with hashes."""
    if (LAB / "requirements" / f"{extra}.txt").is_file():
        return f"pip install -r lab/requirements/{extra}.txt in the clone"
    return f"pip install 'whisper-hailo-lab[{extra}]'"


def require_extra(extra: LabExtra, what: str, *modules: str) -> None:
    """Refuse to start without the modules of an extra.

    Raises:
        OptionError: one of them is not installed.
    """
    for module in modules:
        if find_spec(module) is None:
            name = module.replace("_", "-")
            raise OptionError(
                f"{what} needs {name}, which is not installed: {install_command(extra)}"
            )
