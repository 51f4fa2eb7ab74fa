"""The files of a model directory: in it, there, and what `model.json` says of them."""

from __future__ import annotations

from pathlib import Path

from whisper_hailo.core.checked import has_content
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import inside
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec

_AGAIN = "copy the model directory again or convert the checkpoint again"


def model_file(directory: Path, spec: ModelSpec, name: str) -> Path:
    """Path of a file that `model.json` lists; the weights beside a graph are looked at, too.

    Args:
        directory: the model directory.
        spec: its description.
        name: path in it.

    Raises:
        ModelError: not listed, missing, behind a link that leads elsewhere, cut short, or changed.
    """
    path = _checked(directory, spec, name)
    if (data := f"{name}.data") in spec.files:
        _checked(directory, spec, data)
    return path


def check_all(directory: Path, spec: ModelSpec) -> None:
    """Look at every file that `model.json` lists.

    Raises:
        ModelError: see `model_file`.
    """
    for name in spec.files:
        _checked(directory, spec, name)


def _checked(directory: Path, spec: ModelSpec, name: str) -> Path:
    record = spec.record(name)
    path = inside(directory, name)
    if not path.is_file():
        raise ModelError(f"{shown(directory)} lacks {name}; {_AGAIN}")
    size = path.stat().st_size
    if size != record.bytes:
        raise ModelError(
            f"{shown(path)} has {size} bytes, {SPEC_FILE} says {record.bytes}; {_AGAIN}"
        )
    if not has_content(path, record.sha256):
        raise ModelError(
            f"{shown(path)} is damaged: its content is not what {SPEC_FILE} says (SHA-256 "
            f"{record.sha256[:12]}...); {_AGAIN}"
        )
    return path
