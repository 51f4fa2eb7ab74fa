"""The process that fetches files from the model hub; `hub.fetch_files` starts it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from types import FrameType
from typing import Final

from whisper_hailo.core.errors import HubError, HubUnreachableError
from whisper_hailo.core.own_process import answer

_PIECE_BYTES: Final = 1 << 16
"""The client writes pieces of 10 MiB, which would be much to wait for on a slow line."""

_NO_CONNECTION: Final = {"ConnectionError", "TimeoutError", "Timeout", "TransportError", "gaierror"}
"""Base classes of Python and of the HTTP libraries that the client uses."""

_OWN_HALF: Final = re.compile(r"\.[0-9a-f]{8}\.incomplete$")
"""With a number that nobody else has; without one, the next download goes on where it ends."""


def fetch(hub_id: str, revision: str, instead: str, *patterns: str) -> str:
    """Download files, or take them from the hub's cache; the words are those of `fetch_files`.

    Returns:
        the folder of the snapshot, whose name is the commit.

    Raises:
        HubUnreachableError: the hub does not answer.
        HubError: no such model, or no disk.
    """
    from huggingface_hub import constants, snapshot_download

    constants.DOWNLOAD_CHUNK_SIZE = _PIECE_BYTES
    try:
        return str(
            snapshot_download(hub_id, revision=revision or None, allow_patterns=list(patterns))
        )
    except Exception as error:  # the client raises errors of several HTTP libraries
        kind = HubUnreachableError if _is_unreachable(error) else HubError
        raise kind(
            f"cannot fetch {hub_id} from the model hub ({_reason(error)}); check the name and the "
            f"network, {instead}"
        ) from error


def _is_unreachable(error: BaseException | None) -> bool:
    """Tell a failed connection from an answer, from offline mode and from a full disk."""
    failed = False
    while error is not None:
        classes = {base.__name__ for base in type(error).__mro__}
        if "OfflineModeIsEnabled" in classes or getattr(error, "response", None) is not None:
            return False
        failed = failed or bool(classes & _NO_CONNECTION)
        error = error.__cause__
    return failed


def _reason(error: BaseException) -> str:
    """The innermost cause on one line: that is where "no such host" stands."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."


def _tidy_up(_number: int, _frame: FrameType | None) -> None:
    """Remove the halves of files that this process has; no other download goes on with them."""
    for link in Path("/proc/self/fd").iterdir():
        try:
            file = os.readlink(link)
            if _OWN_HALF.search(file):
                os.unlink(file)
        except OSError:  # closed, or in its place, meanwhile
            continue
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _tidy_up)
    # Its own protocol keeps in memory what has come, so that nobody sees whether anything does.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    answer(fetch)
