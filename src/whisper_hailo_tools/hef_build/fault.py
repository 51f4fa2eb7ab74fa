"""What can go wrong in a build, in one line each, with the exit code of `docs/errors.md`."""

from __future__ import annotations

import hashlib
from pathlib import Path

OPTION, MODEL, DEVICE, OUTPUT, INTERRUPTED = 2, 4, 6, 7, 130
"""Exit codes, the same as the command's own."""

MARK = "hef-build failed: "
"""Begins the line by which the build process tells its supervisor what went wrong."""


class BuildError(Exception):
    """A build cannot go on.

    Attributes:
        code: the exit code that goes with it.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def one_line(error: BaseException) -> str:
    """The first 300 characters of an error of the compiler, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def disk_error(what: object, error: OSError) -> BuildError:
    """The error of a file that cannot be written."""
    return BuildError(
        OUTPUT,
        f"cannot write {what} ({error.strerror or error}); give a writable place with enough free "
        "space and start again: finished stages are kept",
    )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal.

    Raises:
        BuildError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise BuildError(MODEL, f"cannot read {path} ({error.strerror or error})") from error
    return digest.hexdigest()
