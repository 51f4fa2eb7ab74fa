"""Every encoder with every decoder: text, word error rate, times and memory, as one table.

    python benchmarks/backend_matrix.py prepare WORK [--optimum PYTHON]   # graphs of all kinds
    python benchmarks/backend_matrix.py run WORK                          # fresh process per pair

`run` may be interrupted and goes on where it was. It writes `results/backend_matrix.json` and the
table of `docs/benchmarks.md`, a function of that file alone. Times are this process's processor
time, since what else the machine does would be in the others. HEFs run on the strict stand-in for
the vendor's binding: their texts are true, their times are not those of a chip and are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import tables  # noqa: E402
from whisper_hailo.backends.options import AUTO, EngineOptions  # noqa: E402
from whisper_hailo.core.files import sha256  # noqa: E402

MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
CLIPS = ROOT / "tests" / "data" / "micro" / "seen"
REAL = ROOT / "tests" / "data" / "jfk.flac"
N_CLIPS = 10
N_WARM_UPS = 3

ENCODERS = {
    "onnx fp32, 10 s": ["fp32"],
    "onnx int8, 10 s": ["int8"],
    "Hailo form, 10 s": ["fp32/hailo/encoder-10s.onnx"],
    "emulator, 10 s": ["fp32", "emulator"],
    "HEF (stand-in), 10 s": ["hef/encoder_hailo8l.hef"],
    "Optimum fp32, 30 s": ["optimum/encoder_model.onnx"],
    "Optimum int8, 30 s": ["optimum/encoder_model_quantized.onnx"],
}
DECODERS = {
    "cached fp32": ["fp32"],
    "cached int8": ["int8"],
    "cached int4": ["int4"],
    "Optimum fp32": ["optimum/decoder_model.onnx"],
    "Optimum int8": ["optimum/decoder_model_quantized.onnx"],
    "Optimum merged fp32": ["optimum/decoder_model_merged.onnx"],
    "Optimum merged int8": ["optimum/decoder_model_merged_quantized.onnx"],
    "CTranslate2 fp32": ["ctranslate2"],
    "CTranslate2 int8": ["ctranslate2-int8"],
    "fixed fp32, 10 s": ["fp32/hailo/decoder-10s-32.onnx"],
    "fixed fp32, 30 s": ["fp32-30s/hailo/decoder-30s-32.onnx"],
    "emulator, 10 s": ["fp32", "emulator"],
    "HEF (stand-in), 10 s": ["hef/decoder_hailo8l.hef"],
}
"""Name to path in the work folder, and backend where the path does not tell it."""


def prepare(work: Path, optimum: Path | None) -> None:
    """Make all graphs of `micro`."""
    from whisper_hailo.convert.convert import convert_checkpoint
    from whisper_hailo.convert.options import ConvertOptions, HailoOptions
    from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2

    work.mkdir(parents=True, exist_ok=True)
    forms = HailoOptions(window_s=10, decoder_length=32)
    wide = HailoOptions(window_s=30, decoder_length=32)
    for name, options in {
        "fp32": ConvertOptions(hailo=forms),
        "fp32-30s": ConvertOptions(hailo=wide),
        "int8": ConvertOptions(quantize="int8", encoder_quantize="int8"),
        "int4": ConvertOptions(quantize="int4"),
    }.items():
        convert_checkpoint(MICRO, work / name, options)
    for part in ("encoder", "decoder"):
        words = ["emulate", str(work / "fp32"), "--audio", str(CLIPS), "--part", part]
        _run([sys.executable, "-m", "whisper_hailo", *words, "--count", "32"])
    from tests.standin.make_hef import write_hefs

    write_hefs(work / "fp32", work / "hef")
    if not (work / "ctranslate2").is_dir():
        write_ctranslate2(MICRO, work / "ctranslate2")
        write_ctranslate2(MICRO, work / "ctranslate2-int8", "int8")
    if optimum is not None:
        script = Path(__file__).parent / "rivals" / "write_optimum.py"
        _run([str(optimum), str(script), str(MICRO), str(work / "optimum")])
        _run([str(optimum), str(script.with_name("quantize_optimum.py")), str(work / "optimum")])


def _run(words: list[str]) -> None:
    subprocess.run(words, check=True)


def cell(work: Path, encoder: str, decoder: str) -> dict[str, Any]:
    """One pair, measured in this process."""
    from whisper_hailo.core.errors import WhisperHailoError
    from whisper_hailo.transcription.transcriber import Transcriber
    from whisper_hailo_lab.machine import peak_rss_mib, rss_mib

    options = _options(work, encoder, decoder)
    before = rss_mib()
    try:
        transcriber = Transcriber.from_model(str(work / "fp32"), threads=1, engine=options)
    except WhisperHailoError as error:
        return {"refused": str(error).replace(f"{work}/", "")}
    clips = sorted(CLIPS.glob("*.ogg"))[:N_CLIPS]
    with (
        transcriber.with_parts(encode_ahead=False) as opened,
        # Other work on the machine takes wall-clock time, but not this process's.
        mock.patch("whisper_hailo.core.timing.perf_counter", time.process_time),
    ):
        loaded = rss_mib()
        for _ in range(N_WARM_UPS):
            opened.transcribe(clips[0])
        warm = rss_mib()
        transcripts = [opened.transcribe(clip) for clip in clips]
        real = opened.transcribe(REAL)
    times = [transcript.timings for transcript in transcripts]
    settings = transcripts[0].settings
    return {
        "names": [settings.encoder, settings.decoder],
        "pad_to": settings.pad_to,
        "repetition_penalty": settings.repetition_penalty,
        "text": transcripts[0].text,
        "text_of_real_recording": real.text,
        **_errors(clips, [transcript.text for transcript in transcripts]),
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


def _errors(clips: list[Path], texts: list[str]) -> dict[str, Any]:
    from whisper_hailo_lab.score import evaluate

    spoken = [clip.with_suffix(".txt").read_text(encoding="utf-8") for clip in clips]
    words = evaluate(list(zip(spoken, texts, strict=True))).words
    return {"wer": words.rate, "errors": words.errors, "words": words.reference_count}


def run(work: Path) -> None:
    """All pairs, each in a process of its own; those that were measured before are kept."""
    from whisper_hailo_lab.machine import this_machine

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    places = [str(ROOT), str(ROOT / "tests" / "standin"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    weights = sha256(MICRO / "model.safetensors")
    kept = work / "cells.jsonl"
    done = measured(kept, weights)
    for encoder, decoder in pairs():
        if (encoder, decoder) in done:
            continue
        words = [sys.executable, __file__, "cell", str(work), encoder, decoder]
        ended = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if ended.returncode:
            sys.exit(f"{encoder} with {decoder}: {ended.stderr[-2000:]}")
        found = {"encoder": encoder, "decoder": decoder, **json.loads(ended.stdout)}
        done[encoder, decoder] = found
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"weights": weights, **found}) + "\n")
        shown = found.get("refused") or f"WER {found['wer']:.3f}"
        print(f"{len(done)}: {encoder} with {decoder}: {shown}", file=sys.stderr, flush=True)
    cells = [done[pair] for pair in pairs()]
    result = {"machine": this_machine().label, "clips": N_CLIPS, "weights": weights, "cells": cells}
    tables.BACKENDS.parent.mkdir(exist_ok=True)
    tables.BACKENDS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    tables.write()


def measured(kept: Path, weights: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Pairs that an earlier run measured with the same weights."""
    found = {}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else []:
        row = json.loads(line)
        if row.pop("weights") == weights:
            found[row["encoder"], row["decoder"]] = row
    return found


def pairs() -> Iterator[tuple[str, str]]:
    """Every encoder with every decoder."""
    return ((encoder, decoder) for encoder in ENCODERS for decoder in DECODERS)


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Every encoder with every decoder.")
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
        print(json.dumps(cell(Path(words.work), words.encoder, words.decoder)))


if __name__ == "__main__":
    main()
