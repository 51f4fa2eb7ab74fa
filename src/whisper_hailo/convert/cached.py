"""Models that were converted into the user's cache: what there is, whether it is whole, away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.checkpoint.hub import SHORT_NAMES
from whisper_hailo.checkpoint.package_registry import PACKAGED, checkpoint_folder
from whisper_hailo.convert.model_cache import models_folder, stamp_file
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import ANOTHER_CACHE, alone_with, sha256, unwritable
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A conversion in the cache.

    Attributes:
        directory: the model directory.
        spec: what it holds.
    """

    directory: Path
    spec: ModelSpec

    @property
    def n_bytes(self) -> int:
        """Of all its files, as `model.json` says: none is looked at."""
        return sum(record.bytes for record in self.spec.files.values())

    def faults(self) -> list[str]:
        """What is wrong with its files, each read from its first byte to its last."""
        found = []
        for name, record in self.spec.files.items():
            path = self.directory / name
            if not path.is_file():
                found.append(f"{name} is missing")
            elif path.stat().st_size != record.bytes or sha256(path) != record.sha256:
                found.append(f"{name} is damaged")
        return found

    def remove(self) -> None:
        """Take it out of the cache; what it was made of stays where it is.

        Raises:
            OutputError: it cannot be removed.
        """
        lock = self.directory.with_name(self.directory.name + ".lock")
        with alone_with(lock, ANOTHER_CACHE), unwritable(self.directory, "check its permissions"):
            stamp_file(self.directory).unlink(missing_ok=True)
            shutil.rmtree(self.directory)
        lock.unlink(missing_ok=True)


def cached_models() -> list[CachedModel]:
    """All that are there, in order of their names; half-written ones are none."""
    return sorted(_found(), key=lambda model: (model.spec.name, model.directory.name))


def _found() -> Iterator[CachedModel]:
    for path in models_folder().glob(f"*/{SPEC_FILE}"):
        if path.parent.name.startswith("."):
            continue
        try:
            yield CachedModel(path.parent, ModelSpec.load(path.parent))
        except ModelError:
            continue  # of another version; it is made anew when it is asked for


def cached_as(name: str) -> list[CachedModel]:
    """Every form of a model that is there.

    Args:
        name: as `--model` takes it, or the name of a folder in the cache.

    Raises:
        ModelError: there is none.
    """
    sources = {name, SHORT_NAMES.get(name, name)}
    found = [
        model
        for model in cached_models()
        if model.directory.name == name or sources & {model.spec.source.name, model.spec.name}
    ]
    if not found:
        there = ", ".join(dict.fromkeys(model.spec.name for model in cached_models())) or "none"
        raise ModelError(f"{shown(name)} is not in the cache; there are: {there}")
    return found


def remove_unused_checkpoint(source: str) -> None:
    """Remove a checkpoint of the package registry that no conversion in the cache is made of.

    Raises:
        OutputError: it cannot be removed.
    """
    folder = checkpoint_folder(source) if source in PACKAGED else None
    is_used = any(model.spec.source.name == source for model in cached_models())
    if folder is None or is_used or not folder.is_dir():
        return
    lock = folder.with_name(folder.name + ".lock")
    with alone_with(lock, ANOTHER_CACHE), unwritable(folder, "check its permissions"):
        shutil.rmtree(folder)
    lock.unlink(missing_ok=True)


def hub_folder(source: str) -> Path | None:
    """Where the hub's own cache has a checkpoint, which other programs may use, too."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE, f"models--{source.replace('/', '--')}")
    return folder if "/" in source and os.path.isdir(folder) else None
