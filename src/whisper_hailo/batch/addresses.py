"""Recordings and folders by address, such as `s3://bucket/name`, through fsspec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from whisper_hailo.batch.manifest import is_address
from whisper_hailo.batch.store import Folder, Store
from whisper_hailo.core.errors import AudioError, OptionError, OutputError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.names import shown

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_ADVICE: Final = "see that it can be reached, and run the same command again"


@contextmanager
def opened(audio: str) -> Iterator[Path | BinaryIO]:
    """A recording as `open_audio` takes it.

    Raises:
        AudioError: an address that cannot be reached.
    """
    if not is_address(audio):
        yield Path(audio)
        return
    try:
        files, path = _file_system(audio)
        raw = files.open(path, "rb")
    except (OSError, OptionError) as error:
        raise AudioError(f"{shown(audio)} cannot be opened ({error}); check the address") from error
    with raw:
        yield cast(BinaryIO, raw)


def store_of(place: str) -> Store:
    """The store of a folder or an address.

    Raises:
        OptionError: no such kind of address here.
    """
    return Bucket(place) if is_address(place) else Folder(Path(place))


class Bucket:
    """A place of a file system that fsspec knows.

    Args:
        address: such as `s3://bucket/job`; settings are those of fsspec's own files and variables.

    Raises:
        OptionError: no such kind of address here.
    """

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

    def names(self, folder: str) -> list[str]:
        try:
            self._files.invalidate_cache()
            found = self._files.ls(f"{self._path}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._unreachable("list", folder, error) from error
        return sorted(f"{folder}/{path.rstrip('/').rpartition('/')[2]}" for path in found)

    def remove(self, name: str) -> None:
        try:
            self._files.rm_file(f"{self._path}/{name}")
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._unreachable("remove", name, error) from error

    def hold(self, resources: ExitStack) -> None:
        """Buckets have no locks: two drivers do some work twice, and results stay the same."""
        del resources

    def _unreachable(self, what: str, name: str, error: Exception) -> OutputError:
        place = shown(f"{self.name}/{name}")
        return OutputError(f"cannot {what} {place} ({str(error)[:200]}); {_ADVICE}")


def _file_system(address: str) -> tuple[AbstractFileSystem, str]:
    try:
        import fsspec

        found: tuple[Any, str] = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise OptionError(
            f"{shown(address)} needs a library that is not installed ({error}); {to_add('cluster')}"
        ) from error
    return found
