"""Fetches published HEFs: whole, for the right chip, and in their place only when they are."""

from __future__ import annotations

import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.backends.hailo.hef_catalog import KnownHefs
from whisper_hailo.backends.hailo.hef_contract import RUNS_ON, EncoderShape, check_config, find_part
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.core.errors import (
    HubError,
    ModelError,
    OptionError,
    OutputError,
    WrongChipError,
    display_path,
)
from whisper_hailo.core.files import ANOTHER_CACHE, atomic_file, sha256, wrap_os_error, write_file

LARGEST_BYTES: Final = 512 << 20
"""Small's file of both halves, the largest that is published, has 388 MB."""

TIMEOUT_S: Final = 10.0
"""For a connection, and for each piece that is waited for."""
_PIECE: Final = 1 << 16


def download(address: str, target: Path) -> None:
    """Copy what is at a web address into a file, no further than what a HEF can have."""
    folder = target.parent
    try:
        with target.open("wb") as file:
            for piece in _pieces(address, folder):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(
            f"cannot write below {display_path(folder)} ({error.strerror or error}); "
            f"{ANOTHER_CACHE}"
        ) from error


def _pieces(address: str, folder: Path) -> Iterator[bytes]:
    """Yield what comes, as it comes; `folder` is where the user may put it instead."""
    size = 0
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answered:  # noqa: S310 - checked
            stated = int(answered.headers.get("Content-Length") or -1)
            if stated > LARGEST_BYTES:
                raise ModelError(f"{address} has {stated} bytes, more than {LARGEST_BYTES}")
            while piece := answered.read1(_PIECE):
                size += len(piece)
                if size > LARGEST_BYTES:
                    raise ModelError(f"{address} has more than {LARGEST_BYTES} bytes")
                yield piece
    except urllib.error.HTTPError as error:
        raise HubError(
            f"{address} answers {error.code} {error.reason}; the vendor may have moved it: see "
            "download_resources.py of hailo-ai/hailo-apps, speech recognition"
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise HubError(
            f"cannot fetch {address} ({reason}); fetch it where there is a network and copy it to "
            f"{display_path(folder)}, or give a mirror with --from"
        ) from error
    if stated not in {-1, size}:
        raise HubError(f"{address} broke off after {size} of {stated} bytes; try again")


SUMS: Final = "SHA256SUMS"
"""As `sha256sum --check` reads it."""

_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")


class Sums:
    """What the files of a folder have to be."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SUMS
        self.known: dict[str, str] = {}
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
            found = [match for match in map(_LINE.fullmatch, lines) if match]
            self.known = {match[2]: match[1] for match in found}

    def check(self, name: str, found: str) -> None:
        """Compare a file's hash with what it should be; one that is not known passes."""
        expected = self.known.get(name, found)
        if found != expected:
            raise ModelError(
                f"{name} has the SHA-256 {found[:16]}..., expected {expected[:16]}..., which came "
                "before; compare with what others have, and remove its line in "
                f"{display_path(self.path)} to take this one"
            )

    def keep(self, name: str, found: str) -> None:
        """Remember what a file that was good is from now on."""
        if self.known.get(name) != found:
            self.known[name] = found
            lines = [f"{digest}  {file}\n" for file, digest in sorted(self.known.items())]
            write_file(self.path, "".join(lines))


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was fetched, or was there."""

    files: tuple[Path, ...]
    hashes: tuple[str, ...]
    sums: Path


def fetch(known: KnownHefs, place: str) -> Fetched:
    """Fetch encoder, decoder and the decoder's arrays; what is there and whole stays."""
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
        with wrap_os_error(target, ANOTHER_CACHE), atomic_file(target) as scratch:
            download(source, scratch)
            return self._checked(scratch)

    def _checked(self, path: Path) -> str:
        """Return the hash of a file that is what it should be."""
        _check(path, self.target.name, self.known)
        found = sha256(path)
        self.sums.check(self.name, found)
        return found


def _check(path: Path, name: str, known: KnownHefs) -> None:
    """Is it what it should be? `name` is the one it will have."""
    if not name.endswith(".hef"):
        check_array(path, name)
        return
    hef = read_hef(path)
    if name == known.encoder:
        shape = find_part(hef, "encoder")
        if isinstance(shape, EncoderShape):
            check_config(hef, shape)
    if name == known.decoder:
        find_part(hef, "decoder")
    if hef.arch not in RUNS_ON[known.arch]:
        raise WrongChipError(f"{name} from there is for {hef.arch}, not for {known.arch}")


def check_array(path: Path, name: str) -> None:
    """Refuse a file that is not an array of NumPy."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        good = array.dtype == np.float32 and array.ndim >= 2
    except (OSError, ValueError, EOFError) as error:
        raise ModelError(f"{name} from there is no array ({error}); try again") from error
    if not good:
        raise ModelError(f"{name} from there is {array.dtype} {array.shape}, expected float32 rows")
