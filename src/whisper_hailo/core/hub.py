"""Files of the model hub, which a process of its own fetches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whisper_hailo.core.fetching import fetch_apart


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
        HubUnreachableError: no network, or a server that drips.
        HubError: no such model, or no disk.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    kept = Path(HF_HUB_CACHE, f"models--{hub_id.replace('/', '--')}", "blobs")
    words = [hub_id, revision or "", instead, *patterns]
    return Path(fetch_apart("whisper_hailo.core.hub_program", words, kept))
