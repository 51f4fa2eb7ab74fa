"""Published HEFs brought into the cache: from hailo-apps on this machine, or from the network."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.backends.hailo.hef_catalog import KnownHefs
from whisper_hailo.backends.hailo.hef_contract import (
    RUNS_ON,
    DecoderShape,
    EncoderShape,
    find_part,
)
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.core.atomic_files import atomic_file, wrap_os_error
from whisper_hailo.core.errors import (
    HubError,
    ModelError,
    OptionError,
    WrongChipError,
    display_path,
)
from whisper_hailo.core.paths import ANOTHER_CACHE

logger = logging.getLogger(__name__)

HAILO_APPS: Final = Path("/usr/local/hailo/resources")
"""Where hailo-apps leaves what it downloads: `models/ARCH/NAME.hef` and `npy/NAME.npy`."""


class _NotThereError(HubError):
    """A server answers, and has no such file."""


def fetch(hefs: KnownHefs, base_url: str) -> list[Path]:
    """Fetch encoder, decoder and the decoder's arrays; whole files stay.

    `base_url` is the folder of the files, `KnownHefs.place` or a mirror of it.
    """
    if not base_url.startswith(("https://", "http://")):
        raise OptionError(
            f"--from is {base_url!r}, expected an address that begins with https://"
        )
    for name, remote_paths in hefs.files().items():
        target = hefs.folder / name
        if target.is_file():
            with suppress(ModelError, WrongChipError):
                _check_file(target, hefs, name)
                continue
        with wrap_os_error(target, ANOTHER_CACHE), atomic_file(target) as scratch:
            if not _copy_installed(scratch, hefs, name):
                urls = [base_url + path for path in remote_paths]
                _download_first(urls, scratch, target.parent)
            _check_file(scratch, hefs, name)  # before it takes its place
    return [hefs.folder / name for name in hefs.files()]


def _copy_installed(target: Path, hefs: KnownHefs, name: str) -> bool:
    """Copy a file that hailo-apps downloaded; return whether there is one that fits."""
    file = Path(name).name
    path = HAILO_APPS / "npy" / file
    if name.endswith(".hef"):
        path = HAILO_APPS / "models" / hefs.arch / file
    if not path.is_file():
        return False
    try:
        _check_file(path, hefs, name)
    except (ModelError, WrongChipError) as error:
        logger.warning("%s is not used (%s)", path, error)
        return False
    logger.info("copying %s", path)
    shutil.copyfile(path, target)
    return True


def _download_first(urls: list[str], target: Path, folder: Path) -> None:
    """Download a file from the first address that has it; `folder` is for messages."""
    for url in urls:
        logger.info("fetching %s", url)
        try:
            with target.open("wb") as file:
                file.writelines(_download(url, folder))
            return
        except _NotThereError:
            if url == urls[-1]:
                raise
            logger.info("it is not there")


def _check_file(path: Path, hefs: KnownHefs, name: str) -> None:
    """Refuse a file that does not fit its name."""
    if name.endswith(".hef"):
        hef = read_hef(path)
        if name == hefs.encoder:
            find_part(hef, EncoderShape)
        if name == hefs.decoder:
            find_part(hef, DecoderShape)
        if hef.arch not in RUNS_ON[hefs.arch]:
            raise WrongChipError(
                f"{name} from there is for {hef.arch}, not for {hefs.arch}"
            )
    else:
        _check_array(path, Path(name).name)


def _check_array(path: Path, name: str) -> None:
    """Refuse a file that holds no float32 rows."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ModelError(
            f"{name} from there is not an array ({error}); try again"
        ) from error
    if array.dtype != np.float32 or array.ndim < 2:
        raise ModelError(
            f"{name} from there is {array.dtype} {array.shape}, expected float32 rows"
        )


LARGEST_DOWNLOAD: Final = 512 << 20
"""The largest that is published has 388 MB."""

DOWNLOAD_TIMEOUT_S: Final = 10.0
"""For a connection, and for each piece that is waited for."""

_PIECE_BYTES: Final = 1 << 16


def _download(url: str, folder: Path) -> Iterator[bytes]:
    """Yield a file piece by piece, as it comes.

    `folder` is where the user may put it instead, for messages.
    """
    import urllib.error  # thirty milliseconds, which only `fetch-hef` should pay
    import urllib.request
    from http.client import HTTPException

    size = 0
    try:
        with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response:  # noqa: S310 - checked
            stated_size = int(response.headers.get("Content-Length") or -1)
            while piece := response.read1(_PIECE_BYTES):
                size += len(piece)
                if size > LARGEST_DOWNLOAD:  # a server may send without end
                    raise ModelError(f"{url} has more than {LARGEST_DOWNLOAD} bytes")
                yield piece
    except urllib.error.HTTPError as error:
        raise _NotThereError(
            f"{url} answers {error.code} {error.reason}; the vendor may have moved it: see "
            "download_resources.py of hailo-ai/hailo-apps, speech recognition"
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise HubError(
            f"cannot fetch {url} ({reason}); fetch it where there is a network and copy it to "
            f"{display_path(folder)}, or give a mirror with --from"
        ) from error
    # `read1` returns nothing at the end of a broken connection, too.
    if stated_size not in {-1, size}:
        raise HubError(
            f"{url} broke off after {size} of {stated_size} bytes; try again"
        )
