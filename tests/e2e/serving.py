"""Options of captions that are computed quickly; running `serve` and `caption` commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from tests.e2e.conftest import DEMO, ended_in_time

CAPTION = (
    "--model",
    "micro",
    "--threads",
    "1",
    "--min-partial",
    "0.5",
    "--web",
    "--web-port",
    "0",
)
QUICK = ("--model", "micro", "--threads", 1, "--min-partial", 0.5)


def write_long_talk(folder: Path) -> Path:
    """Write the bundled recording ten times over: a talk that outlasts a test."""
    samples, rate_hz = soundfile.read(DEMO)
    path = folder / "talk.flac"
    soundfile.write(path, np.tile(samples, 10), rate_hz)
    return path


@contextmanager
def serving(
    environment: dict[str, str],
    *words: object,
    stdout: int = subprocess.DEVNULL,
    descriptors: int = 1024,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its page's address; it is told to end when the block does.

    Args:
        environment: of the process.
        words: further ones of the command line.
        stdout: where its standard output goes.
        descriptors: that the process may have.
    """
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "caption",
        *CAPTION,
        *map(str, words),
    ]
    with subprocess.Popen(
        ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command],
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            said = ""
            with ended_in_time(process):
                while not (found := re.search(r"captions at (\S+)", said)):
                    line = process.stderr.readline()
                    assert line, f"ended before it served anything: {said}"
                    said += line
            yield process, found[1]
        finally:
            process.terminate()
            with ended_in_time(process):
                process.communicate()


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
