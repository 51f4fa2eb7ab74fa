"""Everything that one machine can measure, and the report of it.

    python -m whisper_hailo_lab.experiments.bench [--plan machine|study] [--data DIR] [--limit N]
                                                  [--out DIR]

`machine` runs ours and every rival whose environment is there (`make lab NAME=rivals`) on the
bundled model and its frozen clips; rivals that are not there are named and left out. `study` is
the device run book's matrix: see docs/run-book.md.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.options import AUTO_QUANTIZE
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.compare.all import compare
from whisper_hailo_lab.data.datasets import Dataset, read_dataset
from whisper_hailo_lab.harness.evaluate import evaluate
from whisper_hailo_lab.program import description
from whisper_hailo_lab.program import run as run_program
from whisper_hailo_lab.report.build import report
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.runs.records import ROWS, Case, Row
from whisper_hailo_lab.steps import Steps
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.table import SYSTEMS, entry

OURS: Final[dict[str, dict[str, Any]]] = {
    "10 s, FP32": {},
    "10 s, INT8 decoder": {"quantize": "int8"},
    "10 s, INT4 decoder": {"quantize": "int4"},
    "30 s, INT8 decoder": {"window_s": 30.0, "quantize": "int8"},
}
"""Ours without a chip."""

AS_IT_COMES: Final[dict[str, Any]] = {"quantize": AUTO_QUANTIZE, "encoder_quantize": AUTO_QUANTIZE}
"""Ours for those who say nothing."""

STUDY: Final[dict[str, dict[str, Any]]] = {
    "fixed decoder": {"decoder_backend": "fixed", "hailo_window_s": 10, "hailo_length": 32},
    "10 s encoder + INT8": {"quantize": "int8"},
    "30 s FP32 encoder + FP32": {"window_s": 30.0},
    "30 s FP32 encoder + INT8": {"window_s": 30.0, "quantize": "int8"},
    "30 s INT8 encoder + FP32": {"window_s": 30.0, "encoder_quantize": "int8"},
    "30 s INT8 encoder + INT8": {
        "window_s": 30.0, "encoder_quantize": "int8", "quantize": "int8",
    },
}  # fmt: skip
"""The study's configurations that need no chip."""

ACFT: Final = "futo-org/acft-whisper-tiny.en"
"""Fine-tuned by others to hear short windows without padding."""

RIVALS: Final = tuple(name for name, known in SYSTEMS.items() if name != "ours" and known.whole)


@dataclass(frozen=True, slots=True)
class Device:
    """What the run book knows of the chip's files.

    Attributes:
        encoder: HEF of the encoder.
        decoder: HEF of the decoder.
        assets: arrays of that decoder's host.
    """

    encoder: str
    decoder: str = ""
    assets: str = ""

    def values(self) -> dict[str, dict[str, Any]]:
        """The study's configurations on the chip."""
        encoder = {"encoder": self.encoder, "encoder_backend": "hailo"}
        found: dict[str, dict[str, Any]] = {
            "HEF encoder + INT8": encoder | {"quantize": "int8"},
            "HEF encoder + INT4": encoder | {"quantize": "int4"},
            "HEF encoder + INT8, unpadded": encoder | {"quantize": "int8", "pad_to": 0},
        }
        if self.decoder:
            chip = {"decoder": self.decoder, "decoder_backend": "hailo"}
            assets = {"decoder_assets": self.assets} if self.assets else {}
            found["HEF encoder + HEF decoder"] = encoder | chip | assets
        return found


def machine_plan(model: str, threads: int, language: str = "en") -> tuple[Case, ...]:
    """Everything that runs without a chip: ours, and the rivals in both rows."""
    cases = ours(OURS, "matched", model, threads, language)
    cases.append(
        Case("whisper-hailo, default", "ours", "default", model, language, threads, AS_IT_COMES)
    )
    for name in RIVALS:
        rows: tuple[Row, ...] = ("matched", "default")
        cases += [rival(name, row, model, threads, language) for row in rows]
    return tuple(cases)


def study_plan(model: str, threads: int, device: Device | None) -> tuple[Case, ...]:
    """The study's matrix under its own rules, then ours and the rivals on whole recordings."""
    values = STUDY | (device.values() if device else {})
    cases = ours(values, "study", model, threads)
    cases += ours(OURS | (device.values() if device else {}), "matched", model, threads)
    short = {"pad_to": 0, "quantize": "int8"}
    cases.append(Case("ours, ACFT tiny.en unpadded", "ours", "matched", ACFT, "en", threads, short))
    for name in RIVALS:
        takes_budget = name != "onnx-asr"
        rows: tuple[Row, ...] = ("study", "matched") if takes_budget else ("matched",)
        cases += [rival(name, row, model, threads) for row in rows]
    return tuple(cases)


def ours(
    values: dict[str, dict[str, Any]], row: Row, model: str, threads: int, language: str = "en"
) -> list[Case]:
    """Ours with each of some settings."""
    return [
        Case(f"ours {label}, {row}", "ours", row, model, language, threads, settings)
        for label, settings in values.items()
    ]


def rival(name: str, row: Row, model: str, threads: int, language: str = "en") -> Case:
    """A rival on the same checkpoint; Moonshine has weights of its own."""
    label = entry(name).label
    loads = "tiny-streaming" if name == "moonshine" else model
    return Case(f"{label}, {row}", name, row, loads, language, threads)


def only(
    cases: tuple[Case, ...], systems: Sequence[str], rows: Sequence[str] = ()
) -> tuple[Case, ...]:
    """The cases of some systems and rows; none named is all.

    Raises:
        OptionError: no such system, or no such row of them.
    """
    for name in systems:
        entry(name)
    kept = tuple(
        case
        for case in cases
        if (not systems or case.system in systems) and (not rows or case.row in rows)
    )
    if not kept:
        raise OptionError(f"the plan has no case of {', '.join([*systems, *rows])}")
    return kept


logger = logging.getLogger(__name__)

SETS: Final = ("seen", "noisy", "silence")
COMPARISONS: Final = ("cache", "window", "mel", "precision", "padding")


def bundled(limit: int) -> Dataset:
    """So many clips of each frozen set, as one dataset."""
    folder = unpack_clips()
    parts = [read_dataset(folder / name).sampled(limit) for name in SETS]
    samples = tuple(sample for part in parts for sample in part.samples)
    return Dataset("micro", folder, samples)


def runnable(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Cases whose system is installed somewhere; the others are named in the log."""
    there = {name for name in SYSTEMS if process.is_there(name)}
    for name in sorted({case.system for case in cases} - there):
        place = process.ENVIRONMENTS.name
        logger.info("%s: left out, no %s/%s (make lab NAME=rivals)", name, place, name)
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
