"""Which interpreter a system's process runs in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.repository import PACKAGE, RIVALS, ROOT
from whisper_hailo_lab.systems.table import entry

ENVIRONMENTS: Final = ROOT / ".venv-rivals"
UNCOMPILED: Final = "PYTHONDONTWRITEBYTECODE"
"""Makes Python compile a source tree anew at every start, which no user's installation does."""

PYTHON_VARIABLE: Final = "WHISPER_HAILO_RIVALS"
"""Folder with one virtual environment per system, instead of `.venv-rivals` in a clone."""


def command(system: str) -> list[str]:
    """Words that start the process of a system.

    A system has an environment of its own when `make rivals` made one; those that only need a
    package of ours also run where this program runs.
    """
    found = entry(system)
    python = interpreter(found.environment or system)
    if not found.script:
        return [str(python or sys.executable), "-m", "whisper_hailo_lab.harness.worker"]
    return [str(needed(system, python)), str(script(found.script))]


def needed(system: str, python: Path | None) -> Path:
    """The interpreter of a system that cannot do without one of its own.

    Raises:
        OptionError: there is none.
    """
    if python is None:
        raise OptionError(
            f"{system} needs torch and runs in an environment of its own, which is missing at "
            f"{_root() / system}; make it in a clone with: make rivals"
        )
    return python


def script(name: str) -> Path:
    """A program under `benchmarks/rivals`.

    Raises:
        OptionError: this is an installed package, without the repository around it.
    """
    path = RIVALS / name
    if not path.is_file():
        raise OptionError(
            f"{name} is part of the repository, not of the installed package; run it in a clone"
        )
    return path


def interpreter(system: str) -> Path | None:
    """Python of a system's own environment, where there is one."""
    path = _root() / system / "bin" / "python"
    return path if path.exists() else None


def is_there(system: str) -> bool:
    """Whether a system can run here on weights that are converted for it."""
    needed = {"ours": "", "study": "optimum"}.get(system, entry(system).environment or system)
    return not needed or interpreter(needed) is not None


def variables(threads: int) -> dict[str, str]:
    """Environment of a system's process: this source tree, and threads that do not spin."""
    mine = compiling()
    paths = [str(PACKAGE.parent), mine.get("PYTHONPATH", "")]
    mine["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    mine["OMP_WAIT_POLICY"] = "PASSIVE"
    mine["TOKENIZERS_PARALLELISM"] = "false"
    if threads:
        mine["OMP_NUM_THREADS"] = str(threads)
    return mine


def compiling() -> dict[str, str]:
    """This environment; Python keeps what it compiles, as an installed package has it compiled."""
    return {name: value for name, value in os.environ.items() if name != UNCOMPILED}


def _root() -> Path:
    return Path(os.environ.get(PYTHON_VARIABLE) or ENVIRONMENTS)
