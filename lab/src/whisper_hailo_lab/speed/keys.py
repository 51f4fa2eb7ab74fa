"""What a kept measurement depends on: when that changes, it is taken again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.paths import CACHE_VARIABLE
from whisper_hailo_lab.repository import PACKAGE
from whisper_hailo_lab.runs.machine import package_versions
from whisper_hailo_lab.runs.records import Case

NOT_ENGINE: Final = frozenset(
    {
        *("assets", "cli", "http", "live", "serve", "batch"),
        *("backends/hailo", "backends/hef", "convert/hailo_forms.py", "core/errors.py"),
    }
)
"""Parts of the package that decide neither how fast it is on the CPU nor what it says there."""

RUNTIMES: Final = ("onnxruntime", "numpy", "tokenizers")
OURS: Final = ("ours", "study")
"""Systems that run our code."""


def engine_key() -> dict[str, Any]:
    """Hash of our engine's source, and the versions of what it runs on."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        inside = file.relative_to(PACKAGE)
        if NOT_ENGINE.isdisjoint({path.as_posix() for path in (inside, *inside.parents)}):
            digest.update(file.read_bytes())
    return {"source": digest.hexdigest(), "versions": package_versions(RUNTIMES)}


def cases_key(cases: Sequence[Case], weights: dict[str, str], more: object = None) -> str:
    """Short hash of cases, their weights and, where our code runs, that code.

    Args:
        cases: what is measured.
        weights: hashes of the checkpoint's files.
        more: whatever else decides, as JSON.
    """
    ours = any(case.system in OURS for case in cases)
    facts = [[asdict(case) for case in cases], weights, more, engine_key() if ours else None]
    return _short(json.dumps(facts, sort_keys=True))


def source_key(*files: Path) -> str:
    """Short hash of our engine and of programs that measure it."""
    text = json.dumps(engine_key(), sort_keys=True)
    return _short(text + "".join(file.read_text(encoding="utf-8") for file in files))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def use_cache(folder: Path) -> None:
    """Keep converted models in a folder of the benchmark's own, by the code that is there now.

    The user's cache keeps what an installed version converted, which is right for a release but not
    for code that is being changed: graphs that older code wrote would be measured. What rivals load
    does not depend on our code and stays.
    """
    stamp, key = folder / "engine.json", json.dumps(engine_key(), sort_keys=True)
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != key:
        shutil.rmtree(folder / "models", ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(stamp, key)
    os.environ[CACHE_VARIABLE] = str(folder.resolve())
