"""Fetching in a process of its own, which is left when the server sends too little.

A server that drips, a byte now and then, is never late enough for a time-out, in headers or body.
Clients of others cannot be stopped in the middle; a process can, by killing it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core import errors
from whisper_hailo.core.errors import HubError, WhisperHailoError

PATIENCE_S: Final = 60.0
LEAST_BYTES: Final = 64 << 10
"""So much, a kilobyte in a second, has to come in that time."""
_LOOK_S: Final = 0.5
_TIDY_S: Final = 5.0
_START: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def fetch_apart(module: str, words: list[str], place: Path) -> Any:  # noqa: ANN401 - JSON
    """Run a module of this package that fetches, for as long as it gets on.

    Args:
        module: its full name; it calls `answer`.
        words: what it fetches, and whatever else its work takes.
        place: the file or folder that grows while it does.

    Returns:
        what its work returned.

    Raises:
        HubError: too little came, or the process died.
        WhisperHailoError: whatever its work raised.
    """
    package = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-P", "-c", _START, package, module, *words]
    # Ctrl-C reaches this process alone, which then ends the other.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    with process:
        try:
            _follow(process, place, words[0])
        finally:
            _end(process)
        assert process.stdout is not None  # noqa: S101 - for the type checker: it was asked for
        said = process.stdout.read().rpartition("\n")[2]
    try:
        answered = json.loads(said)
    except ValueError as error:
        raise HubError(
            f"fetching {words[0]} ended with code {process.returncode}; try again"
        ) from error
    if "kind" in answered:
        raise getattr(errors, answered["kind"])(answered["message"])
    return answered["result"]


def _follow(process: subprocess.Popen[str], place: Path, what: str) -> None:
    """Wait for the end of a process, or for too little to come."""
    size, since = _size(place), time.monotonic()
    while True:
        try:
            process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            now = _size(place)
            if not size <= now < size + LEAST_BYTES:  # what is begun anew shrinks first
                size, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE_S:
                raise HubError(
                    f"cannot fetch {what}: the server sent less than {LEAST_BYTES >> 10} KiB in "
                    f"{PATIENCE_S:g} s; try again later, or where the network is better"
                ) from None
        else:
            return


def _end(process: subprocess.Popen[str]) -> None:
    """End a process, if it still runs, and give it the time to tidy up."""
    process.terminate()
    try:
        process.wait(_TIDY_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _size(place: Path) -> int:
    """Bytes of a file, or of all files below a folder, as far as they are there."""
    total = 0
    for path in (place, *place.rglob("*")):
        try:
            total += path.stat().st_size
        except OSError:  # moved to its final name at this moment
            continue
    return total


def answer(work: Callable[..., Any]) -> None:
    """The fetching process: work with the words, and tell its starter what came of it."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        said = {"result": work(*sys.argv[1:])}
    except WhisperHailoError as error:
        said = {"kind": type(error).__name__, "message": str(error)}
    sys.stdout.write("\n" + json.dumps(said))


def _end_with(starter: int) -> None:
    """End this process when nobody waits for it any more."""
    while os.getppid() == starter:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
