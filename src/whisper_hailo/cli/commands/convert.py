"""`whisper-hailo convert` and `inspect`: make model directories, and show what is in them."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

from whisper_hailo.cli.messages import print_note
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.flags import Flag

_FILE_SUFFIXES: Final = (".bin", ".hef", ".onnx", ".pt", ".safetensors")


def convert(
    checkpoint: Annotated[
        str, Argument("Checkpoint directory, hub id, short name, or micro.")
    ],
    out: Annotated[Path, Argument("Model directory to write.")],
    options: ConvertOptions,
    revision: Annotated[
        str | None, Flag("Hub commit, tag or branch. [default: main]")
    ] = None,
) -> None:
    """Write a Hugging Face Whisper checkpoint as ONNX graphs, without torch."""
    from whisper_hailo.checkpoint.hub import (
        is_model_directory,
        locate_checkpoint,
        parse_name,
    )
    from whisper_hailo.convert.convert import convert_checkpoint

    _refuse_file_name(out)
    name = parse_name(checkpoint)
    if name.path is not None and is_model_directory(name.path):
        raise ModelError(
            f"{display_path(checkpoint)} is a converted model directory, expected a checkpoint; "
            "use it as it is with --model"
        )
    if name.path is not None and out.resolve() == name.path.resolve():
        raise OptionError(
            f"{display_path(out)} is the checkpoint itself; give another directory to write to"
        )
    begin = perf_counter()
    directory, source = locate_checkpoint(name, revision)
    spec = convert_checkpoint(directory, out, options, source=source)
    n_bytes = sum(record.bytes for record in spec.files.values())
    facts = [
        spec.name,
        f"decoder {spec.quantization}",
        f"encoder {spec.encoder_quantization}",
        f"{n_bytes / 2**20:.1f} MiB",
        *(form.file for form in spec.hailo),
    ]
    emit(f"{out}: {', '.join(facts)}\n")
    print_note(f"converted in {perf_counter() - begin:.1f} s")


def _refuse_file_name(out: Path) -> None:
    """Refuse to make a directory called like a graph or a file of weights."""
    if out.suffix.lower() in _FILE_SUFFIXES and not out.is_dir():
        raise OptionError(
            f"{display_path(out)} is the name of a file, but a model is a directory; give "
            f"{display_path(out.with_suffix(''))}"
        )


def inspect(path: Annotated[Path, Argument("Model directory or HEF.")]) -> None:
    """Show dimensions, windows, quantisation, sizes and hashes as JSON."""
    from whisper_hailo.convert.inspect import describe

    emit_json(describe(path), indent=2)
