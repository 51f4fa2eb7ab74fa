"""Kept results: JSON files in `benchmarks/results`, and what they were measured on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.atomic_files import write_file

MARK_LENGTH: Final = 12
OTHER_WEIGHTS: Final = "; other weights than the present ones"


def read_result(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Return a kept result; an empty object where there is none yet."""
    if not path.is_file():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))


def write_result(path: Path, result: object, *, indent: int | None = None) -> None:
    """Write a result as JSON."""
    write_file(path, json.dumps(result, indent=indent) + "\n")


def update_result(path: Path, **parts: object) -> None:
    """Replace some parts of a kept result; the others stay."""
    write_result(path, read_result(path) | parts, indent=1)


def mark_weights(model: Path) -> str:
    """Return the beginning of the SHA-256 of a checkpoint folder's weights."""
    digest = hashlib.sha256()
    for path in sorted(model.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:MARK_LENGTH]


def safetensors_hashes(hashes: Mapping[str, str]) -> set[str]:
    """Return the hashes that a mark can be compared with, from hashes by file name."""
    return {value for name, value in hashes.items() if name.endswith(".safetensors")}


def remark_weights(measured: Iterable[str], present: str) -> str:
    """Return a remark where a result is of other weights than the present ones, else nothing.

    Args:
        measured: marks or whole hashes of what was measured. None at all, or an empty one, belongs
            to a result that did not record its weights; it counts as other weights.
        present: mark of the present weights.
    """
    marks = {value[:MARK_LENGTH] for value in measured}
    return "" if marks == {present} else OTHER_WEIGHTS
