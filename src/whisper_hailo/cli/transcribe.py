"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.stdout import ReaderGoneError
from whisper_hailo.convert.options import QUANTIZATIONS, ConvertOptions
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.decoding.options import PRESETS, Cures, DecodingOptions, preset

if TYPE_CHECKING:
    from whisper_hailo.cli.sink import Sink
    from whisper_hailo.pipeline import Transcriber


def transcribe(
    audio: Annotated[
        list[Path], typer.Argument(help="Audio files of any format and rate.", readable=False)
    ],
    model: Annotated[
        str,
        typer.Option(help="micro (bundled), a directory, a hub id, or a name such as base.en."),
    ] = "tiny",
    revision: Annotated[
        str | None, typer.Option(help="Hub commit, tag or branch. [default: main]")
    ] = None,
    quantize: Annotated[
        str, typer.Option(help=f"For checkpoints: {', '.join(QUANTIZATIONS)}.")
    ] = "none",
    window: Annotated[
        float | None, typer.Option(metavar="S", help="Encoder window in seconds. [default: 10]")
    ] = None,
    margin_s: Annotated[
        float | None,
        typer.Option(metavar="S", help="Kept free at a window's end. [default: 1; 0 at 30 s]"),
    ] = None,
    language: Annotated[str, typer.Option(help="Language code, or auto.")] = "en",
    task: Annotated[str, typer.Option(help="transcribe, or translate to English.")] = "transcribe",
    preset_name: Annotated[
        str, typer.Option("--preset", help=f"Cures: {', '.join(PRESETS)}.")
    ] = "conservative",
    pad_to: Annotated[
        int | None,
        typer.Option(metavar="N", help="Padding target in positions, 0: none. [default: preset's]"),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(metavar="X", help="1.0 is off. [default: preset's]")
    ] = None,
    eot_boost: Annotated[
        float | None, typer.Option(metavar="X", help="0.0 is off. [default: preset's]")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, max=256, help="Per operator; 0: automatic.")] = 0,
    fmt: Annotated[str, typer.Option("--format", help="txt, or json (OpenAI's verbose).")] = "txt",
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="D", help="Write files there, not to standard output.", readable=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per input.")
    ] = False,
) -> int:
    """Transcribe recordings; one that fails does not stop the others."""
    from whisper_hailo.cli.sink import Sink
    from whisper_hailo.pipeline import Transcriber

    cures = _cures(preset_name, pad_to, repetition_penalty, eot_boost)
    options = DecodingOptions(language=language, task=task, cures=cures)
    sink = Sink(fmt, output_dir, as_json, audio)
    transcriber = Transcriber.from_model(
        model,
        revision=revision,
        convert=ConvertOptions(quantize=quantize),
        window_s=window,
        margin_s=margin_s,
        threads=threads,
    )
    transcriber.check(options)
    with transcriber:
        codes = [_one(transcriber, path, options, sink) for path in audio]
    return next((code for code in codes if code), ExitCode.OK)


def _cures(
    preset_name: str, pad_to: int | None, penalty: float | None, eot_boost: float | None
) -> Cures:
    """The preset, with whatever was given explicitly."""
    given = {"pad_to": pad_to, "repetition_penalty": penalty, "eot_boost": eot_boost}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(preset(preset_name), **changes)


def _one(transcriber: Transcriber, path: Path, options: DecodingOptions, sink: Sink) -> ExitCode:
    """Transcribe one file; whatever its error, it is reported and the next file has its turn."""
    progress = Progress(path.name)
    try:
        transcript = transcriber.transcribe(path, options, progress)
        progress.close()
        sink.put(path, transcript)
    except ReaderGoneError:
        raise
    except Exception as error:
        progress.close()
        return sink.put_error(path, error)
    return ExitCode.OK
