"""`whisper-hailo convert`: a Whisper checkpoint in, a model directory out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from whisper_hailo.cli.failures import tell
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.convert.options import QUANTIZATIONS, ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.hailo import ARCHES
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import ModelSpec


def convert(
    checkpoint: Annotated[
        str, typer.Argument(help="Checkpoint directory, hub id, short name, or micro.")
    ],
    out: Annotated[Path, typer.Argument(help="Model directory to write.", readable=False)],
    quantize: Annotated[
        str, typer.Option(help=f"Decoder weights: {', '.join(QUANTIZATIONS)}.")
    ] = "none",
    encoder_quantize: Annotated[
        str, typer.Option(help="The same for the encoder's matrix products.")
    ] = "none",
    half: Annotated[
        bool | None,
        typer.Option(
            "--half/--no-half",
            help="Float16 in quantised graphs. [default: where this processor computes in it]",
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="tokenizer.json to use instead.", readable=False),
    ] = None,
    hailo: Annotated[
        bool, typer.Option("--hailo", help="Also write the graphs that the Hailo compiler takes.")
    ] = False,
    window: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Window of the Hailo graphs, 1 to 30 whole seconds."),
    ] = None,
    decoder_length: Annotated[
        int | None, typer.Option(metavar="N", help="Text positions of the Hailo decoder.")
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(help=f"Chip whose known window and length they get: {', '.join(ARCHES)}."),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Hub commit, tag or branch. [default: main]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the model's JSON.")] = False,
) -> None:
    """Write a Hugging Face Whisper checkpoint as ONNX graphs, without torch."""
    from whisper_hailo.checkpoint.hub import is_model_directory, locate, parse_name
    from whisper_hailo.convert.convert import convert_checkpoint

    options = ConvertOptions(
        quantize=quantize,
        encoder_quantize=encoder_quantize,
        half=half,
        tokenizer=tokenizer,
        hailo=_hailo_options(hailo, window, decoder_length, arch),
    )
    name = parse_name(checkpoint)
    if name.path is not None and is_model_directory(name.path):
        raise ModelError(
            f"{shown(checkpoint)} is a converted model directory, expected a checkpoint; "
            "use it as it is with --model"
        )
    if name.path is not None and out.resolve() == name.path.resolve():
        raise OptionError(
            f"{shown(out)} is the checkpoint itself; give another directory to write to"
        )
    begin = perf_counter()
    directory, source = locate(name, revision)
    spec = convert_checkpoint(directory, out, options, source=source)
    elapsed_s = perf_counter() - begin
    if as_json:
        emit_json({"directory": str(out), "elapsed_s": elapsed_s, **asdict(spec)})
    else:
        emit(f"{out}: {_describe(spec)}\n")
        tell(f"converted in {elapsed_s:.1f} s")


def _hailo_options(
    wanted: bool, window_s: float | None, length: int | None, arch: str | None
) -> HailoOptions | None:
    if wanted:
        return HailoOptions(window_s=window_s, decoder_length=length, arch=arch)
    for name, value in (("--window", window_s), ("--decoder-length", length), ("--arch", arch)):
        if value is not None:
            shown = value if isinstance(value, str) else f"{value:g}"
            raise OptionError(f"{name} {shown} belongs to the Hailo graphs; add --hailo")
    return None


def _describe(spec: ModelSpec) -> str:
    dims = spec.dims
    size_mib = sum(record.bytes for record in spec.files.values()) / 2**20
    return (
        f"{spec.name}, width {dims.d_model}, {dims.n_encoder_layers}+{dims.n_decoder_layers} "
        f"layers, {dims.n_mels} mel bins, {dims.n_vocab} tokens, decoder {spec.quantization}, "
        f"encoder {spec.encoder_quantization}, {'float16, ' * spec.half}{size_mib:.1f} MiB"
        + "".join(f", {form.file}" for form in spec.hailo)
    )
