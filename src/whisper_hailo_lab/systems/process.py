"""A process that is asked line by line and answers in JSON."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from whisper_hailo.core.errors import WhisperHailoError

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
