"""The frozen clips of the bundled model, as the repository keeps them: one archive a set.

    tests/data/micro/seen.zip        seen-000.ogg, seen-000.txt, seen-001.ogg, ...
    tests/data/micro/manifest.jsonl  what is said in each clip, and when

Programs and tests read files, so the archives are unpacked once, below `build`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from whisper_hailo_lab.repository import BUILD, CLIPS

MANIFEST: Final = "manifest.jsonl"
_NEVER: Final = (1980, 1, 1, 0, 0, 0)
"""The time of each file, the earliest that a zip knows: equal clips are equal bytes."""


@cache
def unpack_clips(folder: Path = CLIPS, out: Path = BUILD / "clips") -> Path:
    """Return a folder with a subfolder for each set, which has `<id>.ogg` and `<id>.txt`.

    Args:
        folder: the archives and their manifest.
        out: where they are unpacked. The name there is a hash of the manifest, which has a hash of
            each clip, so other clips are unpacked elsewhere.
    """
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    target = out / digest[:12]
    if target.is_dir():
        return target
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        whole = Path(scratch) / "clips"
        for archive in sorted(folder.glob("*.zip")):
            with zipfile.ZipFile(archive) as file:
                file.extractall(whole / archive.stem)
        try:
            whole.rename(target)
        except OSError:
            # Tests run in several processes: another one may have been quicker.
            if not target.is_dir():
                raise
    return target


def read_manifest(folder: Path = CLIPS) -> list[dict[str, Any]]:
    """Return what is known of each clip of all sets, in order."""
    lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def pack_clips(folder: Path) -> None:
    """Replace each subfolder by an archive of its name."""
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        with zipfile.ZipFile(
            path.with_suffix(".zip"), "w", zipfile.ZIP_STORED
        ) as archive:
            for file in sorted(path.iterdir()):
                entry = zipfile.ZipInfo(file.name, _NEVER)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes())
        shutil.rmtree(path)


def find_clips(*sets: str) -> list[Path]:
    """Return the recordings of frozen sets, each with its text beside it."""
    folder = unpack_clips()
    return [path for name in sets for path in sorted((folder / name).glob("*.ogg"))]


def text_beside(recording: Path) -> str:
    """Return the words of a recording that has its text beside it."""
    return recording.with_suffix(".txt").read_text(encoding="utf-8").strip()
