"""Zip files whose bytes depend on their content alone: no times, no compression."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)
_ZIP64_BYTES = 1 << 31


def add_file(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Copy a file into an archive, a block at a time."""
    large = path.stat().st_size >= _ZIP64_BYTES
    with path.open("rb") as source, archive.open(_info(name), "w", force_zip64=large) as target:
        shutil.copyfileobj(source, target, 1 << 20)


def add_text(archive: zipfile.ZipFile, name: str, text: str) -> None:
    """Write a text into an archive."""
    archive.writestr(_info(name), text.encode())


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_EPOCH)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    return info
