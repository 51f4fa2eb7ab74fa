"""Seconds and peak memory of a conversion with Hailo forms, beside `torch.onnx.export`.

    python benchmarks/hailo_conversion.py [--torch PYTHON] [--runs 3]

PYTHON is an interpreter with torch, transformers, onnx and onnxscript; without it only our side
runs.
Checkpoints are random, of the true sizes. Every run is a fresh process, sides take turns; one JSON
line for each run, then one with the medians of each side. Ours writes both Hailo forms, the three
graphs with a cache and the host's arrays, and hashes everything. `fixed` are torch's encoder and
decoder in the sizes of the Hailo forms, `all` those and the three that decode with a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.checkpoints import config_of, random_arrays, write_checkpoint  # noqa: E402

from whisper_hailo.core.dimensions import Dimensions  # noqa: E402

SIZES = {"tiny": (384, 4, 10, 32), "base": (512, 6, 5, 24)}
"""Width, layers of each half, window in seconds, text positions."""


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
            sys.exit(f"{' '.join(command)} failed:\n{log.read().decode()[-2000:]}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return {"seconds": elapsed_s, "cpu_seconds": cpu_s, "peak_mib": usage.ru_maxrss / 1024}


def sides(checkpoint: Path, out: Path, size: str, torch: str | None) -> dict[str, list[str]]:
    """Name of each side to its command."""
    _, _, window_s, length = SIZES[size]
    ours = [sys.executable, "-m", "whisper_hailo", "convert", str(checkpoint), str(out / "ours")]
    commands = {"ours": [*ours, "--hailo"]}
    if torch:
        rival = [torch, str(ROOT / "benchmarks" / "rivals" / "torch_export.py"), str(checkpoint)]
        rival += [str(out / "torch"), str(window_s), str(length)]
        commands |= {
            "torchscript, fixed": rival,
            "torchscript, all": [*rival, "--cached"],
            "dynamo, all": [*rival, "--dynamo", "--cached"],
        }
    return commands


def make_checkpoint(size: str, directory: Path) -> None:
    """Write a random checkpoint of the true size."""
    d_model, n_layers, *_ = SIZES[size]
    heads = d_model // 64
    dims = Dimensions(80, 1500, d_model, n_layers, heads, n_layers, heads, 448, 51865)
    config = config_of(dims, 4 * d_model)
    write_checkpoint(directory, random_arrays(dims, 4 * d_model), config=config)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", help="interpreter that has torch")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_checkpoint(options.make[0], Path(options.make[1]))
        return
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            # Elsewhere, because a process counts the peak of the one that it was forked from.
            made = [sys.executable, __file__, "--make", size, str(out / size)]
            subprocess.run(made, check=True)
            runs: dict[str, list[dict[str, float]]] = {}
            for _ in range(options.runs):
                for side, command in sides(out / size, out, size, options.torch).items():
                    runs.setdefault(side, []).append(measure(command))
                    print(json.dumps({"size": size, "side": side, **runs[side][-1]}), flush=True)
            for side, results in runs.items():
                figures = {
                    key: round(statistics.median(run[key] for run in results), 2)
                    for key in ("seconds", "cpu_seconds", "peak_mib")
                }
                print(
                    json.dumps({"size": size, "side": side, "runs": len(results), **figures}),
                    flush=True,
                )


if __name__ == "__main__":
    main()
