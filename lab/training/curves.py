"""Draws a run's log: losses and word error rates over the steps.

python -m lab.training.curves LOG lab/training/runs/micro-6.svg
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

DEV_SETS = {"dev": "English", "dev-de": "German"}
LABELS = {"loss": "cross-entropy of tokens", "ctc": "CTC of phones"}


def draw(log: list[dict[str, Any]], out: Path) -> None:
    """Writes the picture of a log (one entry a line of `log.jsonl`)."""
    matplotlib.rcParams["svg.hashsalt"] = "curves"  # the same log, the same file
    figure, (losses, errors) = pyplot.subplots(
        1, 2, figsize=(10, 3.8), layout="constrained"
    )
    steps = [entry["step"] for entry in log]
    for name, label in LABELS.items():
        losses.plot(steps, [entry[name] for entry in log], label=label)
    losses.set(xlabel="step", ylabel="loss, nats", title="Losses", yscale="log")
    for name, label in DEV_SETS.items():
        known = [(entry["step"], entry[name]["wer"]) for entry in log if name in entry]
        errors.plot(*zip(*known, strict=True), marker=".", label=label)
    errors.set(
        xlabel="step", ylabel="WER, %", title="Sentences never trained on", yscale="log"
    )
    errors.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    for axes in (losses, errors):
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Draws the log of a training run.")
    parser.add_argument("log", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    lines = options.log.read_text(encoding="utf-8").splitlines()
    draw([json.loads(line) for line in lines], options.out)


if __name__ == "__main__":
    main()
