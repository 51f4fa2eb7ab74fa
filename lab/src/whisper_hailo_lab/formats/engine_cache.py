"""Cache of converted models that lasts as long as the code that converts and runs them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.paths import CACHE_VARIABLE
from whisper_hailo_lab.repository import PACKAGE
from whisper_hailo_lab.runs.machine import package_versions

NOT_ENGINE: Final = frozenset(
    {
        "assets",
        "backends/hailo",
        "backends/hef",
        "batch",
        "cli",
        "convert/hailo_forms.py",
        "core/errors.py",
        "http",
        "live",
        "serve",
    }
)
"""Parts of the package that decide neither its speed on the CPU nor its text there."""

RUNTIMES: Final = ("onnxruntime", "numpy", "tokenizers")


def engine_key() -> dict[str, Any]:
    """Return a hash of our engine's source, and the versions of the packages that it uses."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE)
        if NOT_ENGINE.isdisjoint({part.as_posix() for part in (path, *path.parents)}):
            digest.update(file.read_bytes())
    return {"source": digest.hexdigest(), "versions": package_versions(RUNTIMES)}


def use_cache(folder: Path) -> None:
    """Keep converted models in a folder, and empty it when the engine has changed.

    The user's cache keeps what an installed version converted, which is right for a release but
    not for code that changes: graphs of older code would be measured. Files of rivals do not
    depend on our code and stay.
    """
    stamp = folder / "engine.json"
    key = json.dumps(engine_key(), sort_keys=True)
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != key:
        shutil.rmtree(folder / "models", ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(stamp, key)
    os.environ[CACHE_VARIABLE] = str(folder.resolve())
