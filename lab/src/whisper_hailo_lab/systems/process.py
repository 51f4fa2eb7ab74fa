"""The process of a system: its interpreter, and the lines that are exchanged with it."""

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

PYTHON_VARIABLE: Final = "WHISPER_HAILO_RIVALS"
"""Folder with one virtual environment per system, instead of `.venv-rivals` in a clone."""

UNCOMPILED: Final = "PYTHONDONTWRITEBYTECODE"
"""Variable that makes Python compile a source tree again at every start."""


def system_command(system: str) -> list[str]:
    """Return the command that starts the process of a system.

    A system has an environment of its own if `make lab NAME=rivals` made one. Systems that need
    only one more package also run in the environment of this program.

    Raises:
        OptionError: the system needs an environment of its own, which is missing.
    """
    entry = find_system(system)
    python = find_interpreter(system)
    if not entry.script:
        return [str(python or sys.executable), "-m", "whisper_hailo_lab.harness.worker"]
    return [str(require_interpreter(system, python)), str(find_script(entry.script))]


def require_interpreter(system: str, python: Path | None) -> Path:
    """Return the interpreter of a system that needs an environment of its own.

    Raises:
        OptionError: there is none.
    """
    if python is None:
        raise OptionError(
            f"{system} needs torch and runs in an environment of its own, which is missing at "
            f"{_environments_folder() / system}; make it in a clone with: make lab NAME=rivals"
        )
    return python


def find_script(name: str) -> Path:
    """Return the path of a program in `lab/benchmarks/rivals`.

    Raises:
        OptionError: this is an installed package without the repository.
    """
    path = RIVALS / name
    if not path.is_file():
        raise OptionError(
            f"{name} is part of the repository, not of the installed package; run it in a clone"
        )
    return path


def find_interpreter(system: str) -> Path | None:
    """Return Python of a system's own environment; `None` without one."""
    path = _environments_folder() / system / "bin" / "python"
    return path if path.exists() else None


def is_installed(system: str) -> bool:
    """Return whether a system can run here with weights that are converted for it."""
    if system == "ours":
        return True
    return find_interpreter(system) is not None


def make_environment(threads: int) -> dict[str, str]:
    """Return the environment variables of a system's process.

    Args:
        threads: threads per operator; 0 leaves their number to the system.
    """
    # Python keeps its bytecode, as it does for an installed package: the start is timed.
    variables = {
        name: value for name, value in os.environ.items() if name != UNCOMPILED
    }
    paths = [*map(str, SOURCES), variables.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    # Threads that spin while they wait would take the processor from the next system.
    variables["OMP_WAIT_POLICY"] = "PASSIVE"
    variables["TOKENIZERS_PARALLELISM"] = "false"
    if threads:
        variables["OMP_NUM_THREADS"] = str(threads)
    return variables


def _environments_folder() -> Path:
    return Path(os.environ.get(PYTHON_VARIABLE) or ENVIRONMENTS)


LAST_LINE: Final = 300
"""Characters of the last line of a log that an error quotes."""

STOP_S: Final = 10.0
"""Seconds that a process has to end after its input has."""


def run_for_output(
    command: Sequence[str],
    environment: dict[str, str],
    failure: str,
    error: type[WhisperHailoError] = WhisperHailoError,
) -> str:
    """Run a program and return its standard output.

    Args:
        command: program with its arguments.
        environment: environment variables of the process.
        failure: beginning of the message if it fails; the last line of its log follows.
        error: exception that is raised then.
    """
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise error(f"{failure} ({_last_line(done.stderr)})")
    return done.stdout


def _last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1][:LAST_LINE] if lines else "it said nothing"


class ProcessEndedError(WhisperHailoError):
    """The process ended instead of answering; the message has its exit code and its last line."""


class AnsweringProcess:
    """A process that answers a line with a line of JSON; its other output goes to a log.

    Args:
        command: program with its arguments.
        environment: environment variables.
    """

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    @property
    def alive(self) -> bool:
        """Whether it can still answer."""
        return self._popen.poll() is None

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line and return the answer.

        Raises:
            ProcessEndedError: there is no answer.
        """
        answer = self._exchange_line(line)
        if not answer:
            code = self._popen.wait()
            self._log.seek(0)
            last = _last_line(self._log.read())
            raise ProcessEndedError(f"its process ended with code {code}: {last}")
        fields: dict[str, Any] = json.loads(answer)
        return fields

    def _exchange_line(self, line: str) -> str:
        """Send a line and return the next one; nothing if the process has ended."""
        requests = self._popen.stdin
        answers = self._popen.stdout
        if requests is None or answers is None:
            raise ProcessEndedError("it has no pipes")
        try:
            requests.write(line + "\n")
            requests.flush()
            return answers.readline()
        except (BrokenPipeError, ValueError):
            return ""

    def stop(self) -> None:
        """Close the pipes, which ends the process; kill it if it goes on."""
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                # A line may be waiting that the process did not live to read.
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._popen.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._log.close()
