"""Logits of both machines beside each other, and the instructions that the steps took.

    python -m whisper_hailo_lab.processors.compare X86.npz AARCH64.npz STEPS.jsonl --out REPORT.json

Exits with 1 when logits differ by more than the bounds, or the likeliest token does where it leads.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo_lab.documents.processors import steps_table
from whisper_hailo_lab.program import description, run

FLOAT_BOUND = 1e-3
"""Largest difference of a logit in float32, where machines only add up in another order."""

LEAD = 10
"""A token leads by this many RMS bounds or more.

The RMS is over the whole vocabulary, of which a model may know a part: micro one token in eight.
Theirs then differ by the root of that, 2.8 times the RMS, and two of them by 4 times. So ten is 2.5
standard deviations if the machines are as far apart as they may be. As far as they are, less than
half of that, it is more than five: a chance below one in a million.
"""


def row(model: str, here: Any, there: Any, exact: Any) -> dict[str, Any]:  # noqa: ANN401 - arrays
    """Differences of one model, over all steps.

    Quantised products round activations to 8 bits as well, and what lies at the edge of a step may
    be rounded either way. So both machines may be off by as much as the quantisation costs on one,
    each to its own side: twice that is allowed, in the mean (RMS) and in the largest difference.

    Args:
        model: its name, quantisation after the first dash.
        here: logits `(steps, n_vocab)` on x86-64.
        there: on aarch64.
        exact: of the same model in float32, on x86-64.
    """
    difference = float(np.abs(here - there).max())
    is_float = model.split("-")[1] == "none"
    bound = FLOAT_BOUND if is_float else 2 * float(np.abs(here - exact).max())
    rms_bound = FLOAT_BOUND if is_float else 2 * rms(here - exact)
    top = np.sort(here, axis=-1)
    leads = top[:, -1] - top[:, -2] > LEAD * rms_bound
    same = here.argmax(axis=-1) == there.argmax(axis=-1)
    return {
        "model": model,
        "largest_difference": difference,
        "bound": bound,
        "rms_difference": rms(here - there),
        "rms_bound": rms_bound,
        "steps": len(here),
        "same_token": int(same.sum()),
        "leading": int(leads.sum()),
        "good": difference <= bound and rms(here - there) <= rms_bound and bool(same[leads].all()),
    }


def rms(values: Any) -> float:  # noqa: ANN401 - arrays
    """Root of the mean square of an array of any shape."""
    return float(np.sqrt(np.square(values).mean()))


def main() -> int:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    for name in ("x86", "aarch64", "steps"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--out", type=Path, required=True)
    words = parser.parse_args()
    told = [json.loads(line) for line in words.steps.read_text(encoding="utf-8").splitlines()]
    counted = {line["model"]: line["instructions"] for line in told}
    with np.load(words.x86) as here, np.load(words.aarch64) as there:
        rows = [
            row(name, here[name], there[name], here[name.split("-")[0] + "-none"])
            | {"instructions": counted[name]}
            for name in sorted(there.files)
        ]
        kept = set(there.files)
    rows += [{"model": n, "instructions": counted[n]} for n in counted if n not in kept]
    write_file(words.out, json.dumps(rows, indent=2) + "\n")
    emit(steps_table(rows).markdown())
    return int(not all(found.get("good", True) for found in rows))


if __name__ == "__main__":
    sys.exit(run(main))
