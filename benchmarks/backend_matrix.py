"""Every encoder with every decoder: text, word error rate, times and memory, as one table.

    python benchmarks/backend_matrix.py prepare WORK [--optimum PYTHON]   # graphs of all kinds
    python benchmarks/backend_matrix.py run WORK                          # fresh process per pair
    python benchmarks/backend_matrix.py table [--write]                   # into docs/benchmarks.md

`run` writes `benchmarks/results/backend_matrix.json`; the table is a function of that file alone.
HEFs run on the strict stand-in for the vendor's binding: their texts are true, their times are not
those of a chip and are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
CLIPS = ROOT / "tests" / "data" / "micro" / "seen"
RESULT = Path(__file__).parent / "results" / "backend_matrix.json"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- backend matrix: begin -->", "<!-- backend matrix: end -->"
N_CLIPS = 10
N_REPEATS = 8
"""Runs of one clip, of which the quickest counts: on a busy machine all others say less."""

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
    from whisper_hailo.bench.formats.ctranslate2 import write_ctranslate2
    from whisper_hailo.convert.convert import convert_checkpoint
    from whisper_hailo.convert.options import ConvertOptions, HailoOptions

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
    from whisper_hailo.backends.options import AUTO, EngineOptions
    from whisper_hailo.bench.machine import peak_rss_mib, rss_mib
    from whisper_hailo.bench.score import evaluate
    from whisper_hailo.core.errors import WhisperHailoError
    from whisper_hailo.pipeline import Transcriber

    encoder_path, *encoder_backend = ENCODERS[encoder]
    decoder_path, *decoder_backend = DECODERS[decoder]
    options = EngineOptions(
        encoder=None if encoder_backend else work / encoder_path,
        decoder=None if decoder_backend else work / decoder_path,
        encoder_backend=(encoder_backend or [AUTO])[0],
        decoder_backend=(decoder_backend or [AUTO])[0],
        decoder_assets=work / "fp32" if decoder_path.endswith(".hef") else None,
    )
    before = rss_mib()
    try:
        transcriber = Transcriber.from_model(str(work / "fp32"), threads=1, engine=options)
    except WhisperHailoError as error:
        return {"refused": _nameless(str(error), work)}
    clips = sorted(CLIPS.glob("*.ogg"))[:N_CLIPS]
    with transcriber.with_parts(encode_ahead=False) as opened:
        loaded = rss_mib()
        for _ in range(3):
            opened.transcribe(clips[0])
        warm = rss_mib()
        transcripts = [opened.transcribe(clip) for clip in clips]
        times = [opened.transcribe(clips[0]).timings for _ in range(N_REPEATS)]
    pairs = [
        (clip.with_suffix(".txt").read_text(encoding="utf-8"), transcript.text)
        for clip, transcript in zip(clips, transcripts, strict=True)
    ]
    words = evaluate(pairs).words
    return {
        "names": [transcripts[0].settings.encoder, transcripts[0].settings.decoder],
        "pad_to": transcripts[0].settings.pad_to,
        "repetition_penalty": transcripts[0].settings.repetition_penalty,
        "text": transcripts[0].text,
        "wer": words.rate,
        "errors": words.errors,
        "words": words.reference_count,
        "encoder_ms": min(t.encode_ms for t in times),
        "decoder_ms": min(t.cross_kv_ms + t.decode_ms for t in times),
        "total_ms": min(t.total_ms for t in times),
        "load_mib": loaded - before,
        "warm_mib": warm - before,
        "peak_mib": peak_rss_mib(),
    }


def _nameless(message: str, work: Path) -> str:
    return message.replace(f"{work}/", "")


def run(work: Path) -> None:
    """All pairs, each in a process of its own."""
    from whisper_hailo.bench.machine import this_machine

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "standin")])
    cells = []
    for encoder, decoder in pairs():
        words = [sys.executable, __file__, "cell", str(work), encoder, decoder]
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            sys.exit(f"{encoder} with {decoder}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout)
        cells.append({"encoder": encoder, "decoder": decoder, **found})
        print(encoder, decoder, found.get("refused") or f"{found['wer']:.3f}", file=sys.stderr)
    RESULT.parent.mkdir(exist_ok=True)
    result = {"machine": this_machine().label, "clips": N_CLIPS, "timed": True, "cells": cells}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def pairs() -> Iterator[tuple[str, str]]:
    """Every encoder with every decoder."""
    return ((encoder, decoder) for encoder in ENCODERS for decoder in DECODERS)


def table(result: dict[str, Any]) -> str:
    """Markdown: one line per pair; times only where the machine had time for them."""
    timed = result["timed"]
    times = (
        f"times are the quickest of {N_REPEATS} runs of one clip; HEFs run on the stand-in for the "
        "vendor's binding: true texts, no times"
        if timed
        else "other work left these processes a few percent of a core each, so no times are given; "
        "HEFs run on the stand-in for the vendor's binding"
    )
    lines = [
        f"`python benchmarks/backend_matrix.py`: `micro`, {result['clips']} clips of "
        "`tests/data/micro/seen`, one thread, a fresh process per pair, memory after loading / "
        f"after warm-up, without the interpreter; {result['machine']}; {times}.",
        "",
        f"| encoder | decoder | WER % |{' encoder ms | decoder ms | total ms |' * timed} MiB |",
        f"|---|---|---|{'---|---|---|' * timed}---|",
    ]
    refused: dict[str, list[str]] = {}
    for row in result["cells"]:
        if "refused" in row:
            refused.setdefault(row["refused"], []).append(f"{row['encoder']} with {row['decoder']}")
        else:
            lines.append(_line(row, timed))
    lines += ["", "Refused before anything is loaded:", ""]
    lines += [f'- "{message}": {"; ".join(who)}' for message, who in refused.items()]
    return "\n".join(lines)


def _line(row: dict[str, Any], timed: bool) -> str:
    pair = f"{row['encoder']} | {row['decoder']}"
    on_chip = "HEF" in pair
    cells = [pair, f"{100 * row['wer']:.1f}"]
    if timed:
        parts = ("encoder", "decoder", "total")
        cells += ["-" if on_chip else f"{row[f'{part}_ms']:.1f}" for part in parts]
    cells.append("-" if on_chip else f"{row['load_mib']:.0f} / {row['warm_mib']:.0f}")
    return f"| {' | '.join(cells)} |"


def filled(page: str, result: dict[str, Any]) -> str:
    """The page with the table of this result in its place."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(result)}\n{END}{tail}"


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
    commands.add_parser("table").add_argument("--write", action="store_true")
    words = parser.parse_args()
    if words.command == "prepare":
        prepare(words.work, words.optimum)
    elif words.command == "run":
        run(words.work)
    elif words.command == "cell":
        print(json.dumps(cell(Path(words.work), words.encoder, words.decoder)))
    else:
        result = json.loads(RESULT.read_text(encoding="utf-8"))
        if words.write:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(filled(page, result), encoding="utf-8")
        else:
            print(table(result))


if __name__ == "__main__":
    main()
