"""Cases for `windows.py`, converted on this machine.

    python -m whisper_hailo_lab.processors.prepare_windows OUT.jsonl

Tiny's dimensions with random weights, as `make lab NAME=bench-speed` has them: ours, and each
system that runs as aarch64 Python and whose environment is there to convert the weights for it.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict, replace
from pathlib import Path

from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo_lab.formats.prepare import artefact
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.runs.records import Case
from whisper_hailo_lab.speed import plan
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.weights import random_checkpoint
from whisper_hailo_lab.systems import ours, process, study

logger = logging.getLogger(__name__)

WANTED = (
    plan.INT8_INT4,
    plan.INT8_INT8,
    plan.FLOAT_INT4,
    plan.FLOAT_INT8,
    plan.STUDY,
    plan.CTRANSLATE2,
    plan.FASTER_WHISPER,
    plan.CPP_F16,
    plan.CPP_Q8,
)


def is_convertible(system: str) -> bool:
    """Whether weights can be converted for a system; whisper.cpp's are written by us."""
    return system == "whisper-cpp" or process.is_there(system)


def made(case: Case) -> str:
    """What the system of a case loads, converted where the emulated program will look for it."""
    if case.system == "ours":
        resolve_model(case.model, ours.conversion(case.settings))
    if case.system == "study":
        resolve_model(
            case.model, ConvertOptions("none", hailo=HailoOptions(study.WINDOW_S, study.LENGTH))
        )
    return artefact(case.system, case.model, case.settings.get("stored", "")).path


def _as_there(case: Case) -> Case:
    """Ours converts for the processor that it runs on, so here it is told which."""
    if case.system != "ours":
        return case
    return replace(case, settings=case.settings | {"half": True})


def main() -> None:
    """Convert, and write a line of JSON per case."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    use_cache(out.parent / "cache-x86")
    model = str(random_checkpoint("tiny", out.parent.resolve() / "tiny"))
    cases = {plan.label_of(case.name): case for case in plan.group("tiny", model, 1, 1).cases}
    wanted = [_as_there(cases[label]) for label in WANTED if is_convertible(cases[label].system)]
    for label in WANTED:
        if not is_convertible(cases[label].system):
            logger.info("%s is left out: lab/scripts/rivals makes what converts for it", label)
    lines = [json.dumps({"case": asdict(case), "path": made(case)}) + "\n" for case in wanted]
    out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run(main))
