"""Every encoder with every decoder: text, word error rate, times and memory, as one table.

    python -m whisper_hailo_lab.experiments.backend_matrix prepare WORK [--optimum PYTHON]
    python -m whisper_hailo_lab.experiments.backend_matrix run WORK

`prepare` makes graphs of all kinds, `run` measures each pair in a fresh process; it may be
interrupted and goes on where it was. The result is kept. Times are this process's processor time,
since what else the machine does would be in the others. HEFs run on the strict stand-in for the
vendor's binding: their texts are true, their times are not those of a chip and are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.cli.streams import emit_json
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.read_files import sha256
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.data.clips import recordings, said
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description
from whisper_hailo_lab.program import run as run_program
from whisper_hailo_lab.repository import (
    MICRO,
    RESULTS,
    RIVALS,
    ROOT,
    STAND_IN,
    stand_in_hefs,
)
from whisper_hailo_lab.runs.machine import by_processor_time, peak_rss_mib, rss_mib, this_machine
from whisper_hailo_lab.runs.run_file import StepJournal
from whisper_hailo_lab.score import evaluate

RESULT: Final = RESULTS / "backend_matrix.json"
MODULE: Final = "whisper_hailo_lab.experiments.backend_matrix"
REAL: Final = ROOT / "tests" / "data" / "jfk.flac"
N_CLIPS: Final = 10
N_WARM_UPS: Final = 3

ENCODERS: Final = {
    "onnx fp32, 10 s": ["fp32"],
    "onnx int8, 10 s": ["int8"],
    "Hailo form, 10 s": ["fp32/hailo/encoder-10s.onnx"],
    "emulator, 10 s": ["fp32", "emulator"],
    "HEF (stand-in), 10 s": ["hef/encoder_hailo8l.hef"],
    "Optimum fp32, 30 s": ["optimum/encoder_model.onnx"],
    "Optimum int8, 30 s": ["optimum/encoder_model_quantized.onnx"],
}
DECODERS: Final = {
    "cached fp32": ["fp32"],
    "cached int8": ["int8"],
    "cached int4": ["int4"],
    "Optimum fp32": ["optimum/decoder_model.onnx"],
    "Optimum int8": ["optimum/decoder_model_quantized.onnx"],
    "Optimum merged fp32": ["optimum/decoder_model_merged.onnx"],
    "Optimum merged int8": ["optimum/decoder_model_merged_quantized.onnx"],
    "fixed fp32, 10 s": ["fp32/hailo/decoder-10s-32.onnx"],
    "fixed fp32, 30 s": ["fp32-30s/hailo/decoder-30s-32.onnx"],
    "emulator, 10 s": ["fp32", "emulator"],
    "HEF (stand-in), 10 s": ["hef/decoder_hailo8l.hef"],
}
"""Name to path in the work folder, and backend where the path does not tell it."""


def prepare(work: Path, optimum: Path | None) -> None:
    """Make all graphs of `micro`."""
    work.mkdir(parents=True, exist_ok=True)
    for name, options in {
        "fp32": ConvertOptions("none", hailo=HailoOptions(window_s=10, decoder_length=32)),
        "fp32-30s": ConvertOptions("none", hailo=HailoOptions(window_s=30, decoder_length=32)),
        "int8": ConvertOptions(quantize="int8", encoder_quantize="int8"),
        "int4": ConvertOptions(quantize="int4"),
    }.items():
        convert_checkpoint(MICRO, work / name, options)
    speech = str(unpack_clips() / "seen")
    for part in ("encoder", "decoder"):
        words = ["emulate", str(work / "fp32"), "--audio", speech, "--part", part]
        _run([sys.executable, "-m", "whisper_hailo", *words, "--count", "32"])
    stand_in_hefs(work / "fp32", work / "hef")
    if optimum is not None:
        _run([str(optimum), str(RIVALS / "write_optimum.py"), str(MICRO), str(work / "optimum")])
        _run([str(optimum), str(RIVALS / "quantize_optimum.py"), str(work / "optimum")])


def _run(words: list[str]) -> None:
    subprocess.run(words, check=True)


def cell(work: Path, encoder: str, decoder: str) -> dict[str, Any]:
    """One pair, measured in this process."""
    options = _options(work, encoder, decoder)
    before = rss_mib()
    try:
        transcriber = Transcriber.from_model(str(work / "fp32"), threads=1, engine=options)
    except WhisperHailoError as error:
        return {"refused": str(error).replace(f"{work}/", "")}
    clips = recordings("seen")[:N_CLIPS]
    with replace(transcriber, encode_ahead=False) as opened, by_processor_time():
        loaded = rss_mib()
        for _ in range(N_WARM_UPS):
            opened.transcribe(clips[0])
        warm = rss_mib()
        transcripts = [opened.transcribe(clip) for clip in clips]
        real = opened.transcribe(REAL)
    times = [transcript.timings for transcript in transcripts]
    settings = transcripts[0].settings
    words = evaluate((said(clip), t.text) for clip, t in zip(clips, transcripts, strict=True)).words
    return {
        "names": [settings.encoder, settings.decoder],
        "pad_to": settings.pad_to,
        "repetition_penalty": settings.repetition_penalty,
        "text": transcripts[0].text,
        "text_of_real_recording": real.text,
        "wer": words.rate,
        "errors": words.errors,
        "words": words.reference_count,
        "encoder_ms": statistics.median(t.encode_ms for t in times),
        "decoder_ms": statistics.median(t.cross_kv_ms + t.decode_ms for t in times),
        "total_ms": statistics.median(t.total_ms for t in times),
        "load_mib": loaded - before,
        "warm_mib": warm - before,
        "peak_mib": peak_rss_mib(),
    }


def _options(work: Path, encoder: str, decoder: str) -> EngineOptions:
    encoder_path, *encoder_backend = ENCODERS[encoder]
    decoder_path, *decoder_backend = DECODERS[decoder]
    return EngineOptions(
        encoder=None if encoder_backend else work / encoder_path,
        decoder=None if decoder_backend else work / decoder_path,
        encoder_backend=(encoder_backend or [AUTO])[0],
        decoder_backend=(decoder_backend or [AUTO])[0],
        decoder_assets=work / "fp32" if decoder_path.endswith(".hef") else None,
    )


def run(work: Path) -> None:
    """All pairs, each in a process of its own; those that were measured before are kept."""
    weights = sha256(MICRO / "model.safetensors")
    journal = StepJournal(work / "cells.json", weights)
    cells = []
    for encoder, decoder in pairs():
        measured = journal.step(
            f"{encoder} with {decoder}", partial(_fresh, work, encoder, decoder)
        )
        cells.append({"encoder": encoder, "decoder": decoder} | measured)
    machine = this_machine().label
    result = {"machine": machine, "clips": N_CLIPS, "weights": weights, "cells": cells}
    keep(RESULT, result, indent=1)


def _fresh(work: Path, encoder: str, decoder: str) -> dict[str, Any]:
    """One pair, measured in a process of its own."""
    places = [str(ROOT), str(STAND_IN), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, places))
    words = [sys.executable, "-m", MODULE, "cell", str(work), encoder, decoder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    ended = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if ended.returncode:
        raise WhisperHailoError(f"{encoder} with {decoder} failed ({ended.stderr[-2000:]})")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def pairs() -> Iterator[tuple[str, str]]:
    """Every encoder with every decoder."""
    return ((encoder, decoder) for encoder in ENCODERS for decoder in DECODERS)


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("prepare")
    making.add_argument("work", type=Path)
    making.add_argument("--optimum", type=Path, help="Python with optimum-onnx and onnxruntime")
    commands.add_parser("run").add_argument("work", type=Path)
    one = commands.add_parser("cell")
    for name in ("work", "encoder", "decoder"):
        one.add_argument(name)
    words = parser.parse_args()
    if words.command == "prepare":
        prepare(words.work, words.optimum)
    elif words.command == "run":
        run(words.work)
    else:
        emit_json(cell(Path(words.work), words.encoder, words.decoder))


if __name__ == "__main__":
    sys.exit(run_program(main))
