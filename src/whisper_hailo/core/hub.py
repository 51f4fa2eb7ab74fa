"""Files of the model hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import HubError, HubUnreachableError

# Read when the hub's client is imported. Its Xet protocol has none of the client's time-outs.
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")

_NO_CONNECTION: Final = {"ConnectionError", "TimeoutError", "Timeout", "TransportError", "gaierror"}
"""Base classes of Python and of the HTTP libraries that the client uses."""


def fetch_files(
    hub_id: str, patterns: Sequence[str], instead: str, revision: str | None = None
) -> Path:
    """Download files from the model hub, or take them from its cache.

    Args:
        hub_id: such as `openai/whisper-tiny`.
        patterns: of their names.
        instead: for the message: what to do where there is no hub.
        revision: commit, tag or branch; `None` is the main branch.

    Returns:
        the folder of the snapshot, whose name is the commit.

    Raises:
        HubUnreachableError: the hub does not answer.
        HubError: no such model, or no disk.
    """
    try:
        return _download(hub_id, patterns, revision)
    except Exception as error:  # the client raises errors of several HTTP libraries
        kind = HubUnreachableError if _is_unreachable(error) else HubError
        raise kind(
            f"cannot fetch {hub_id} from the model hub ({_reason(error)}); check the name and the "
            f"network, {instead}"
        ) from error


def _download(hub_id: str, patterns: Sequence[str], revision: str | None) -> Path:
    """Download one file after another in this thread.

    `snapshot_download` asks for the list without a time-out, and Ctrl-C waits for its threads.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download

    timeout_s = constants.HF_HUB_ETAG_TIMEOUT
    try:
        found = HfApi().model_info(hub_id, revision=revision, timeout=timeout_s)
    except Exception:
        with suppress(FileNotFoundError):
            return Path(
                snapshot_download(
                    hub_id, revision=revision, allow_patterns=list(patterns), local_files_only=True
                )
            )
        raise
    names = [file.rfilename for file in found.siblings or ()]
    wanted = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    if not wanted:
        raise ValueError("it has no file of a checkpoint")
    for name in wanted:
        path = hf_hub_download(hub_id, name, revision=found.sha, etag_timeout=timeout_s)
    # Notes the commit of a branch, last: without a network a branch leads to whole snapshots only.
    hf_hub_download(hub_id, wanted[0], revision=revision, etag_timeout=timeout_s)
    return Path(path.removesuffix(name))


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
