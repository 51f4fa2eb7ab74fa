"""What a path given as encoder or decoder holds: told by its content, not by its name alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from whisper_hailo.backends.fixed import is_fixed_decoder
from whisper_hailo.backends.model_files import model_file
from whisper_hailo.backends.signature import read_signature
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec

OPTIMUM_ENCODERS = ("encoder_model", "encoder_model_quantized", "encoder_model_int8")
CTRANSLATE2_FILE = "model.bin"


def decoder_backend(path: Path) -> str:
    """Name of the backend that runs a decoder path.

    Raises:
        ModelError: nothing there that any backend runs.
    """
    if path.suffix == ".hef":
        return "hailo"
    if path.is_dir():
        if is_model_directory(path):
            return "cached"
        if (path / CTRANSLATE2_FILE).is_file():
            raise ModelError(
                f"{display_path(path)} is a CTranslate2 directory, which no decoder back-end runs; "
                "give it to --model"
            )
        return "optimum"
    return "fixed" if is_fixed_decoder(read_signature(path)) else "optimum"


def encoder_file(path: Path) -> Path:
    """The encoder graph of a path: itself, or what a directory of Optimum's layout holds.

    Raises:
        ModelError: a directory without one.
    """
    if not path.is_dir():
        return path
    for folder in (path, path / "onnx"):
        for stem in OPTIMUM_ENCODERS:
            if (folder / f"{stem}.onnx").is_file():
                return folder / f"{stem}.onnx"
    raise ModelError(
        f"{display_path(path)} holds no encoder_model.onnx; give the encoder's file with "
        "--encoder, or a checkpoint with --model"
    )


def is_model_directory(path: Path) -> bool:
    """Whether `whisper-hailo convert` wrote a directory."""
    return (path / SPEC_FILE).is_file()


def without_own_name(path: Path | None, file: str) -> Path | None:
    """The model directory, where a path names one of its graphs: it needs the others, too."""
    is_own = path is not None and path.name == file and is_model_directory(path.parent)
    return path.parent if path is not None and is_own else path


def model_directory(path: Path, spec: ModelSpec) -> tuple[Path, ModelSpec]:
    """A model directory given as encoder or decoder, checked against the run's model.

    Raises:
        ModelError: none, or of a model with other sizes or tokens.
    """
    own = ModelSpec.load(path)
    differing = [
        f"{name} {size} and {getattr(spec.dims, name)}"
        for name, size in asdict(own.dims).items()
        if size != getattr(spec.dims, name)
    ]
    if differing or own.tokens != spec.tokens:
        what = ", ".join(differing) or "their control tokens"
        raise ModelError(
            f"{display_path(path)} and model {spec.name} differ: {what}; they must be of one model"
        )
    return path, own


def hailo_form(directory: Path, spec: ModelSpec, part: str) -> Path:
    """The graph of fixed sizes that `convert --hailo` put into a model directory."""
    return model_file(directory, spec, spec.hailo_form(part).file)
