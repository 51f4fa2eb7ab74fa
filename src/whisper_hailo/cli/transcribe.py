"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.convert.options import QUANTIZATIONS, ConvertOptions
from whisper_hailo.core.errors import ExitCode, OptionError, WhisperHailoError
from whisper_hailo.decoding.options import PRESETS, Cures, DecodingOptions, preset

if TYPE_CHECKING:
    from whisper_hailo.core.types import Transcript
    from whisper_hailo.pipeline import Transcriber


def transcribe(
    audio: Annotated[list[Path], typer.Argument(help="Audio files of any format and rate.")],
    model: Annotated[
        str,
        typer.Option(help="micro (bundled), a directory, a hub id, or a name such as base.en."),
    ] = "tiny",
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
    threads: Annotated[int, typer.Option(min=0, help="Per operator; 0: automatic.")] = 0,
    fmt: Annotated[str, typer.Option("--format", help="txt, or json (OpenAI's verbose).")] = "txt",
    output_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="Write files there, not to standard output.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per input.")
    ] = False,
) -> int:
    """Transcribe recordings; one that fails does not stop the others."""
    from whisper_hailo.pipeline import Transcriber

    options = DecodingOptions(
        language=language,
        task=task,
        cures=_cures(preset_name, pad_to, repetition_penalty, eot_boost),
    )
    sink = _Sink(fmt, output_dir, as_json, audio)
    transcriber = Transcriber.from_model(
        model,
        convert=ConvertOptions(quantize=quantize),
        window_s=window,
        margin_s=margin_s,
        threads=threads,
    )
    with transcriber:
        codes = [_one(transcriber, path, options, sink) for path in audio]
    return next((code for code in codes if code), ExitCode.OK)


def _cures(
    preset_name: str, pad_to: int | None, penalty: float | None, eot_boost: float | None
) -> Cures:
    """The preset, with whatever was given explicitly."""
    cures = preset(preset_name)
    if pad_to is not None:
        cures = replace(cures, pad_to=pad_to)
    if penalty is not None:
        cures = replace(cures, repetition_penalty=penalty)
    if eot_boost is not None:
        cures = replace(cures, eot_boost=eot_boost)
    return cures


def _one(transcriber: Transcriber, path: Path, options: DecodingOptions, sink: _Sink) -> ExitCode:
    """Transcribe one file; its error is reported and gives the exit code."""
    progress = Progress(path.name)
    try:
        transcript = transcriber.transcribe(path, options, progress)
        progress.close()
        sink.put(path, transcript)
    except WhisperHailoError as error:
        progress.close()
        sink.put_error(path, error)
        return error.exit_code
    return ExitCode.OK


class _Sink:
    """Where results go: standard output, or one file per input."""

    def __init__(self, fmt: str, output_dir: Path | None, as_json: bool, audio: list[Path]) -> None:
        from whisper_hailo.outputs import FORMATS

        if fmt not in FORMATS:
            raise OptionError(f"--format is {fmt!r}, expected one of: {', '.join(FORMATS)}")
        stems = Counter(path.stem for path in audio)
        if output_dir is not None and stems and stems.most_common(1)[0][1] > 1:
            raise OptionError(
                f"several inputs are called {stems.most_common(1)[0][0]!r} and would overwrite "
                "each other in --output-dir; transcribe them in separate runs"
            )
        self._fmt = fmt
        self._output_dir = output_dir
        self._as_json = as_json
        self._several = len(audio) > 1

    def put(self, path: Path, transcript: Transcript) -> None:
        """Hand over the result of one input."""
        from whisper_hailo.outputs import machine_json, render, write_atomic

        if not transcript.text:
            print(f"{path}: no speech in {transcript.duration_s:.1f} s of audio", file=sys.stderr)
        if self._output_dir is not None:
            target = self._output_dir / f"{path.stem}.{self._fmt}"
            write_atomic(target, render(transcript, self._fmt))
            print(f"wrote {target}", file=sys.stderr)
        if self._as_json:
            emit_json(machine_json(transcript))
        elif self._output_dir is None:
            prefix = f"{path}: " if self._several and self._fmt == "txt" else ""
            emit(prefix + render(transcript, self._fmt))

    def put_error(self, path: Path, error: WhisperHailoError) -> None:
        """Report an input that failed."""
        print(f"whisper-hailo: {error}", file=sys.stderr)
        if self._as_json:
            emit_json({"audio": str(path), "error": str(error), "exit_code": int(error.exit_code)})
