"""Everything that one machine can measure, and the report of it.

    python -m whisper_hailo_lab.experiments.bench [--plan machine|study] [--data DIR] [--limit N]
                                                  [--out DIR]

`machine` runs ours and every rival whose environment is there (`make rivals`) on the bundled model
and its frozen clips; rivals that are not there are named and left out. `study` is the device run
book's matrix: see docs/run-book.md.
"""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from whisper_hailo.cli.progress import Steps
from whisper_hailo.cli.stdout import emit
from whisper_hailo_lab.compare.all import compare
from whisper_hailo_lab.data.datasets import Dataset, read_dataset
from whisper_hailo_lab.experiments.plans import Device, machine_plan, only, study_plan
from whisper_hailo_lab.harness.evaluate import evaluate
from whisper_hailo_lab.program import description
from whisper_hailo_lab.program import run as run_program
from whisper_hailo_lab.report.build import report
from whisper_hailo_lab.repository import BUILD, CLIPS
from whisper_hailo_lab.runs.case import ROWS, Case
from whisper_hailo_lab.systems import environments
from whisper_hailo_lab.systems.table import SYSTEMS

logger = logging.getLogger(__name__)

SETS: Final = ("seen", "noisy", "silence")
COMPARISONS: Final = ("cache", "window", "mel", "precision", "padding")


def bundled(limit: int) -> Dataset:
    """So many clips of each frozen set, as one dataset."""
    parts = [read_dataset(CLIPS / name).sampled(limit) for name in SETS]
    samples = tuple(sample for part in parts for sample in part.samples)
    return Dataset("micro", CLIPS, samples)


def runnable(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Cases whose system is installed somewhere; the others are named in the log."""
    there = {name for name in SYSTEMS if environments.is_there(name)}
    for name in sorted({case.system for case in cases} - there):
        place = environments.ENVIRONMENTS.name
        logger.info("%s: left out, no %s/%s (make rivals)", name, place, name)
    return tuple(case for case in cases if case.system in there)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--plan", choices=("machine", "study"), default="machine")
    parser.add_argument("--model", default=None, help="default: micro; openai/whisper-tiny")
    parser.add_argument("--data", type=Path, help="recordings with texts; default: frozen clips")
    parser.add_argument("--padding-model", help="checkpoint of the padding comparison")
    parser.add_argument("--padding-data", type=Path, help="its recordings")
    parser.add_argument("--limit", type=int, default=12, help="clips per set (default 12)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--together", type=int, default=8, help="systems alive at once")
    parser.add_argument("--systems", nargs="*", default=[], help="only these")
    parser.add_argument("--rows", nargs="*", default=[], choices=ROWS, help="only these")
    parser.add_argument("--comparisons", nargs="*", default=list(COMPARISONS))
    parser.add_argument("--hef-encoder", default="", help="encoder HEF for the study's plan")
    parser.add_argument("--hef-decoder", default="")
    parser.add_argument("--decoder-assets", default="")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=BUILD / "bench")
    return parser.parse_args()


def run(words: argparse.Namespace) -> Path:
    """Measure the plan, then the comparisons; gives the report's page."""
    study = words.plan == "study"
    model = words.model or ("openai/whisper-tiny" if study else "micro")
    data = read_dataset(words.data) if words.data else bundled(words.limit)
    device = Device(words.hef_encoder, words.hef_decoder, words.decoder_assets)
    cases = (
        study_plan(model, words.threads, device if words.hef_encoder else None)
        if study
        else machine_plan(model, words.threads)
    )
    out: Path = words.out / "run.jsonl"
    out.unlink(missing_ok=True)
    wanted = runnable(only(cases, words.systems, words.rows))
    with closing(Steps()) as steps:
        evaluate(wanted, data, out, steps, together=words.together, note=words.note)
        common = Case("", "ours", "matched", model, "en", words.threads)
        spoken = replace(data, samples=tuple(s for s in data.samples if s.reference))
        for name in words.comparisons:
            other = name == "padding" and words.padding_model
            chosen = read_dataset(words.padding_data) if other and words.padding_data else spoken
            asked = replace(common, model=words.padding_model) if other else common
            compare(name, chosen, asked, steps, out)
    return report([out], words.out / "report")


def main() -> None:
    """Entry point of the command line."""
    emit(f"{run(_options())}\n")


if __name__ == "__main__":
    sys.exit(run_program(main))
