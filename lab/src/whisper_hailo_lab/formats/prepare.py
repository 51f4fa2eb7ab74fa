"""Weights of each system: converted once from a checkpoint, and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from whisper_hailo.checkpoint.config import SINGLE_FILE
from whisper_hailo.checkpoint.hub import (
    is_model_directory,
    locate_checkpoint,
    parse_name,
)
from whisper_hailo.core.atomic_files import (
    PREFIX,
    exclusive_lock,
    scratch_directory,
    sweep,
    write_file,
)
from whisper_hailo.core.errors import ModelError, OutputError, display_path
from whisper_hailo.core.paths import ANOTHER_CACHE, CACHE_VARIABLE, cache_root
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.version import __version__
from whisper_hailo_lab.formats.ggml import write_ggml
from whisper_hailo_lab.formats.transformers import write_transformers
from whisper_hailo_lab.repository import PACKAGE
from whisper_hailo_lab.runs.machine import package_versions
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import run_for_output
from whisper_hailo_lab.systems.table import Form, find_system

logger = logging.getLogger(__name__)
WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".onnx", ".ort", ".data")
CTRANSLATE2_MODULE: Final = "whisper_hailo_lab.formats.ctranslate2"
SUFFIXES: Final = {"ggml": ".bin", "openai": ".pt"}
"""Suffixes of the formats that are one file."""
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


@dataclass(frozen=True, slots=True)
class Artefact:
    """Weights that a system loads.

    Attributes:
        path: file, directory or name.
        sha256: hashes of the weights by file name; empty for names that the system resolves.
    """

    path: str
    sha256: dict[str, str] = field(default_factory=dict)


def prepare_artefact(system: str, model: str) -> Artefact:
    """Find or convert the weights of a system.

    Args:
        system: name of the system.
        model: a checkpoint as `--model` takes it, or weights in the system's own format.

    Raises:
        ModelError: the checkpoint cannot be had or converted.
        OutputError: the cache cannot be written.
    """
    entry = find_system(system)
    path = Path(model)
    if entry.form == "own" or _has_form(path, entry.form):
        return Artefact(model, _hash_weights(path))
    parsed = parse_name(model)
    if (
        entry.form == "checkpoint"
        and parsed.path is not None
        and is_model_directory(parsed.path)
    ):
        return Artefact(model, _hash_weights(parsed.path))
    checkpoint, _ = locate_checkpoint(parsed, None)
    hashes = _hash_weights(checkpoint)
    if entry.form == "checkpoint":
        # Our system takes the name, which decides the cache folder; scripts take directories only.
        if not entry.script:
            return Artefact(model, hashes)
        if (checkpoint / SINGLE_FILE).is_file():
            return Artefact(str(checkpoint), hashes)
    converted = _convert_once(system, entry.form, checkpoint, hashes)
    return Artefact(str(converted), _hash_weights(converted))


def _has_form(path: Path, form: Form) -> bool:
    """Return whether a path is in a rival's format already."""
    if form == "ctranslate2":
        return (path / "model.bin").is_file()
    return form in ("ggml", "openai") and path.is_file()


def _convert_once(
    system: str, form: Form, checkpoint: Path, hashes: dict[str, str]
) -> Path:
    """Return the converted weights in the cache, and convert them if they are not there."""
    # The name has the hash of the weights, so that other weights of the same name are converted.
    prefixes = [value[:12] for _, value in sorted(hashes.items())]
    digest = "-".join(prefixes) or "none"
    suffix = SUFFIXES.get(form, "")
    name = f"{checkpoint.name}-{form}-{digest}-{__version__}{suffix}"
    target = cache_root() / "rivals" / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(target.with_name(target.name + ".lock"), ANOTHER_CACHE):
            if not target.exists():
                logger.info("converting %s once for %s", checkpoint.name, system)
                _convert(system, form, checkpoint, target)
    except OSError as error:
        raise OutputError(
            f"cannot write {display_path(target)} ({error.strerror}); free some space or set "
            "WHISPER_HAILO_CACHE to another folder"
        ) from error
    return target


def _convert(system: str, form: Form, checkpoint: Path, target: Path) -> None:
    sweep(target.parent, PREFIX)
    with scratch_directory(target.parent, PREFIX) as scratch:
        out = scratch / target.name
        _write_form(system, form, checkpoint, out)
        # Renamed when it is complete, so that an interrupted conversion leaves nothing.
        out.replace(target)


def _write_form(system: str, form: Form, checkpoint: Path, out: Path) -> None:
    match form:
        case "ggml":
            write_ggml(checkpoint, out)
        case "ctranslate2":
            _run_module(system, CTRANSLATE2_MODULE, checkpoint, out)
        case "checkpoint":
            write_transformers(checkpoint, out)
        case _:
            _run_script(system, "write_openai.py", checkpoint, out)


def _run_script(environment: str, name: str, *paths: Path) -> None:
    """Run a script of `lab/benchmarks/rivals` in an environment of its own."""
    python = process.require_interpreter(
        environment, process.find_interpreter(environment)
    )
    script = process.find_script(name)
    _run_conversion(paths[0], [str(python), str(script), *map(str, paths)])


def _run_module(system: str, module: str, checkpoint: Path, out: Path) -> None:
    """Run a module in the environment of a system, or in this one."""
    python = process.find_interpreter(system)
    command = [str(python or sys.executable), "-m", module]
    command += [str(checkpoint), str(out)]
    _run_conversion(checkpoint, command)


def _run_conversion(checkpoint: Path, command: list[str]) -> None:
    failure = f"{checkpoint.name} could not be converted"
    run_for_output(command, process.make_environment(threads=1), failure, ModelError)


def _hash_weights(path: Path) -> dict[str, str]:
    """Return hashes of the weight files of a path by file name; nothing for a name."""
    if path.is_file():
        return {path.name: sha256(path)}
    if not path.is_dir():
        return {}
    hashes = {}
    for file in sorted(path.iterdir()):
        if file.is_file() and file.suffix in WEIGHTS:
            hashes[file.name] = sha256(file)
    return hashes


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
