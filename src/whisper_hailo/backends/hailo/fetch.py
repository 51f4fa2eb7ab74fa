"""Fetches published HEFs: whole, for the right chip, and in their place only when they are."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from pathlib import Path

import numpy as np

from whisper_hailo.backends.hailo.known import KnownHefs
from whisper_hailo.backends.hef.contract import RUNS_ON, find_part
from whisper_hailo.backends.hef.read import read_hef
from whisper_hailo.core.apart import fetch_apart
from whisper_hailo.core.errors import ModelError, OptionError, OutputError, WrongChipError
from whisper_hailo.core.files import ordinary_mode

logger = logging.getLogger(__name__)


def fetch(known: KnownHefs, place: str) -> list[Path]:
    """Fetch encoder, decoder and the decoder's arrays; what is there and whole stays.

    Args:
        known: which pair.
        place: address that the paths are below, ending in a slash.

    Returns:
        the files, in the pair's folder.

    Raises:
        OptionError: no web address.
        HubError: the place cannot be reached, or does not have a file.
        ModelError, WrongChipError: what came is broken, or for another chip.
        OutputError: it cannot be written.
    """
    if not place.startswith(("https://", "http://")):
        raise OptionError(f"--from is {place!r}, expected an address that begins with https://")
    done = []
    for name, address in known.files().items():
        target = known.folder / name
        if not _is_good(target, known):
            _fetch_one(place + address, target, known)
        done.append(target)
    return done


def _is_good(target: Path, known: KnownHefs) -> bool:
    if not target.is_file():
        return False
    try:
        _check(target, target.name, known)
    except (ModelError, WrongChipError):
        return False
    return True


def _fetch_one(address: str, target: Path, known: KnownHefs) -> None:
    logger.info("fetching %s", address)
    partial: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
        partial = Path(name)
        fetch_apart("whisper_hailo.backends.hailo.download", [address, name], partial)
        _check(partial, target.name, known)
        partial.chmod(ordinary_mode(0o666))
        partial.replace(target)
        partial = None
    except OSError as error:
        raise OutputError(
            f"cannot write {target} ({error.strerror or error}); set WHISPER_HAILO_CACHE to a "
            "writable folder with free space"
        ) from error
    finally:
        if partial is not None:
            with contextlib.suppress(OSError):
                partial.unlink()


def _check(path: Path, name: str, known: KnownHefs) -> None:
    """Is it what it should be? `name` is the one it will have."""
    if not name.endswith(".hef"):
        _check_array(path, name)
        return
    hef = read_hef(path)
    find_part(hef, "encoder" if name == known.encoder else "decoder")
    if hef.arch not in RUNS_ON[known.arch]:
        raise WrongChipError(f"{name} from there is for {hef.arch}, not for {known.arch}")


def _check_array(path: Path, name: str) -> None:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        good = array.dtype == np.float32 and array.ndim >= 2
    except (OSError, ValueError, EOFError) as error:
        raise ModelError(f"{name} from there is no array ({error}); try again") from error
    if not good:
        raise ModelError(f"{name} from there is {array.dtype} {array.shape}, expected float32 rows")
