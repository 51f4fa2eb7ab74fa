"""Marks tell weights apart, so that a table can say that its result is of others than these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LENGTH: Final = 12
OTHER: Final = "; other weights than the present ones"


def mark_of(model: Path) -> str:
    """Mark of the weights in a checkpoint's folder: of one file, how its SHA-256 begins."""
    found = hashlib.sha256()
    for path in sorted(model.glob("*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()[:LENGTH]


def safetensors(hashes: dict[str, str]) -> set[str]:
    """Of hashes by file name, those that a mark can be compared with: what rivals load is left."""
    return {value for name, value in hashes.items() if name.endswith(".safetensors")}


def remark(measured: Iterable[str], present: str) -> str:
    """What the line above a table adds when its result is not of the present weights.

    Args:
        measured: marks or whole hashes of what was measured; none, or an empty one, is a result
            that did not record its weights, and counts as of others.
        present: mark of the present weights.

    Returns:
        `OTHER`, or nothing when all that was measured is of the present weights.
    """
    return "" if {value[:LENGTH] for value in measured} == {present} else OTHER
