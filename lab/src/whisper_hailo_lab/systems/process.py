"""The process of a system: its interpreter, and the lines that it speaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo_lab.repository import RIVALS, ROOT, SOURCES
from whisper_hailo_lab.systems.table import find_system

ENVIRONMENTS: Final = ROOT / ".venv-rivals"
UNCOMPILED: Final = "PYTHONDONTWRITEBYTECODE"
"""Makes Python compile a source tree anew at every start, which no user's installation does."""

PYTHON_VARIABLE: Final = "WHISPER_HAILO_RIVALS"
"""Folder with one virtual environment per system, instead of `.venv-rivals` in a clone."""


def command(system: str) -> list[str]:
    """Words that start the process of a system.

    A system has an environment of its own when `make lab NAME=rivals` made one; those that only
    need a package of ours also run where this program runs.
    """
    found = find_system(system)
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
            f"{_root() / system}; make it in a clone with: make lab NAME=rivals"
        )
    return python


def script(name: str) -> Path:
    """A program under `lab/benchmarks/rivals`.

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


def is_installed(system: str) -> bool:
    """Whether a system can run here on weights that are converted for it."""
    needed = {"ours": "", "study": "optimum"}.get(system, find_system(system).environment or system)
    return not needed or interpreter(needed) is not None


def variables(threads: int) -> dict[str, str]:
    """Environment of a system's process: this source tree, and threads that do not spin."""
    mine = compiling()
    paths = [*map(str, SOURCES), mine.get("PYTHONPATH", "")]
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


LAST_WORDS: Final = 300
"""Characters of its last line in the log, when it ended by itself."""

PATIENCE_S: Final = 10.0


def output_of(
    command: Sequence[str],
    environment: dict[str, str],
    failure: str,
    error: type[WhisperHailoError] = WhisperHailoError,
) -> str:
    """What a program writes to standard output.

    Args:
        command: words that start it.
        environment: of its process.
        failure: said before its last line when it fails.
        error: raised then.
    """
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise error(f"{failure} ({_last_line(done.stderr)})")
    return done.stdout


def _last_line(log: str) -> str:
    return (log.strip().splitlines() or ["it said nothing"])[-1][:LAST_WORDS]


class ProcessEndedError(WhisperHailoError):
    """It ended instead of answering; the message has its exit code and its last words."""


class AnsweringProcess:
    """One line in, one line of JSON out; what else it says goes to a log."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=environment, text=True, encoding="utf-8",
        )  # fmt: skip

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._popen.poll() is None

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line and wait for the answer.

        Raises:
            ProcessEndedError: there is none.
        """
        asked, answered = self._popen.stdin, self._popen.stdout
        if asked is None or answered is None:
            raise ProcessEndedError("it has no pipes")
        try:
            asked.write(line + "\n")
            asked.flush()
            said = answered.readline()
        except (BrokenPipeError, ValueError):
            said = ""
        if not said:
            code = self._popen.wait()
            raise ProcessEndedError(f"its process ended with code {code}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(said)
        return answer

    def stop(self) -> None:
        """End of input ends it; one that does not listen is killed."""
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # a line that it did not live to read
                    stream.close()
        try:
            self._popen.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        return _last_line(self._log.read())
