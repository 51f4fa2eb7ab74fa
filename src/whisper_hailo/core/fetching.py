"""Fetching that is left when the server sends too little.

A server that drips, a byte now and then, is never late enough for a time-out, in headers or body.
"""

from __future__ import annotations

import math
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import HubError, HubUnreachableError
from whisper_hailo.core.own_process import LOOK_S, DiedError, Waitable, run_apart

PATIENCE_S: Final = 60.0
LEAST_BYTES: Final = 64 << 10
"""So much, a kilobyte in a second, has to come in that time."""


def fetch_apart(module: str, words: list[str], place: Path) -> Any:  # noqa: ANN401 - JSON
    """Run a module that fetches, for as long as it gets on.

    Args:
        module: its full name; see `run_apart`.
        words: what it fetches, and whatever else its work takes.
        place: the file or folder that grows while it does.

    Returns:
        what its work returned.

    Raises:
        HubError: too little came, or the process died.
        WhisperHailoError: whatever its work raised.
    """
    try:
        return run_apart(module, words, partial(wait_for_download, place=place, what=words[0]))
    except DiedError as error:
        raise HubError(f"fetching {words[0]} ended with code {error.code}; try again") from error


def wait_for_download(
    process: Waitable, place: Path, what: str, timeout_s: float = math.inf
) -> None:
    """Wait for the end of a process that downloads, for as long as it gets on.

    Args:
        process: started by the caller, who ends it.
        place: the file or folder that grows while it downloads.
        what: it downloads, for messages.
        timeout_s: deadline of all of it.

    Raises:
        HubUnreachableError: too little came, or it took too long.
    """
    size, since = _size(place), time.monotonic()
    until = since + timeout_s
    while True:
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            now = _size(place)
            if time.monotonic() > until:
                raise HubUnreachableError(
                    f"cannot fetch {what}: it is not complete after {timeout_s:g} s; try again "
                    "later, or where the network is better"
                ) from None
            if not size <= now < size + LEAST_BYTES:  # what is begun anew shrinks first
                size, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE_S:
                raise HubUnreachableError(
                    f"cannot fetch {what}: the server sent less than {LEAST_BYTES >> 10} KiB in "
                    f"{PATIENCE_S:g} s; try again later, or where the network is better"
                ) from None
        else:
            return


def _size(place: Path) -> int:
    """Bytes of a file, or of all files below a folder, as far as they are there."""
    total = 0
    for path in (place, *place.rglob("*")):
        try:
            total += path.stat().st_size
        except OSError:  # moved to its final name at this moment
            continue
    return total
