"""Seconds and peak memory of a conversion with Hailo forms, beside `torch.onnx.export`.

    python benchmarks/hailo_conversion.py [--torch PYTHON] [--runs 3]

PYTHON is an interpreter with torch, transformers, onnx and onnxscript; without it only our side
runs.
Checkpoints are random, of the true sizes. Every run is a fresh process, sides take turns, figures
are medians, one JSON line for each side. Ours also hashes every file and writes the cached forms.
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

from whisper_hailo.core.spec import Dimensions  # noqa: E402

SIZES = {"tiny": (384, 4, 10, 32), "base": (512, 6, 5, 24)}
"""Width, layers of each half, window in seconds, text positions."""


def measure(command: list[str]) -> dict[str, float]:
    """Wall seconds and peak resident MiB of one process."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed_s = time.perf_counter() - begin
        if process.returncode:
            log.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{log.read().decode()[-2000:]}")
    return {"seconds": elapsed_s, "peak_mib": usage.ru_maxrss / 1024}


def sides(checkpoint: Path, out: Path, size: str, torch: str | None) -> dict[str, list[str]]:
    """Name of each side to its command."""
    _, _, window_s, length = SIZES[size]
    ours = [sys.executable, "-m", "whisper_hailo", "convert", str(checkpoint), str(out / "ours")]
    commands = {"ours": [*ours, "--hailo"]}
    if torch:
        rival = [torch, str(ROOT / "benchmarks" / "rivals" / "torch_export.py"), str(checkpoint)]
        rival += [str(out / "torch"), str(window_s), str(length)]
        commands |= {"torchscript": rival, "dynamo": [*rival, "--dynamo"]}
    return commands


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", help="interpreter that has torch")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for size, (d_model, n_layers, *_) in SIZES.items():
        heads = d_model // 64
        dims = Dimensions(80, 1500, d_model, n_layers, heads, n_layers, heads, 448, 51865)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            arrays = random_arrays(dims, 4 * d_model)
            config = config_of(dims, 4 * d_model)
            checkpoint = write_checkpoint(out / size, arrays, config=config)
            del arrays
            runs: dict[str, list[dict[str, float]]] = {}
            for _ in range(options.runs):
                for side, command in sides(checkpoint, out, size, options.torch).items():
                    runs.setdefault(side, []).append(measure(command))
            for side, results in runs.items():
                figures = {
                    key: round(statistics.median(run[key] for run in results), 2)
                    for key in ("seconds", "peak_mib")
                }
                print(json.dumps({"size": size, "side": side, "runs": len(results), **figures}))


if __name__ == "__main__":
    main()
