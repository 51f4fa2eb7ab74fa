"""A running `serve` command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.e2e.conftest import ended_in_time


@dataclass
class Served:
    """The process, and what it said.

    Attributes:
        process: of the command.
        said: on standard error, as far as it was read.
    """

    process: subprocess.Popen[str]
    said: str = ""

    def wait_for(self, pattern: str) -> str:
        """The first group of a pattern, once it was said."""
        assert self.process.stderr is not None
        with ended_in_time(self.process):
            while not (found := re.search(pattern, self.said)):
                line = self.process.stderr.readline()
                assert line, f"ended before it said {pattern}: {self.said}"
                self.said += line
        return found[1]

    def end(self, *, told: bool = False) -> int:
        """Tell it to end, unless it was told, and read the rest of what it says."""
        if not told:
            self.process.terminate()
        with ended_in_time(self.process):
            self.said += self.process.communicate()[1]
        return self.process.returncode


@contextmanager
def serve(environment: dict[str, str], *words: object) -> Iterator[Served]:
    """The command with the bundled model; it is told to end when the block does."""
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "serve",
        "--model",
        "micro",
        "--threads",
        "1",
    ]
    with subprocess.Popen(
        [*command, *map(str, words)], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        served = Served(process)
        try:
            yield served
        finally:
            if process.returncode is None:
                process.terminate()
                with ended_in_time(process):
                    process.communicate()
