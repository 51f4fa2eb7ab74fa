"""The place of a job: a folder, or a bucket that looks like one."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.files import read_plain, unwritable, write_file
from whisper_hailo.core.names import shown
from whisper_hailo.core.one_process import sole

_ADVICE = "free some space, or see that it can be reached, and run the same command again"
_LARGEST_BYTES = 1 << 30


class Store(Protocol):
    """Files of a job by name; a name may have slashes. Each is whole or not there."""

    @property
    def name(self) -> str:
        """The folder's path or the bucket's address, for messages."""
        ...

    def read(self, name: str) -> bytes | None:
        """A file's content; `None` if there is none.

        Raises:
            OutputError: it cannot be read.
        """
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in the place of one that is there.

        Raises:
            OutputError: it cannot be written; what was there is as before.
        """
        ...

    def names(self, folder: str) -> list[str]:
        """Names of the files right below a folder, sorted; none where there is no folder."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; harmless where there is none."""
        ...

    def hold(self, resources: ExitStack) -> None:
        """Be the only run that works there, until `resources` are given back.

        Raises:
            OutputError: another run does.
        """
        ...


class Folder:
    """A folder on this machine.

    Args:
        path: made when something is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        if not path.exists():
            return None
        try:
            return read_plain(path, _LARGEST_BYTES)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OutputError(f"{shown(path)} cannot be read ({reason}); {_ADVICE}") from error

    def write(self, name: str, data: bytes) -> None:
        write_file(self._path / name, data, _ADVICE)

    def names(self, folder: str) -> list[str]:
        path = self._path / folder
        if not path.is_dir():
            return []
        return sorted(
            f"{folder}/{entry.name}" for entry in path.iterdir() if not entry.name.startswith(".")
        )

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def hold(self, resources: ExitStack) -> None:
        with unwritable(self._path, _ADVICE):
            self._path.mkdir(parents=True, exist_ok=True)
        held = resources.enter_context(sole(self._path / ".lock", _ADVICE))
        if not held:
            raise OutputError(
                f"another run works on {shown(self._path)}; wait for it, or give it more --workers"
            )
