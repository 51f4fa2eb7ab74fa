"""Everything that one machine can measure, and its report.

    python -m whisper_hailo_lab.experiments.bench [--plan machine|people|study] [--data DIR]
                                                  [--limit N] [--out DIR]

`machine` runs ours and every rival with an environment (`make lab NAME=rivals`) on the bundled
model and its frozen clips; rivals without one are named and left out. `people` runs real
checkpoints on recordings of people, with `--emulated` also as a chip would compute them. `study` is
the matrix of the device run book: see docs/run-book.md.
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
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.compare.settings import run_comparison
from whisper_hailo_lab.data.datasets import Dataset, Sample, read_dataset
from whisper_hailo_lab.data.speech import (
    LONG_S,
    interleave_sets,
    read_speech,
    select_recordings,
    speech_folder,
)
from whisper_hailo_lab.harness.evaluate import evaluate_cases
from whisper_hailo_lab.program import StepProgress, first_line, run_program
from whisper_hailo_lab.report.build import write_report
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.runs.records import EMULATED_SUFFIX, EMULATOR, ROWS, Case, Row
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.table import SYSTEMS, find_system

logger = logging.getLogger(__name__)

CaseSettings = dict[str, Any]

OURS: Final[dict[str, CaseSettings]] = {
    "10 s, FP32": {},
    "10 s, INT8 decoder": {"quantize": "int8"},
    "10 s, INT4 decoder": {"quantize": "int4"},
    "30 s, INT8 decoder": {"window_s": 30.0, "quantize": "int8"},
}
"""Ours without a chip."""

DEFAULTS: Final[CaseSettings] = {
    "quantize": AUTO_QUANTIZE,
    "encoder_quantize": AUTO_QUANTIZE,
}
"""Ours with the defaults of `transcribe`."""

PEOPLE: Final = ("base", "tiny.en")
"""Checkpoints of the plan `people`."""

WINDOWS_S: Final = (5, 10, 30)
"""Windows of the plan `people`: base on 8 and 8L, the other files of chips, and Whisper's own."""

STUDY: Final[dict[str, CaseSettings]] = {
    "fixed decoder": {
        "decoder_backend": "fixed",
        "hailo_window_s": 10,
        "hailo_length": 32,
    },
    "10 s encoder + INT8": {"quantize": "int8"},
    "30 s FP32 encoder + FP32": {"window_s": 30.0},
    "30 s FP32 encoder + INT8": {"window_s": 30.0, "quantize": "int8"},
    "30 s INT8 encoder + FP32": {"window_s": 30.0, "encoder_quantize": "int8"},
    "30 s INT8 encoder + INT8": {
        "window_s": 30.0,
        "encoder_quantize": "int8",
        "quantize": "int8",
    },
}
"""The study's configurations that need no chip."""

ACFT: Final = "futo-org/acft-whisper-tiny.en"
"""Checkpoint that was fine-tuned for short windows without padding."""

MODELS: Final = {
    "machine": "micro",
    "people": PEOPLE[0],
    "study": "openai/whisper-tiny",
}
"""Checkpoint of each plan's comparisons, and of its cases where it has one."""

RIVALS: Final = tuple(name for name in SYSTEMS if name != "ours")

SETS: Final = ("seen", "noisy", "silence")
COMPARISONS: Final = ("cache", "window", "precision", "padding")


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """The chip's files of the run book.

    Attributes:
        encoder: HEF of the encoder.
        decoder: HEF of the decoder; empty leaves its row out.
        assets: arrays of that decoder's host.
    """

    encoder: str
    decoder: str = ""
    assets: str = ""

    def configurations(self) -> dict[str, CaseSettings]:
        """Return the study's configurations on the chip."""
        encoder = {"encoder": self.encoder, "encoder_backend": "hailo"}
        configurations: dict[str, CaseSettings] = {
            "HEF encoder + INT8": encoder | {"quantize": "int8"},
            "HEF encoder + INT4": encoder | {"quantize": "int4"},
            "HEF encoder + INT8, unpadded": encoder | {"quantize": "int8", "pad_to": 0},
        }
        if self.decoder:
            decoder = {"decoder": self.decoder, "decoder_backend": "hailo"}
            if self.assets:
                decoder["decoder_assets"] = self.assets
            configurations["HEF encoder + HEF decoder"] = encoder | decoder
        return configurations


def plan_machine(model: str, threads: int, language: str = "en") -> tuple[Case, ...]:
    """Return everything that runs without a chip: ours, and the rivals in both rows."""
    cases = plan_ours(OURS, "matched", model, threads, language)
    cases.append(
        Case(
            "whisper-hailo, default",
            "ours",
            "default",
            model,
            language,
            threads,
            DEFAULTS,
        )
    )
    for name in RIVALS:
        cases.append(plan_rival(name, "matched", model, threads, language))
        cases.append(plan_rival(name, "default", model, threads, language))
    return tuple(cases)


def plan_people(threads: int, emulated: Sequence[str]) -> tuple[Case, ...]:
    """Return real checkpoints with every window, the emulated chips, and the rivals.

    Args:
        threads: of every system.
        emulated: model directories with an encoder that `emulate` wrote.
    """
    cases: list[Case] = []
    for model in PEOPLE:
        cases.append(
            Case(model, "ours", "default", model, "en", threads, DEFAULTS),
        )
        for window_s in WINDOWS_S:
            # Whole windows, as the chip and other programs encode them.
            settings = DEFAULTS | {"window_s": float(window_s), "trim_window": False}
            name = f"{model}, {window_s} s"
            cases.append(Case(name, "ours", "matched", model, "en", threads, settings))
        for directory in emulated:
            spec = ModelSpec.load(Path(directory))
            if spec.name == model:
                cases.append(plan_emulated(directory, spec, threads))
        for system in ("faster-whisper", "whisper-cpp"):
            name = f"{find_system(system).label} {model}"
            cases.append(Case(name, system, "default", model, "en", threads))
        # Speed-ups are over this one, as the study's were.
        name = f"faster-whisper {model}, greedy"
        cases.append(Case(name, "faster-whisper", "matched", model, "en", threads))
    cases.append(plan_rival("moonshine", "matched", "", threads))
    return tuple(cases)


def plan_emulated(directory: str, spec: ModelSpec, threads: int) -> Case:
    """Return a case whose encoder rounds as a chip does."""
    window_s = spec.hailo_form("encoder").window_s
    settings = {
        "encoder_backend": EMULATOR,
        "quantize": spec.quantization,
        "encoder_quantize": spec.encoder_quantization,
    }
    name = f"{spec.name}, {window_s:g} s{EMULATED_SUFFIX}"
    return Case(name, "ours", "matched", directory, "en", threads, settings)


def plan_study(
    model: str, threads: int, device: DeviceFiles | None
) -> tuple[Case, ...]:
    """Return the study's matrix under its own rules, then all systems on whole recordings."""
    on_chip = device.configurations() if device else {}
    cases = plan_ours(STUDY | on_chip, "study", model, threads)
    cases += plan_ours(OURS | on_chip, "matched", model, threads)
    unpadded = {"pad_to": 0, "quantize": "int8"}
    cases.append(
        Case(
            "ours, ACFT tiny.en unpadded",
            "ours",
            "matched",
            ACFT,
            "en",
            threads,
            unpadded,
        )
    )
    for name in RIVALS:
        if name != "moonshine":  # it takes no token budget
            cases.append(plan_rival(name, "study", model, threads))
        cases.append(plan_rival(name, "matched", model, threads))
    return tuple(cases)


def plan_ours(
    configurations: dict[str, CaseSettings],
    row: Row,
    model: str,
    threads: int,
    language: str = "en",
) -> list[Case]:
    """Return ours with each configuration."""
    return [
        Case(f"ours {label}, {row}", "ours", row, model, language, threads, settings)
        for label, settings in configurations.items()
    ]


def plan_rival(
    name: str, row: Row, model: str, threads: int, language: str = "en"
) -> Case:
    """Return a rival on the same checkpoint; Moonshine has weights of its own."""
    label = find_system(name).label
    weights = "tiny-streaming" if name == "moonshine" else model
    return Case(f"{label}, {row}", name, row, weights, language, threads)


def select_cases(
    cases: tuple[Case, ...], systems: Sequence[str], rows: Sequence[str] = ()
) -> tuple[Case, ...]:
    """Return the cases of some systems and rows; an empty list selects all.

    Raises:
        OptionError: no such system, or no such row of them.
    """
    for name in systems:
        find_system(name)
    selected = tuple(
        case
        for case in cases
        if (not systems or case.system in systems) and (not rows or case.row in rows)
    )
    if not selected:
        raise OptionError(f"the plan has no case of {', '.join([*systems, *rows])}")
    return selected


def read_bundled_clips(limit: int) -> Dataset:
    """Return some clips of each frozen set as one dataset."""
    folder = unpack_clips()
    parts = [read_dataset(folder / name).sample(limit) for name in SETS]
    samples = tuple(sample for part in parts for sample in part.samples)
    return Dataset("micro", folder, samples)


def read_people(limit: int) -> Dataset:
    """Return recordings of people who speak English, and a quarter as many without speech.

    They are taken in turns from all sets, none longer than a window of Whisper's own.

    Raises:
        OptionError: the recordings are not there.
    """
    folder = speech_folder()
    clips = [clip for clip in read_speech(folder) if clip.seconds <= LONG_S]
    parts = (("english", limit), ("nospeech", limit // 4))
    samples: list[Sample] = []
    for group, count in parts:
        recordings = interleave_sets(select_recordings(clips, [group]))
        for recording in recordings[:count]:
            (path,) = recording.paths
            samples.append(Sample(recording.key, path, recording.text))
    return Dataset("people", folder, tuple(samples))


def read_recordings(arguments: argparse.Namespace) -> Dataset:
    """Return the recordings of a plan."""
    if arguments.data:
        return read_dataset(arguments.data)
    if arguments.plan == "people":
        return read_people(arguments.limit)
    return read_bundled_clips(arguments.limit)


def drop_uninstalled(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Return the cases whose system is installed; the log names the others."""
    installed = {name for name in SYSTEMS if process.is_installed(name)}
    for name in sorted({case.system for case in cases} - installed):
        folder = process.ENVIRONMENTS.name
        logger.info("%s: left out, no %s/%s (make lab NAME=rivals)", name, folder, name)
    return tuple(case for case in cases if case.system in installed)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument(
        "--plan", choices=("machine", "people", "study"), default="machine"
    )
    parser.add_argument(
        "--model", default=None, help="default: micro; base; openai/whisper-tiny"
    )
    parser.add_argument(
        "--data", type=Path, help="recordings with texts; default: frozen clips"
    )
    parser.add_argument("--padding-model", help="checkpoint of the padding comparison")
    parser.add_argument("--padding-data", type=Path, help="its recordings")
    parser.add_argument(
        "--limit", type=int, default=12, help="clips per set, or of people (default 12)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--together", type=int, default=8, help="systems alive at once")
    parser.add_argument("--systems", nargs="*", default=[], help="only these")
    parser.add_argument(
        "--rows", nargs="*", default=[], choices=ROWS, help="only these"
    )
    parser.add_argument("--comparisons", nargs="*", default=list(COMPARISONS))
    parser.add_argument(
        "--hef-encoder", default="", help="encoder HEF for the study's plan"
    )
    parser.add_argument(
        "--emulated",
        nargs="*",
        default=[],
        help="model directories with emulated encoders for the plan people",
    )
    parser.add_argument("--hef-decoder", default="")
    parser.add_argument("--decoder-assets", default="")
    parser.add_argument("--note", default="", help="other load on the machine")
    parser.add_argument("--out", type=Path, default=BUILD / "bench")
    return parser.parse_args()


def plan_cases(arguments: argparse.Namespace, model: str) -> tuple[Case, ...]:
    """Return all cases of the chosen plan."""
    if arguments.plan == "machine":
        return plan_machine(model, arguments.threads)
    if arguments.plan == "people":
        return plan_people(arguments.threads, arguments.emulated)
    device = None
    if arguments.hef_encoder:
        device = DeviceFiles(
            arguments.hef_encoder, arguments.hef_decoder, arguments.decoder_assets
        )
    return plan_study(model, arguments.threads, device)


def run_bench(arguments: argparse.Namespace) -> Path:
    """Measure the plan, then the comparisons; return the path of the report's page."""
    model = arguments.model or MODELS[arguments.plan]
    dataset = read_recordings(arguments)
    selected = select_cases(
        plan_cases(arguments, model), arguments.systems, arguments.rows
    )
    cases = drop_uninstalled(selected)
    out: Path = arguments.out / "run.jsonl"
    out.unlink(missing_ok=True)
    with closing(StepProgress()) as progress:
        evaluate_cases(
            cases,
            dataset,
            out,
            progress,
            together=arguments.together,
            note=arguments.note,
        )
        common = Case("", "ours", "matched", model, "en", arguments.threads)
        spoken = tuple(sample for sample in dataset.samples if sample.reference)
        for name in arguments.comparisons:
            # Padding also decides what is written where nobody speaks.
            samples = dataset.samples if name == "padding" else spoken
            recordings = replace(dataset, samples=samples)
            case = common
            if name == "padding" and arguments.padding_model:
                case = replace(common, model=arguments.padding_model)
                if arguments.padding_data:
                    recordings = read_dataset(arguments.padding_data)
            run_comparison(name, recordings, case, progress, out)
    return write_report([out], arguments.out / "report")


def main() -> None:
    """Run the command line."""
    emit(f"{run_bench(parse_arguments())}\n")


if __name__ == "__main__":
    sys.exit(run_program(main))
