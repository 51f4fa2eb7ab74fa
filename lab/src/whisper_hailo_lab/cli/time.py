"""`whisper-hailo time`: one recording, n times, stage by stage."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import ModelOptions, log_engine
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.cli import whole_number
from whisper_hailo_lab.program import StepProgress
from whisper_hailo_lab.timing.one_file import report_table

if TYPE_CHECKING:
    from whisper_hailo_lab.timing.one_file import FileTiming

BUNDLED_AUDIO: Final = ASSETS / "jfk.flac"


def time(
    model: ModelOptions,
    decoding: Annotated[
        PartialOptions[DecodingOptions],
        FieldSubset(("language", "anti_repetition", "max_new_tokens")),
    ],
    audio: Annotated[
        Path, Argument("An audio file; by default 11 s of John F. Kennedy.")
    ] = BUNDLED_AUDIO,
    iterations: Annotated[
        int, Flag("Timed runs.", parse=whole_number(1, 100_000))
    ] = 10,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
    report: Annotated[
        bool, Flag("Print only a table row of this machine, to paste.")
    ] = False,
) -> int:
    """Time one recording: each stage, each token, and the memory of each part."""
    from whisper_hailo_lab.timing.one_file import time_file

    transcriber = model.transcriber()
    log_engine(transcriber)
    options = decoding.apply_to(
        DecodingOptions(
            language="en", anti_repetition=transcriber.default_anti_repetition
        )
    )
    with closing(StepProgress()) as progress:
        timing = time_file(transcriber, audio, options, iterations, progress)
    if report:
        from whisper_hailo_lab.runs.machine import instruction_sets

        emit(report_table(timing, instruction_sets()))
    elif as_json:
        emit_json(timing_json(timing), indent=2)
    else:
        emit(timing_text(timing))
    return ExitCode.OK


def timing_json(timing: FileTiming) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    transcript = timing.transcript
    return {
        "audio": transcript.audio,
        "duration_s": round(transcript.duration_s, 4),
        "text": transcript.text,
        "iterations": timing.iterations,
        "stages_ms": {
            name: asdict(spread) for name, spread in timing.stages_ms.items()
        },
        "processor_ms": asdict(timing.processor_ms),
        "token_ms": [list(tokens) for tokens in timing.token_ms],
        "memory_mib": {
            **{
                name: {"load": part.load, "warm_up": part.warm_up, "total": part.total}
                for name, part in timing.memory.items()
            },
            "peak": timing.peak_mib,
        },
        "temperature_c": list(timing.temperature_c),
        "settings": asdict(timing.settings),
        "machine": asdict(timing.machine),
    }


def timing_text(timing: FileTiming) -> str:
    """Return stages, tokens and memory as tables of one line each."""
    settings = timing.settings
    transcript = timing.transcript
    threads = settings.threads or "automatic"
    lines = [
        f"{transcript.audio}, {transcript.duration_s:.2f} s: {settings.model}, encoder "
        f"{settings.encoder}, decoder {settings.decoder}, {settings.window_s:g} s window, padded "
        f"to {settings.pad_to}, threads {threads}",
        f"{timing.machine.label}; {timing.iterations} iterations after warm-up",
        "",
        f"{'ms':<20}{'mean':>10}{'std':>10}{'min':>10}{'max':>10}{'median':>10}{'n':>7}",
    ]
    for name, spread in timing.stages_ms.items():
        times = (spread.mean, spread.std, spread.min, spread.max, spread.median)
        cells = "".join(f"{time_ms:>10.2f}" for time_ms in times)
        lines.append(f"{name:<20}{cells}{spread.n:>7}")
    lines.append("")
    lines.append(f"{'MiB':<20}{'load':>10}{'warm-up':>10}{'total':>10}")
    for name, part in timing.memory.items():
        figures = (part.load, part.warm_up, part.total)
        cells = "".join(f"{figure:>10.1f}" for figure in figures)
        lines.append(f"{name:<20}{cells}")
    lines.append(f"{'peak of the process':<20}{'':>20}{timing.peak_mib:>10.1f}")
    if timing.temperature_c:
        degrees = " to ".join(f"{value:.1f}" for value in timing.temperature_c)
        lines.append(f"chip: {degrees} degrees Celsius")
    return "\n".join([*lines, "", transcript.text, ""])
