"""Downloads one published file."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import HubError, ModelError, OutputError
from whisper_hailo.core.files import ANOTHER_CACHE
from whisper_hailo.core.names import shown

LARGEST_BYTES: Final = 512 << 20
"""Base's decoder, the largest that is published, has less than a third of it."""

_TIMEOUT_S: Final = 10.0
"""For a connection, and for each piece that is waited for."""
_PIECE: Final = 1 << 16


def download(address: str, target: Path) -> None:
    """Copy what is at a web address into a file, no further than what a HEF can have.

    Raises:
        HubError: it cannot be reached, does not have the file, or broke off.
        ModelError: it has no end.
        OutputError: the file cannot be written.
    """
    folder = target.parent
    try:
        with target.open("wb") as file:
            for piece in _pieces(address, folder):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(
            f"cannot write below {shown(folder)} ({error.strerror or error}); {ANOTHER_CACHE}"
        ) from error


def _pieces(address: str, folder: Path) -> Iterator[bytes]:
    """What comes, as it comes; `folder` is where the user may put it instead."""
    size = 0
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answered:  # noqa: S310 - checked
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
            f"{shown(folder)}, or give a mirror with --from"
        ) from error
    if stated not in {-1, size}:
        raise HubError(f"{address} broke off after {size} of {stated} bytes; try again")
