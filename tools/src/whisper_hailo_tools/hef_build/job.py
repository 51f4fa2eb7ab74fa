"""The description of one build as a job file, and the errors of builds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

OPTION = 2
MODEL = 4
DEVICE = 6
OUTPUT = 7
INTERRUPTED = 130
"""Exit codes, the same as the command's own."""

MARK = "hef-build failed: "
"""Begins the line in which the build process reports its error to its supervisor."""


class BuildError(Exception):
    """A build cannot continue; `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def one_line(error: BaseException) -> str:
    """Return the first 300 characters of an error of the compiler, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


@contextmanager
def disk_errors(path: object) -> Iterator[None]:
    """Raise an `OSError` of the block as a `BuildError` about writing `path`."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            OUTPUT,
            f"cannot write {path} ({error.strerror or error}); give a writable place with enough "
            "free space and start again: finished stages are kept",
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a scratch file that replaces `path` at the end of the block, or is removed."""
    partial = path.with_name(f"writing-{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise BuildError(
            MODEL, f"cannot read {path} ({error.strerror or error})"
        ) from error
    return digest.hexdigest()


JOB_VERSION = 2


@dataclass(frozen=True)
class BuildJob:
    """One build.

    Attributes:
        arch: `hailo8`, `hailo8l` or `hailo10h`.
        size: row of the recipes: `tiny`, `tiny.en`, `base` or `base.en`.
        net_name: name of the network, with which the calibration set's keys and the results' names
            begin.
        chip_inputs: `(batch, height, width, channels)` of each start.
        calibration: path of the `.npy` or `.npz`.
        script: path of the user's own model script, or `None` to generate one.
        optimization_level: 0 to 4, or `None` for the recipe's.
    """

    arch: str
    part: str
    size: str
    net_name: str
    graph: str
    start_nodes: list[str]
    end_nodes: list[str]
    chip_inputs: list[list[int]]
    d_model: int
    n_layers: int
    calibration: str
    script: str | None
    optimization_level: int | None
    out: str

    def to_json(self) -> str:
        entries = {"version": JOB_VERSION, **asdict(self)}
        return json.dumps(entries, indent=2, sort_keys=True) + "\n"

    @classmethod
    def load(cls, path: Path) -> BuildJob:
        """Read a job; relative paths in it start at its folder."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw.pop("version") != JOB_VERSION:
                raise ValueError("another version")
            for key in ("graph", "calibration", "script", "out"):
                if raw[key] is not None:
                    raw[key] = str(path.parent / raw[key])
            return cls(**raw)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BuildError(
                MODEL, f"{path} is not a build job ({error}); make it again"
            ) from error

    def result(self, suffix: str) -> Path:
        """Return the path of one result by its suffix, such as `.hef` or `_optimized.har`."""
        return Path(self.out) / f"{self.net_name}{suffix}"
