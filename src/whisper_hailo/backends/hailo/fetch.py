"""Fetches published HEFs: whole, for the right chip, and in their place only when they are."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whisper_hailo.backends.hailo.download import download
from whisper_hailo.backends.hailo.known import KnownHefs
from whisper_hailo.backends.hailo.sums import Sums
from whisper_hailo.backends.hef.contract import RUNS_ON, find_part
from whisper_hailo.backends.hef.read import read_hef
from whisper_hailo.core.errors import ModelError, OptionError, WrongChipError
from whisper_hailo.core.files import ANOTHER_CACHE, sha256, unwritable, written_whole

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was fetched, or was there.

    Attributes:
        files: in the pair's folder.
        hashes: SHA-256 of each, in hexadecimal.
        sums: where all are written down; what is fetched later has to be the same.
    """

    files: tuple[Path, ...]
    hashes: tuple[str, ...]
    sums: Path


def fetch(known: KnownHefs, place: str) -> Fetched:
    """Fetch encoder, decoder and the decoder's arrays; what is there and whole stays.

    Args:
        known: which pair.
        place: address that the paths are below, ending in a slash.

    Raises:
        OptionError: no web address.
        HubError: the place cannot be reached, or does not have a file.
        ModelError, WrongChipError: what came is broken, for another chip, or not what came before.
        OutputError: it cannot be written.
    """
    if not place.startswith(("https://", "http://")):
        raise OptionError(f"--from is {place!r}, expected an address that begins with https://")
    sums = Sums(known.folder)
    hashes = {}
    for name, address in known.files().items():
        wanted = _Wanted(known, name, address, sums)
        hashes[name] = wanted.hash_if_good() or wanted.fetch(place)
        sums.keep(name, hashes[name])
    return Fetched(
        files=tuple(known.folder / name for name in hashes),
        hashes=tuple(hashes.values()),
        sums=sums.path,
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One file of a pair: its name below the folder, its address below the place."""

    known: KnownHefs
    name: str
    address: str
    sums: Sums

    @property
    def target(self) -> Path:
        return self.known.folder / self.name

    def hash_if_good(self) -> str | None:
        """Its hash, if it is there and what it should be."""
        if not self.target.is_file():
            return None
        try:
            return self._checked(self.target)
        except (ModelError, WrongChipError):
            return None

    def fetch(self, place: str) -> str:
        source, target = place + self.address, self.target
        logger.info("fetching %s", source)
        with unwritable(target, ANOTHER_CACHE), written_whole(target) as scratch:
            download(source, scratch)
            return self._checked(scratch)

    def _checked(self, path: Path) -> str:
        """The hash of a file that is what it should be."""
        _check(path, self.target.name, self.known)
        found = sha256(path)
        self.sums.check(self.name, found)
        return found


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
