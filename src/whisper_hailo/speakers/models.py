"""Where the two speaker models come from: a folder, or the model hub."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.checkpoint.hub import fetch_file, is_file_cached
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.read_files import sha256

logger = logging.getLogger(__name__)

FOLDER_VARIABLE: Final = "WHISPER_HAILO_SPEAKERS"


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A file on the model hub, pinned.

    Attributes:
        hub_id: repository.
        revision: commit.
        file: name in the repository.
        sha256: of the file, in hexadecimal.
        names: names that it may have in a folder of the user.
    """

    hub_id: str
    revision: str
    file: str
    sha256: str
    names: tuple[str, ...]


SEGMENTATION: Final = PublishedModel(
    hub_id="csukuangfj/sherpa-onnx-pyannote-segmentation-3-0",
    revision="9403a6902bb58e3d5ae8c7e77c3422de279db2e0",
    file="model.onnx",
    sha256="220ad67ca923bef2fa91f2390c786097bf305bceb5e261d4af67b38e938e1079",
    names=("segmentation-3.0.onnx", "model.onnx"),
)
"""pyannote's segmentation 3.0, 6 MB, MIT licence."""

EMBEDDING: Final = PublishedModel(
    hub_id="csukuangfj/speaker-embedding-models",
    revision="0743f301363dec56491a490f6d6cbc9d67f9a3bf",
    file="3dspeaker_speech_campplus_sv_zh_en_16k-common_advanced.onnx",
    sha256="aa3cfc16963a10586a9393f5035d6d6b57e98d358b347f80c2a30bf4f00ceba2",
    names=(
        "campplus-zh-en.onnx",
        "3dspeaker_speech_campplus_sv_zh_en_16k-common_advanced.onnx",
    ),
)
"""3D-Speaker's CAM++ for Chinese and English, 28 MB, Apache licence."""


@dataclass(frozen=True, slots=True)
class SpeakerModelFiles:
    """The files of both models."""

    segmentation: Path
    embedding: Path


def find_speaker_models(folder: Path | None = None) -> SpeakerModelFiles:
    """Return the files of a folder, or fetch them from the model hub.

    Args:
        folder: `None` is the one that `WHISPER_HAILO_SPEAKERS` names, or the hub's cache.

    Raises:
        ModelError: the folder lacks a model, or a fetched file is not the published one.
        HubError: the hub does not answer.
    """
    folder = folder or _folder_of_variable()
    if folder is not None:
        return SpeakerModelFiles(
            _find_in_folder(folder, SEGMENTATION), _find_in_folder(folder, EMBEDDING)
        )
    return SpeakerModelFiles(_fetch(SEGMENTATION), _fetch(EMBEDDING))


def has_speaker_models(folder: Path | None = None) -> bool:
    """Return whether `find_speaker_models` would find both files without the model hub."""
    folder = folder or _folder_of_variable()
    models = (SEGMENTATION, EMBEDDING)
    if folder is not None:
        return all(_path_in_folder(folder, model) for model in models)
    return all(
        is_file_cached(model.hub_id, model.file, model.revision) for model in models
    )


def _folder_of_variable() -> Path | None:
    variable = os.environ.get(FOLDER_VARIABLE)
    return Path(variable) if variable else None


def _path_in_folder(folder: Path, model: PublishedModel) -> Path | None:
    """Return the path of a model in a folder; `None` if it is not there."""
    paths = (folder / name for name in model.names)
    return next((path for path in paths if path.is_file()), None)


def _find_in_folder(folder: Path, model: PublishedModel) -> Path:
    path = _path_in_folder(folder, model)
    if path is not None:
        return path
    raise ModelError(
        f"{display_path(folder)} has no {model.names[0]}, which --speakers needs; put "
        f"{model.file} of {model.hub_id} (model hub) there, or leave the folder out to fetch it"
    )


def _fetch(model: PublishedModel) -> Path:
    """Return the path of a model in the hub's cache, fetched if it is not there.

    The checksum is compared each time: the file may have been cut off on a full disk.
    """
    instead = (
        f"or put {SEGMENTATION.names[0]} and {EMBEDDING.names[0]} into a folder and name it in "
        "--speaker-models"
    )
    path = fetch_file(model.hub_id, model.file, model.revision, instead)
    if sha256(path) != model.sha256:
        raise ModelError(
            f"{display_path(path)} is not {model.file} of {model.hub_id} as it was published; "
            "delete it and run the command again"
        )
    return path
