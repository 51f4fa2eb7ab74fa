"""A fresh process per case, in turns, and the records of what each says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.data.datasets import Dataset, Sample
from whisper_hailo_lab.formats.prepare import Artefact, prepare_artefact
from whisper_hailo_lab.runs.machine import package_versions, this_machine
from whisper_hailo_lab.runs.records import (
    WARM_UPS,
    Case,
    CaseMemory,
    CaseRecord,
    FileResult,
    Record,
    Row,
    RunHeader,
    RunRecords,
)
from whisper_hailo_lab.runs.run_file import RunWriter
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import AnsweringProcess, ProcessEndedError
from whisper_hailo_lab.systems.table import find_system

TOGETHER: Final = 8
"""Cases that are alive at once."""

Sink: TypeAlias = Callable[[Record], None]
Progress: TypeAlias = Callable[[int, int, str], None]
"""Told steps done, steps in all, and what is being done."""


@dataclass(frozen=True, slots=True)
class Harness:
    """How cases are run.

    Attributes:
        sink: takes every record as soon as it is there.
        progress: told about each step.
        together: cases alive at once.
    """

    sink: Sink
    progress: Progress = lambda done, total, what: None
    together: int = TOGETHER

    def run(self, cases: Sequence[Case], dataset: Dataset) -> None:
        """Measure every case on every sample; failures are recorded, never raised."""
        total = len(cases) * (len(dataset.samples) + 1)
        done = 0
        for start in range(0, len(cases), self.together):
            batch = cases[start : start + self.together]
            done = self._run_batch(batch, dataset, done, total)

    def _run_batch(self, cases: Sequence[Case], dataset: Dataset, done: int, total: int) -> int:
        alive: list[_CaseProcess] = []
        try:
            for case in cases:
                self.progress(done, total, f"{case.name}: loading")
                process = _CaseProcess(case)
                process.begin(dataset.samples)
                alive.append(process)
                done += 1
            for problem in dataset.problems:
                for process in alive:
                    self.sink(FileResult(process.case.name, problem.id, error=problem.message))
            for index, sample in enumerate(dataset.samples):
                # Drawn anew each time: who comes behind a large model finds his own fetched out of
                # the processor's caches, and nobody should always be that one.
                for turn in np.random.default_rng(index).permutation(len(alive)):
                    process = alive[turn]
                    self.progress(done, total, f"{process.case.name}: {sample.id}")
                    self.sink(process.transcribe(sample))
                    done += 1
        finally:
            for process in alive:
                self.sink(process.end())
        return done


class _CaseProcess:
    """One case's process and what is known about it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._record = CaseRecord(
            name=case.name, system=case.system, row=case.row, model=case.model,
            threads=case.threads, settings=case.settings, group=case.group,
        )  # fmt: skip
        self._process: AnsweringProcess | None = None

    def begin(self, samples: Iterable[Sample]) -> None:
        """Convert what must be converted, start, load and warm up."""
        try:
            stored = str(self.case.settings.get("stored", ""))
            made = prepare_artefact(self.case.system, self.case.model, stored)
            self._process = AnsweringProcess(
                process.command(self.case.system), process.variables(self.case.threads)
            )
        except WhisperHailoError as error:
            self._record = replace(self._record, error=str(error))
            return
        answer = self._ask(order="open", case=asdict(self.case), path=made.path)
        if "error" not in answer:
            self._note_loaded(answer, made)
            self._warm_up(samples)

    def _note_loaded(self, answer: dict[str, Any], made: Artefact) -> None:
        self._record = replace(
            self._record,
            versions=answer["versions"],
            model_sha256=made.sha256,
            heard_as=answer["heard_as"],
            load_ms=answer["load_ms"],
            memory=CaseMemory(before=answer["before_mib"], load=answer["load_mib"]),
        )

    def _warm_up(self, samples: Iterable[Sample]) -> None:
        """With the first recording that can be heard."""
        for sample in samples:
            answer = self._ask(order="warm-up", audio=str(sample.audio), runs=WARM_UPS, fatal=False)
            if "error" not in answer:
                memory = replace(self._record.memory, warm_up=answer["warm_up_mib"])
                times = tuple(answer["warm_up_ms"])
                self._record = replace(self._record, memory=memory, warm_up_ms=times)
                return

    def transcribe(self, sample: Sample) -> FileResult:
        known = FileResult(
            self.case.name, sample.id, language=sample.language, reference=sample.reference
        )
        if self._record.error:
            return replace(known, error=self._record.error)
        answer = self._ask(
            order="transcribe", audio=str(sample.audio), language=sample.language, fatal=False
        )
        if "error" in answer:
            return replace(known, error=answer["error"])
        answer["hypothesis"] = answer.pop("text")
        return replace(known, **answer)

    def end(self) -> CaseRecord:
        """Close the process; gives the case's record with its peak memory."""
        if self._process is None:
            return self._record
        if self._process.alive:
            answer = self._ask(order="close", fatal=False)
            peak = float(answer.get("peak_mib", 0.0))
            memory = replace(self._record.memory, peak=peak)
            self._record = replace(self._record, memory=memory)
        self._process.stop()
        return self._record

    def _ask(self, *, fatal: bool = True, **order: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Send an order and wait; an error that is fatal, or a death, ends the case."""
        if self._process is None:
            return {"error": self._record.error or "not started"}
        try:
            answer = self._process.ask(json.dumps(order))
        except ProcessEndedError as error:
            answer, fatal = {"error": str(error)}, True
        if "error" in answer and fatal:
            self._record = replace(self._record, error=str(answer["error"]))
        return answer


HARNESS_PACKAGES = ("whisper-hailo", "onnxruntime", "numpy", "jiwer", "whisper-normalizer")


def evaluate_cases(
    cases: Sequence[Case],
    dataset: Dataset,
    out: Path | None,
    progress: Progress,
    *,
    together: int = TOGETHER,
    note: str = "",
) -> RunRecords:
    """Measure cases on a dataset.

    Args:
        cases: what to measure; their names are unique.
        dataset: on what.
        out: run file to add the records to; `None` writes none.
        progress: told about each step.
        together: cases alive at once.
        note: free text for the run's header.

    Returns:
        the records of this call.
    """
    records: list[Record] = []
    header = new_header(dataset, note)
    writer = None if out is None else RunWriter(out, header, append=True)

    def sink(record: Record) -> None:
        records.append(record)
        if writer is not None:
            writer.write(record)

    try:
        Harness(sink, progress, together).run(cases, dataset)
    finally:
        if writer is not None:
            writer.close()
    return RunRecords(
        header=header,
        cases=tuple(r for r in records if isinstance(r, CaseRecord)),
        files=tuple(r for r in records if isinstance(r, FileResult)),
    )


def new_header(dataset: Dataset | None = None, note: str = "") -> RunHeader:
    """First line of a run of this machine, now."""
    return RunHeader(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine(),
        versions=package_versions(HARNESS_PACKAGES),
        dataset="" if dataset is None else dataset.name,
        dataset_sha256="" if dataset is None else dataset.sha256,
        n_samples=0 if dataset is None else len(dataset.samples),
        note=note,
    )


def make_cases(
    systems: Sequence[str],
    rows: Sequence[str],
    common: Case,
    ours: dict[str, Any],
    others: dict[str, Any],
) -> tuple[Case, ...]:
    """Every system under every row.

    Args:
        systems: names.
        rows: names of rules.
        common: model, language and threads for all.
        ours: settings of our own system.
        others: settings of whatever system knows them.
    """
    made = []
    for system in dict.fromkeys(systems):
        label = find_system(system).label
        settings = others | (ours if system == "ours" else {})
        made += [
            replace(
                common,
                name=f"{label}, {row}",
                system=system,
                row=_row(row),
                settings=settings,
            )
            for row in dict.fromkeys(rows)
        ]
    return tuple(made)


def _row(name: str) -> Row:
    row: Row = name  # type: ignore[assignment]
    return row  # `Case` refuses names that do not exist
