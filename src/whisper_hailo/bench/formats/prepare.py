"""From a checkpoint to what a system loads: converted once, kept in the cache."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whisper_hailo.bench import environments
from whisper_hailo.bench.formats.ggml import write_ggml
from whisper_hailo.bench.systems.table import Form, entry
from whisper_hailo.convert.hub import is_model_directory, locate, parse_name
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.files import cache_root, sha256
from whisper_hailo.core.version import __version__

logger = logging.getLogger(__name__)

WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".onnx", ".ort", ".data")
CTRANSLATE2_MODULE: Final = "whisper_hailo.bench.formats.ctranslate2"


@dataclass(frozen=True, slots=True)
class Artefact:
    """What a system loads.

    Attributes:
        path: file, directory or name.
        sha256: hashes of its weights by file name; empty for names that the system resolves.
    """

    path: str
    sha256: dict[str, str] = field(default_factory=dict)


def artefact(system: str, model: str) -> Artefact:
    """Find or make what a system loads.

    Args:
        system: name of the system.
        model: a checkpoint as `--model` takes it, or something in the system's own format.

    Raises:
        OptionError: no such system, or its environment is missing.
        ModelError, HubError: no such checkpoint, or its conversion failed.
        OutputError: the cache cannot be written.
    """
    form = entry(system).form
    path = Path(model)
    if form == "own" or _is_already(form, path):
        return Artefact(model, _hashes(path))
    parsed = parse_name(model)
    if form == "checkpoint" and parsed.path is not None and is_model_directory(parsed.path):
        return Artefact(model, _hashes(parsed.path))
    checkpoint, _ = locate(parsed, None)
    hashes = _hashes(checkpoint)
    if form == "checkpoint":
        # Ours keeps the name, which decides the cache folder; scripts know directories only.
        return Artefact(str(checkpoint) if entry(system).script else model, hashes)
    made = _converted(system, form, checkpoint, hashes)
    return Artefact(str(made), _hashes(made))


def _is_already(form: Form, path: Path) -> bool:
    """Whether a path is in a rival's format as it is."""
    return {
        "ctranslate2": (path / "model.bin").is_file(),
        "ggml": path.is_file(),
        "openai": path.is_file(),
        "optimum": (path / "vocab.json").is_file() and any(path.glob("*.onnx")),
    }.get(form, False)


def _converted(system: str, form: Form, checkpoint: Path, hashes: dict[str, str]) -> Path:
    """Convert into the cache under a lock; the name holds the hash of the weights."""
    key = "-".join(value[:12] for _, value in sorted(hashes.items())) or "none"
    suffix = {"ggml": ".bin", "openai": ".pt"}.get(form, "")
    target = cache_root() / "rivals" / f"{checkpoint.name}-{form}-{key}-{__version__}{suffix}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_name(target.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                logger.info("converting %s once for %s", checkpoint.name, system)
                _write(system, form, checkpoint, target)
    except OSError as error:
        raise OutputError(
            f"cannot write {target} ({error.strerror}); free some space or set "
            "WHISPER_HAILO_CACHE to another folder"
        ) from error
    return target


def _write(system: str, form: Form, checkpoint: Path, target: Path) -> None:
    writers: dict[str, Callable[[Path, Path], None]] = {
        "ggml": write_ggml,
        "ctranslate2": lambda source, out: _elsewhere(
            system, ["-m", CTRANSLATE2_MODULE], source, out
        ),
        "openai": lambda source, out: _script(system, "write_openai.py", source, out),
        "optimum": lambda source, out: _script("optimum", "write_optimum.py", source, out),
    }
    work = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        writers[form](checkpoint, work)
        work.replace(target)
    finally:
        if work.is_dir():
            shutil.rmtree(work)
        work.unlink(missing_ok=True)


def _script(environment: str, name: str, source: Path, out: Path) -> None:
    python = environments.needed(environment, environments.interpreter(environment))
    _run([str(python), str(environments.script(name))], source, out)


def _elsewhere(system: str, words: list[str], source: Path, out: Path) -> None:
    python = environments.interpreter(system) or sys.executable
    _run([str(python), *words], source, out)


def _run(command: list[str], source: Path, out: Path) -> None:
    done = subprocess.run(
        [*command, str(source), str(out)],
        env=environments.variables(threads=1),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
        raise ModelError(f"{source.name} could not be converted ({reason})")


def _hashes(path: Path) -> dict[str, str]:
    """Hashes of the weight files of a path; nothing for a name."""
    if path.is_file():
        return {path.name: sha256(path)}
    if not path.is_dir():
        return {}
    files = sorted(p for p in path.iterdir() if p.is_file() and p.suffix in WEIGHTS)
    return {file.name: sha256(file) for file in files}
