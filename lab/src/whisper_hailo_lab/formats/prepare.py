"""From a checkpoint to what a system loads: converted once, kept in the cache."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whisper_hailo.checkpoint.hub import is_model_directory, locate_checkpoint, parse_name
from whisper_hailo.core.atomic_files import PREFIX, exclusive_lock, scratch_directory, sweep
from whisper_hailo.core.errors import ModelError, OutputError, display_path
from whisper_hailo.core.paths import ANOTHER_CACHE, cache_root
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.version import __version__
from whisper_hailo_lab.formats.ggml import write_ggml
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import run_for_output
from whisper_hailo_lab.systems.table import Form, find_system

logger = logging.getLogger(__name__)

WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".onnx", ".ort", ".data")
CTRANSLATE2_MODULE: Final = "whisper_hailo_lab.formats.ctranslate2"
STUDY_DECODER: Final = "decoder_model_merged_quantized"
"""The study ran Optimum's merged decoder in dynamic INT8."""


@dataclass(frozen=True, slots=True)
class WantedForm:
    """A form, and the type of the weights in its file; empty is the usual one."""

    form: Form
    stored: str = ""

    @property
    def label(self) -> str:
        """The form with its quantisation: `ggml` or `ggml-q8_0`."""
        return f"{self.form}-{self.stored}" if self.stored else self.form


@dataclass(frozen=True, slots=True)
class Artefact:
    """What a system loads.

    Attributes:
        path: file, directory or name.
        sha256: hashes of its weights by file name; empty for names that the system resolves.
    """

    path: str
    sha256: dict[str, str] = field(default_factory=dict)


def prepare_artefact(system: str, model: str, stored: str = "") -> Artefact:
    """Find or make what a system loads.

    Args:
        system: name of the system.
        model: a checkpoint as `--model` takes it, or something in the system's own format.
        stored: type of the weights in its file, such as `int8` or `q8_0`; empty is the format's
            usual one.
    """
    form = find_system(system).form
    path = Path(model)
    if form == "own" or _is_already(form, path):
        return Artefact(model, _hashes(path))
    parsed = parse_name(model)
    if form == "checkpoint" and parsed.path is not None and is_model_directory(parsed.path):
        return Artefact(model, _hashes(parsed.path))
    checkpoint, _ = locate_checkpoint(parsed, None)
    hashes = _hashes(checkpoint)
    if form == "checkpoint":
        # Ours keeps the name, which decides the cache folder; scripts know directories only.
        return Artefact(str(checkpoint) if find_system(system).script else model, hashes)
    made = _converted(system, WantedForm(form, stored), checkpoint, hashes)
    return Artefact(str(made), _hashes(made))


def _is_already(form: Form, path: Path) -> bool:
    """Whether a path is in a rival's format as it is."""
    return {
        "ctranslate2": (path / "model.bin").is_file(),
        "ggml": path.is_file(),
        "openai": path.is_file(),
        "optimum": (path / "vocab.json").is_file() and any(path.glob("*.onnx")),
    }.get(form, False)


def _converted(system: str, wanted: WantedForm, checkpoint: Path, hashes: dict[str, str]) -> Path:
    """Convert into the cache under a lock; the name holds the hash of the weights."""
    key = "-".join(value[:12] for _, value in sorted(hashes.items())) or "none"
    suffix = {"ggml": ".bin", "openai": ".pt"}.get(wanted.form, "")
    name = f"{checkpoint.name}-{wanted.label}-{key}-{__version__}{suffix}"
    target = cache_root() / "rivals" / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(target.with_name(target.name + ".lock"), ANOTHER_CACHE):
            if not target.exists():
                logger.info("converting %s once for %s", checkpoint.name, system)
                _write(system, wanted, checkpoint, target)
    except OSError as error:
        raise OutputError(
            f"cannot write {display_path(target)} ({error.strerror}); free some space or set "
            "WHISPER_HAILO_CACHE to another folder"
        ) from error
    return target


def _write(system: str, wanted: WantedForm, checkpoint: Path, target: Path) -> None:
    stored = [wanted.stored] if wanted.stored else []
    writers: dict[str, Callable[[Path, Path], None]] = {
        "ggml": lambda source, out: write_ggml(source, out, *stored),
        "ctranslate2": lambda source, out: _elsewhere(
            system, CTRANSLATE2_MODULE, source, out, *stored
        ),
        "openai": lambda source, out: _script(system, "write_openai.py", source, out),
        "optimum": lambda source, out: _script("optimum", "write_optimum.py", source, out),
        "optimum-int8": _write_study,
    }
    sweep(target.parent, PREFIX)
    with scratch_directory(target.parent, PREFIX) as held:
        work = held / target.name
        writers[wanted.form](checkpoint, work)
        work.replace(target)


def _write_study(source: Path, out: Path) -> None:
    """Optimum's export with dynamic INT8 beside it; the decoder in one graph is kept."""
    _script("optimum", "write_optimum.py", source, out)
    _script("optimum", "quantize_optimum.py", out)
    for file in out.glob("*.onnx*"):
        if not file.name.startswith(STUDY_DECODER):
            file.unlink()


def _script(environment: str, name: str, *paths: Path) -> None:
    python = process.require_interpreter(environment, process.find_interpreter(environment))
    _run([str(python), str(process.find_script(name))], *map(str, paths))


def _elsewhere(system: str, module: str, source: Path, out: Path, *words: str) -> None:
    python = process.find_interpreter(find_system(system).environment or system) or sys.executable
    _run([str(python), "-m", module], str(source), str(out), *words)


def _run(command: list[str], *words: str) -> None:
    failure = f"{Path(words[0]).name} could not be converted"
    run_for_output([*command, *words], process.make_environment(threads=1), failure, ModelError)


def _hashes(path: Path) -> dict[str, str]:
    """Hashes of the weight files of a path; nothing for a name."""
    if path.is_file():
        return {path.name: sha256(path)}
    if not path.is_dir():
        return {}
    files = sorted(p for p in path.iterdir() if p.is_file() and p.suffix in WEIGHTS)
    return {file.name: sha256(file) for file in files}
