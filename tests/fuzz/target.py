"""What a target is, and how what came of an input is judged."""

from __future__ import annotations

import os
import traceback
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Final, Protocol

from whisper_hailo.core.errors import ExitCode, WhisperHailoError

NAMES: Final = (
    "audio", "checkpoints", "models", "graphs", "hefs", "page", "doors", "options",
    "names",
)  # fmt: skip

OK = "ok"
REFUSED = "refused"
INTERNAL = "internal"
TRACE = "traceback"
MEMORY = "memory"
HANG = "hang"
CRASH = "crash"
FAILURES: Final = (INTERNAL, TRACE, MEMORY, HANG, CRASH)

MOST_MIB: Final = 400
SLOWEST_S: Final = 20.0
"""Of processor time; an input that only waits has `PATIENCE_S`, for machines that do much else."""
PATIENCE_S: Final = 180.0

Input = tuple[str, bytes]
"""A file's name, which may say what it is to stand for, and its content."""


class Target(Protocol):
    """A part of the program that takes input from strangers. One object per process."""

    def prepare(self, base: Path) -> None:
        """Make the good inputs, once; they are there already in later processes."""

    def make(self, rng: Random, base: Path) -> Input:
        """A broken input; the same for the same state of `rng`."""

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Hand it to the program, whose cwd is `folder`; errors of its own tree are right."""


class ExitError(Exception):
    """The command left with a code that stands for a fault of its own, or for none at all."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one input: its outcome, and what was said."""

    outcome: str
    said: str = ""


def load(name: str) -> Target:
    """The target of a name: class `Fuzzed` in its file."""
    made: Target = import_module(f"tests.fuzz.targets.{name}").Fuzzed()
    return made


def draw(target: str, seed: int, number: int) -> Random:
    """The chance of one case, whatever ran before it."""
    return Random(f"{target}:{seed}:{number}")


def judge(target: Target, folder: Path, base: Path, one: Input) -> Result:
    """Run one input in this process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            target.run(folder, base, *one)
    except WhisperHailoError as error:
        if error.exit_code is ExitCode.INTERNAL:
            return Result(INTERNAL, _said(error))
        return Result(REFUSED, f"{type(error).__name__}: {error}")
    except BaseException as error:  # a panic of a Rust library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return Result(INTERNAL, _said(error))
    return Result(OK)


def command(*words: str) -> None:
    """The whole command in this process.

    Raises:
        ExitError: it left with the code of internal errors, or with one that is not documented.
    """
    from whisper_hailo.cli.app import run

    try:
        code = run(list(words))
    except SystemExit as error:
        code = int(error.code or 0)
    if code not in set(ExitCode) - {ExitCode.INTERNAL}:
        raise ExitError(f"code {code} of {' '.join(words)[:300]!r}")


def _said(error: BaseException) -> str:
    """The error and the last lines of ours that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f"{os.sep}whisper_hailo{os.sep}" in f.filename][-2:]
    where = " < ".join(
        f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(own)
    )
    return f"{type(error).__name__}: {str(error)[:300]} at {where or 'the target'}"
