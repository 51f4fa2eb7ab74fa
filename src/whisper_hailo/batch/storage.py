"""Where a job reads and writes: local folders, and addresses such as `s3://` through fsspec.

Credentials are those that fsspec's libraries find. No message shows the ones of an address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any, Final, TypeVar

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import OptionError, OutputError, display_path

T = TypeVar("T")

ADVICE: Final = "make it writable and run the same command again"

WAITS_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Back-off of an access that failed: half a minute together, longer than a network drive or a
bucket is usually away."""

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SHORTENED: Final = re.compile(r"^([a-z][a-z0-9+.-]+):/(?!/)", re.IGNORECASE)
_USER: Final = re.compile(r"(://)[^/\s@]+@")
_QUERY: Final = re.compile(r"(://[^\s?]+)\?\S+")
_CREDENTIALS: Final = re.compile(r"[^\s/:@]+:[^\s/@]+@|\?[^\s?]*=[^\s)]*")
"""User and password, and the query that is a signature, also without the scheme of an address."""


def is_address(name: str) -> bool:
    """Return whether a name is an address, as `s3://bucket/a.wav`, and no local path."""
    return _ADDRESS.match(name) is not None


def restore_address(path: Path) -> str:
    """Return the address that became a path, which has one slash of two."""
    return _SHORTENED.sub(r"\1://", str(path))


def redact(text: str) -> str:
    """Return a text without passwords and signatures of the addresses in it."""
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def describe_error(error: BaseException) -> str:
    """Return the reason of a failed access, in one line, without credentials."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    text = redact(" ".join(str(reason).split()))
    return _CREDENTIALS.sub("", text)[:300]


def open_file_system(address: str) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the path in it.

    Raises:
        OptionError: nothing knows such addresses, or its library is not installed.
    """
    from fsspec.core import url_to_fs

    try:
        file_system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise OptionError(
            f"{redact(address)} cannot be opened ({describe_error(error)}); install the fsspec "
            "library for it, such as s3fs, gcsfs, adlfs or aiohttp"
        ) from error
    return file_system, path


def join_address(folder: str, name: str) -> str:
    """Return the path or address of a file below a folder."""
    return f"{folder.rstrip('/')}/{name}"


def strip_file_scheme(name: str) -> str:
    """Return the path of a `file://` address; others stay."""
    return name.removeprefix("file://")


class Storage:
    """The folder of a job, on this machine or at an address; files in it are written whole."""

    def __init__(self, folder: str) -> None:
        folder = strip_file_scheme(folder)
        self.folder = folder
        self.is_local = not is_address(folder)
        self.label = display_path(redact(folder))
        self._file_system: Any = None
        self._root = folder
        if not self.is_local:
            self._file_system, self._root = open_file_system(folder)

    def address(self, name: str) -> str:
        """Return the path or address of a file, valid from any folder."""
        folder = self.folder
        if self.is_local:
            folder = str(Path(folder).absolute())
        return join_address(folder, name)

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it does not exist.

        Raises:
            OutputError: it cannot be listed.
        """
        if self.is_local:
            return self._list_local(folder)
        path = join_address(self._root, folder)

        def list_remote() -> list[str]:
            self._file_system.invalidate_cache()
            try:
                found = self._file_system.ls(path, detail=False)
            except FileNotFoundError:
                return []
            return [name.rstrip("/").rpartition("/")[2] for name in found]

        return self._try(list_remote, "list", folder)

    def _list_local(self, folder: str) -> list[str]:
        try:
            return [path.name for path in Path(self.folder, folder).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._fault("list", folder, error) from error

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, `None` if it does not exist.

        Raises:
            OutputError: it cannot be read.
        """

        def read_file() -> bytes | None:
            try:
                if self.is_local:
                    return Path(self.folder, name).read_bytes()
                content: bytes = self._file_system.cat_file(
                    join_address(self._root, name)
                )
            except (FileNotFoundError, NotADirectoryError):
                return None
            return content

        return self._try(read_file, "read", name)

    def write(self, name: str, content: str) -> None:
        """Write a file whole, or not at all.

        Raises:
            OutputError: it cannot be written.
        """
        if self.is_local:
            write_file(Path(self.folder, name), content, ADVICE)
            return
        path = join_address(self._root, name)

        def write_remote() -> None:
            self._file_system.pipe_file(path, content.encode())

        self._try(write_remote, "write", name)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        if self.is_local:
            Path(self.folder, name).unlink(missing_ok=True)
            return
        path = join_address(self._root, name)

        def remove_remote() -> None:
            if self._file_system.exists(path):
                self._file_system.rm_file(path)

        self._try(remove_remote, "remove", name)

    def _try(self, access: Callable[[], T], verb: str, name: str) -> T:
        """Return the result of an access to an address; it is tried again with back-off."""
        waits = iter(() if self.is_local else WAITS_S)
        while True:
            try:
                return access()
            except Exception as error:  # libraries of fsspec raise many kinds
                wait_s = next(waits, None)
                if wait_s is None:
                    raise self._fault(verb, name, error) from error
            sleep(wait_s)

    def _fault(self, verb: str, name: str, error: Exception) -> OutputError:
        return OutputError(
            f"cannot {verb} {self.label}/{name} ({describe_error(error)}); check the address and "
            "its permissions, and run the same command again"
        )
