"""The whole comparison of speed: parts that are kept one by one, put together in one run file."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_lab.data.datasets import Dataset, read_dataset
from whisper_hailo_lab.formats.prepare import artefact, checkpoint_hashes
from whisper_hailo_lab.harness.evaluate import Progress, new_header
from whisper_hailo_lab.runs.records import Case, ComparisonRecord, FileResult, Record
from whisper_hailo_lab.runs.run_file import RunWriter
from whisper_hailo_lab.speed import parts
from whisper_hailo_lab.speed.keys import source_key
from whisper_hailo_lab.speed.plan import (
    FLOAT,
    MICRO,
    CaseGroup,
    accuracy_cases,
    group,
    sizes_of,
)
from whisper_hailo_lab.speed.weights import SIZES, random_checkpoint
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import output_of

logger = logging.getLogger(__name__)

QUICK_PER_SET: Final = 4
START_ROUNDS: Final = 5
START_S: Final = 3.0
SPEECH_S: Final = 72.0
"""Eight windows of 10 s with their margins."""

PARTS: Final = ("turns", "floor", "batch", "start", "accuracy")


@dataclass(frozen=True, slots=True)
class SpeedPlan:
    """What is measured, and where it is kept.

    Attributes:
        out: folder of the parts and of `run.jsonl`.
        clips: the frozen test sets of the bundled model.
        quick: a few rounds of the smallest models, to see that all works.
        parts: some of `PARTS`; of the others, what is kept is taken.
        groups: keys of the groups that take turns, such as `tiny-1`; of the others, what is kept is
            taken. None named is all.
        systems: only these take part; none named is all.
        until_s: when nothing new is begun, by `time.monotonic`; what is kept is put together.
        note: what else the machine was doing.
    """

    out: Path
    clips: Path
    quick: bool = False
    parts: tuple[str, ...] = PARTS
    groups: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    until_s: float = math.inf
    note: str = ""

    @property
    def over(self) -> bool:
        return monotonic() >= self.until_s

    def only_kept(self) -> SpeedPlan:
        return replace(self, until_s=-math.inf)

    def runnable(self, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        """Cases whose system is asked for and has its environment."""
        wanted = (case for case in cases if not self.systems or case.system in self.systems)
        return tuple(case for case in wanted if process.is_there(case.system))

    def checkpoint(self, size: str) -> str:
        """A checkpoint's name, made when it is not there."""
        return str(random_checkpoint(size, self.out / size)) if size in SIZES else size


def run(plan: SpeedPlan, progress: Progress) -> Path:
    """Measure what is not there yet, and write all of it into one run file.

    Returns:
        the run file.
    """
    plan.out.mkdir(parents=True, exist_ok=True)
    busy = f"Load average at the start {os.getloadavg()[0]:.1f}."
    records: list[Record] = [new_header(note=f"{plan.note} {busy}".strip())]
    makers: dict[str, Callable[[SpeedPlan, Progress], Iterator[Record]]] = {
        "turns": _turns, "floor": _floor, "batch": _batch, "start": _start,
        "accuracy": measure_accuracy,
    }  # fmt: skip
    for part in PARTS:
        begin = monotonic()
        records += makers[part](plan if part in plan.parts else plan.only_kept(), progress)
        logger.info("%s: %.0f s", part, monotonic() - begin)
    path = plan.out / "run.jsonl"
    path.unlink(missing_ok=True)
    with RunWriter(path, new_header(note=f"{plan.note} {busy}".strip())) as writer:
        for record in records[1:]:
            writer.write(record)
    return path


def _groups(plan: SpeedPlan) -> Iterator[tuple[CaseGroup, Dataset]]:
    for (size, threads), rounds in sizes_of(plan.groups, plan.quick).items():
        made = group(size, plan.checkpoint(size), threads, rounds)
        kept = CaseGroup(made.key, size, plan.runnable(made.cases), rounds)
        spoken = size == MICRO
        heard = _clips(plan, rounds) if spoken else parts.noise(plan.out, rounds)
        yield kept, heard


def _clips(plan: SpeedPlan, count: int) -> Dataset:
    return read_dataset(plan.clips / "unseen").sampled(count)


def _turns(plan: SpeedPlan, progress: Progress) -> Iterator[Record]:
    for one, dataset in _groups(plan):
        kept, begin = parts.kept_run(one, dataset, plan.out), monotonic()
        is_asked = not plan.groups or one.key in plan.groups
        if kept is None and (plan.over or not is_asked):
            continue
        found = kept or parts.take_turns(
            one, dataset, plan.out, progress, note=plan.note, is_over=lambda: plan.over
        )
        logger.info("%s: %.0f s", one.key, monotonic() - begin)
        yield from found.files
        yield from found.cases


def _floor(plan: SpeedPlan, progress: Progress) -> Iterator[Record]:
    tiny = plan.checkpoint("tiny")
    rows: list[dict[str, Any]] = []
    for number, quantize in enumerate(("int4", "int8")):
        progress(number, 2, f"floor: {quantize}")
        rows += _program(plan, "floor", tiny, quantize, "1")
    yield ComparisonRecord("speed-floor", {"model": "tiny", "rounds": "in turns"}, tuple(rows))


def _batch(plan: SpeedPlan, progress: Progress) -> Iterator[Record]:
    speech = str(speech_file(plan.clips, plan.out, SPEECH_S))
    wanted = [(plan.checkpoint("tiny"), "-"), (MICRO, speech)]
    cases = [(*which, quantize) for which in wanted for quantize in ("int4", "int8", "none")]
    rows: list[dict[str, Any]] = []
    for model, audio, quantize in cases:
        progress(len(rows), len(cases), f"batch: {Path(model).name} {quantize}")
        rows += _program(plan, "batch", model, quantize, "1", audio)
    yield ComparisonRecord("speed-batch", {"windows": 8}, tuple(rows))


def _program(plan: SpeedPlan, name: str, *words: str) -> list[dict[str, Any]]:
    """What a measuring program of ours says in a fresh process; kept until it changes.

    Nothing when it is not kept and time is up.
    """
    source = Path(__file__).with_name(f"{name}.py")
    key = "-".join((source_key(source), *(Path(word).stem for word in words), _weights(words[0])))
    command = [sys.executable, "-m", f"whisper_hailo_lab.speed.{name}", *words]

    def measure() -> list[dict[str, Any]]:
        environment = process.variables(threads=1)
        return [json.loads(output_of(command, environment, f"measuring the {name} failed"))]

    return _kept(plan, f"{name}-{key}", measure)


def _kept(
    plan: SpeedPlan, name: str, measure: Callable[[], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """What was measured before under a name, or is now; nothing when time is up."""
    path = plan.out / f"{name}.json"
    if not path.is_file() and not plan.over:
        write_file(path, json.dumps(measure()))
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.is_file() else []
    return found


def _weights(model: str) -> str:
    """Of a checkpoint, for the names of what was measured with it."""
    return "-".join(value[:8] for value in sorted(checkpoint_hashes(model).values()))


def _start(plan: SpeedPlan, progress: Progress) -> Iterator[Record]:
    rounds = 2 if plan.quick else START_ROUNDS
    rows: list[dict[str, Any]] = []
    for number, size in enumerate((MICRO, "tiny")):
        progress(number, 2, f"start: {size}")
        model = plan.checkpoint(size)
        key = f"{source_key(Path(parts.__file__))}-{size}-{rounds}-{_weights(model)}"
        rows += _kept(plan, f"start-{key}", partial(_started, plan, size, model, rounds))
    yield ComparisonRecord("speed-start", {"audio_s": START_S, "weights": "INT8"}, tuple(rows))


def _started(plan: SpeedPlan, size: str, model: str, rounds: int) -> list[dict[str, Any]]:
    convert = ConvertOptions(quantize="int8", encoder_quantize="int8")
    directory = str(resolve_model(model, convert))
    has_rival = process.interpreter("faster-whisper") is not None
    rival = artefact("faster-whisper", model, "int8").path if has_rival else ""
    audio = speech_file(plan.clips, plan.out, START_S)
    return parts.measure(parts.programs(size, directory, rival, audio), rounds)


def measure_accuracy(plan: SpeedPlan, progress: Progress) -> Iterator[Record]:
    """Yield the comparison of accuracies; cases that are not kept when time is up are left out."""
    per_set = QUICK_PER_SET if plan.quick else parts.PER_SET
    dataset = parts.frozen(plan.clips, per_set)
    heard: dict[str, list[FileResult]] = {}
    cases = plan.runnable(accuracy_cases(MICRO))

    def transcribe(case: Case) -> None:
        found = parts.transcribe(case, dataset, plan.out, None if plan.over else progress)
        if len(found) == len(dataset.samples):
            heard[case.name] = found

    # No time is measured here, so each core takes a case; the rivals, which are last, take longest.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(transcribe, reversed(cases)))
    cases = tuple(case for case in cases if case.name in heard)
    if FLOAT not in heard:
        return
    directory = resolve_model(MICRO, ConvertOptions("none"))
    special = ModelSpec.load(directory).tokens
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, special)
    yield parts.compare_accuracy(cases, heard, tokenizer)


def speech_file(clips: Path, out: Path, seconds: float) -> Path:
    """So many seconds of the frozen clips, one after the other."""
    import numpy as np
    import soundfile

    from whisper_hailo.audio import load_audio
    from whisper_hailo.core.types import SAMPLE_RATE_HZ

    path = out / f"speech-{seconds:g}s.flac"
    if not path.is_file():
        wanted, parts = round(seconds * SAMPLE_RATE_HZ), []
        for sample in read_dataset(clips / "unseen").samples:
            parts.append(load_audio(sample.audio))
            if sum(part.size for part in parts) >= wanted:
                break
        soundfile.write(path, np.concatenate(parts)[:wanted], SAMPLE_RATE_HZ)
    return path
