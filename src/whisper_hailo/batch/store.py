"""Stores of recordings and jobs: folders, and addresses such as `s3://bucket/name` by fsspec."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, cast

from whisper_hailo.core.errors import AudioError, OptionError, OutputError, display_path
from whisper_hailo.core.files import read_regular_file, try_lock, wrap_os_error, write_file
from whisper_hailo.core.process import install_command

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

LEDGER_FILE: Final = "job.sqlite"

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_REACH_ADVICE: Final = "see that it can be reached, and run the same command again"
_ADVICE: Final = f"free some space, or {_REACH_ADVICE}"
_LARGEST_BYTES: Final = 1 << 30


def is_address(audio: str) -> bool:
    """Return whether it is an address and not a path."""
    return _ADDRESS.match(audio) is not None


class Store(Protocol):
    """Files of a job by name; a name may have slashes. Writes are atomic."""

    @property
    def name(self) -> str:
        """The folder's path or the bucket's address, for messages."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether the ledger is used in place, not as a copy."""
        ...

    def read(self, name: str) -> bytes | None:
        """Read a file; `None` if there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file."""
        ...

    def hold(self, resources: ExitStack) -> None:
        """Lock the store for one run, until `resources` are closed."""
        ...

    def ledger(self, resources: ExitStack) -> Path:
        """Return the local path of the ledger, which need not exist; `resources` hold a copy."""
        ...


class Folder:
    """A folder on this machine."""

    is_local = True

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
            return read_regular_file(path, _LARGEST_BYTES)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OutputError(
                f"{display_path(path)} cannot be read ({reason}); {_ADVICE}"
            ) from error

    def write(self, name: str, data: bytes) -> None:
        write_file(self._path / name, data, _ADVICE)

    def hold(self, resources: ExitStack) -> None:
        with wrap_os_error(self._path, _ADVICE):
            self._path.mkdir(parents=True, exist_ok=True)
        held = resources.enter_context(try_lock(self._path / ".lock", _ADVICE))
        if not held:
            raise OutputError(
                f"another run works on {display_path(self._path)}; wait for it, or give it more "
                "--workers"
            )

    def ledger(self, resources: ExitStack) -> Path:
        del resources
        return self._path / LEDGER_FILE


@contextmanager
def open_recording(audio: str) -> Iterator[Path | BinaryIO]:
    """Open a recording for `open_audio`."""
    if not is_address(audio):
        yield Path(audio)
        return
    try:
        files, path = _file_system(audio)
        raw = files.open(path, "rb")
    except (OSError, OptionError) as error:
        raise AudioError(
            f"{display_path(audio)} cannot be opened ({error}); check the address"
        ) from error
    with raw:
        yield cast(BinaryIO, raw)


def open_store(place: str) -> Store:
    """Return the store of a folder or an address."""
    return Bucket(place) if is_address(place) else Folder(Path(place))


class Bucket:
    """A store that fsspec knows, such as `s3://bucket/job`, with fsspec's own settings."""

    is_local = False

    def __init__(self, address: str) -> None:
        self.name = address.rstrip("/")
        self._files, self._path = _file_system(self.name)

    def read(self, name: str) -> bytes | None:
        try:
            return cast(bytes, self._files.cat_file(f"{self._path}/{name}"))
        except FileNotFoundError:
            return None
        except Exception as error:  # of any library behind fsspec
            raise self._unreachable("read", name, error) from error

    def write(self, name: str, data: bytes) -> None:
        try:
            self._files.makedirs(f"{self._path}/{name}".rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(f"{self._path}/{name}", data)
        except Exception as error:
            raise self._unreachable("write", name, error) from error

    def hold(self, resources: ExitStack) -> None:
        """Do nothing: buckets have no locks. Two drivers get the same results."""
        del resources

    def ledger(self, resources: ExitStack) -> Path:
        folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="whisper-hailo-"))
        path = Path(folder) / LEDGER_FILE
        if (data := self.read(LEDGER_FILE)) is not None:
            with wrap_os_error(path, _ADVICE):
                path.write_bytes(data)
        return path

    def _unreachable(self, what: str, name: str, error: Exception) -> OutputError:
        place = display_path(f"{self.name}/{name}")
        return OutputError(f"cannot {what} {place} ({str(error)[:200]}); {_REACH_ADVICE}")


def _file_system(address: str) -> tuple[AbstractFileSystem, str]:
    try:
        import fsspec

        found: tuple[Any, str] = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise OptionError(
            f"{display_path(address)} needs a library that is not installed ({error}); "
            f"{install_command('cluster')}"
        ) from error
    return found
