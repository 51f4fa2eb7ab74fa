"""Seconds and peak memory of a conversion with Hailo forms, beside `torch.onnx.export`.

    python -m whisper_hailo_lab.experiments.conversion [--torch PYTHON] [--runs 3]

PYTHON is an interpreter with torch, transformers, onnx and onnxscript; without it only our side
runs.
Checkpoints are random, of the true sizes. Every run is a fresh process, sides take turns; one JSON
line for each run, then one with the medians of each side. Ours writes both Hailo forms, the three
graphs with a cache and the host's arrays, and hashes everything. `fixed` are torch's encoder and
decoder in the sizes of the Hailo forms, `all` those and the three that decode with a cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from whisper_hailo.cli.streams import emit_json
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import RIVALS
from whisper_hailo_lab.speed.weights import random_checkpoint

MODULE: Final = "whisper_hailo_lab.experiments.conversion"
SIZES: Final = {"tiny": (10, 32), "base": (5, 24)}
"""Window in seconds and text positions."""


def measure(command: list[str]) -> dict[str, float]:
    """Wall and processor seconds and peak resident MiB of one process."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed_s = time.perf_counter() - begin
        if process.returncode:
            log.seek(0)
            raise WhisperHailoError(f"{' '.join(command)} failed ({log.read().decode()[-2000:]})")
    cpu_s = usage.ru_utime + usage.ru_stime
    return {"seconds": elapsed_s, "cpu_seconds": cpu_s, "peak_mib": usage.ru_maxrss / 1024}


def sides(checkpoint: Path, out: Path, size: str, torch: str | None) -> dict[str, list[str]]:
    """Name of each side to its command."""
    window_s, length = SIZES[size]
    ours = [sys.executable, "-m", "whisper_hailo", "convert", str(checkpoint), str(out / "ours")]
    commands = {"ours": [*ours, "--hailo"]}
    if torch:
        rival = [torch, str(RIVALS / "torch_export.py"), str(checkpoint)]
        rival += [str(out / "torch"), str(window_s), str(length)]
        commands |= {
            "torchscript, fixed": rival,
            "torchscript, all": [*rival, "--cached"],
            "dynamo, all": [*rival, "--dynamo", "--cached"],
        }
    return commands


def measure_size(size: str, torch: str | None, n_runs: int) -> None:
    """All sides in turns; a line for each run, then one for each side."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        # Elsewhere, because a process counts the peak of the one that it was forked from.
        made = [sys.executable, "-m", MODULE, "--make", size, str(out / size)]
        subprocess.run(made, check=True)
        runs: dict[str, list[dict[str, float]]] = {}
        for _ in range(n_runs):
            for side, command in sides(out / size, out, size, torch).items():
                runs.setdefault(side, []).append(measure(command))
                emit_json({"size": size, "side": side, **runs[side][-1]})
    for side, results in runs.items():
        figures = {
            key: round(statistics.median(run[key] for run in results), 2) for key in results[0]
        }
        emit_json({"size": size, "side": side, "runs": len(results), **figures})


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--torch", help="interpreter that has torch")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        random_checkpoint(options.make[0], Path(options.make[1]))
        return
    for size in options.sizes:
        measure_size(size, options.torch, options.runs)


if __name__ == "__main__":
    sys.exit(run(main))
