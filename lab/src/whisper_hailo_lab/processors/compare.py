"""Compare logits of two machines, and list the instructions of the steps.

    python -m whisper_hailo_lab.processors.compare HERE.npz THERE.npz STEPS.jsonl --out REPORT.json

Exits with 1 when logits differ by more than the bounds, or the likeliest token differs where it
leads.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.documents.processors import step_table
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.results import read_result, write_result

FLOAT_BOUND: Final = 1e-3
"""Largest difference of a logit in float32, where machines only add in another order."""

LEAD: Final = 10
"""RMS bounds by which a token leads.

The RMS is over the whole vocabulary, of which a model may know a part: micro one token in eight.
Its differences are then larger by the root of that, 2.8 times the RMS, and those of two tokens 4
times. So ten is 2.5 standard deviations if the machines differ as much as they may. Since they
differ by less than half of that, it is more than five: a probability below one in a million.
"""


def compare_logits(
    model: str,
    here: FloatArray,
    there: FloatArray,
    exact: FloatArray,
) -> dict[str, Any]:
    """Return the differences of one model, over all steps.

    Quantised products also round activations to 8 bits, and a value at the edge of a step may be
    rounded either way. So both machines may be off by as much as the quantisation costs on one,
    each to its own side: the bound is twice that, in the mean (RMS) and in the largest difference.

    Args:
        model: name, with the quantisation after the first dash.
        here: logits `(steps, n_vocab)` of this machine.
        there: logits of the other machine.
        exact: logits of the same model in float32, of this machine.
    """
    largest = float(np.abs(here - there).max())
    rms = rms_of(here - there)
    if model.split("-")[1] == "none":
        bound = rms_bound = FLOAT_BOUND
    else:
        bound = 2 * float(np.abs(here - exact).max())
        rms_bound = 2 * rms_of(here - exact)
    top = np.sort(here, axis=-1)
    lead = top[:, -1] - top[:, -2]
    leads = lead > LEAD * rms_bound
    same = here.argmax(axis=-1) == there.argmax(axis=-1)
    is_good = largest <= bound and rms <= rms_bound and bool(same[leads].all())
    return {
        "model": model,
        "largest_difference": largest,
        "bound": bound,
        "rms_difference": rms,
        "rms_bound": rms_bound,
        "steps": len(here),
        "same_token": int(same.sum()),
        "leading": int(leads.sum()),
        "good": is_good,
    }


def rms_of(values: Any) -> float:  # noqa: ANN401 - arrays
    """Return the root of the mean square of an array of any shape."""
    return float(np.sqrt(np.square(values).mean()))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    for name in ("here", "there", "steps"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--kept", type=Path, help="earlier result, whose rows of other programs stay"
    )
    arguments = parser.parse_args()
    lines = map(json.loads, arguments.steps.read_text(encoding="utf-8").splitlines())
    instructions = {line["model"]: line["instructions"] for line in lines}
    rows = []
    with np.load(arguments.here) as here, np.load(arguments.there) as there:
        for name in sorted(there.files):
            exact = here[name.split("-")[0] + "-none"]
            row = compare_logits(name, here[name], there[name], exact)
            rows.append(row | {"instructions": instructions[name]})
    others = []
    if arguments.kept is not None:
        # Only our rows have logits to judge.
        others = [row for row in read_result(arguments.kept) if "good" not in row]
    write_result(arguments.out, rows + others, indent=2)
    emit(step_table(rows + others).markdown())
    return int(not all(row["good"] for row in rows))


if __name__ == "__main__":
    sys.exit(run_program(main))
