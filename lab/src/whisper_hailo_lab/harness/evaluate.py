"""Evaluation of cases: one process for each, in turns, and the records of their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
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
    RunHeader,
    RunRecords,
)
from whisper_hailo_lab.runs.run_file import RunWriter
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import AnsweringProcess, ProcessEndedError
from whisper_hailo_lab.systems.table import find_system

TOGETHER: Final = 8
"""Cases that are alive at once."""

HARNESS_PACKAGES: Final = (
    "whisper-hailo",
    "onnxruntime",
    "numpy",
    "jiwer",
    "whisper-normalizer",
)

Sink: TypeAlias = Callable[[Record], None]
Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and the current step."""


def ignore_progress(_done: int, _total: int, _step: str) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Harness:
    """Runs cases, some of them at once.

    Attributes:
        sink: called with every record as soon as it exists.
        progress: called before each step.
        together: cases alive at once.
    """

    sink: Sink
    progress: Progress = ignore_progress
    together: int = TOGETHER

    def run(self, cases: Sequence[Case], dataset: Dataset) -> None:
        """Measure every case on every sample; failures are recorded, never raised."""
        total = len(cases) * (len(dataset.samples) + 1)
        done = 0
        for start in range(0, len(cases), self.together):
            batch = cases[start : start + self.together]
            done = self._run_batch(batch, dataset, done, total)

    def _run_batch(
        self,
        cases: Sequence[Case],
        dataset: Dataset,
        done: int,
        total: int,
    ) -> int:
        """Run cases in turns, and return the number of steps done."""
        processes: list[_CaseProcess] = []
        try:
            for case in cases:
                self.progress(done, total, f"{case.name}: loading")
                process = _CaseProcess(case)
                process.begin(dataset.samples)
                processes.append(process)
                done += 1
            for problem in dataset.problems:
                for case in cases:
                    self.sink(FileResult(case.name, problem.id, error=problem.message))
            for index, sample in enumerate(dataset.samples):
                # A new order each time: after a large model the processor's caches are empty, and
                # no case should always come after the same one.
                for turn in np.random.default_rng(index).permutation(len(processes)):
                    process = processes[turn]
                    self.progress(done, total, f"{process.case.name}: {sample.id}")
                    self.sink(process.transcribe(sample))
                    done += 1
        finally:
            for process in processes:
                self.sink(process.end())
        return done


class _CaseProcess:
    """The process of one case, and the record of what it reports."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._record = CaseRecord(
            name=case.name,
            system=case.system,
            row=case.row,
            model=case.model,
            threads=case.threads,
            settings=case.settings,
            group=case.group,
        )
        self._process: AnsweringProcess | None = None

    def begin(self, samples: Iterable[Sample]) -> None:
        """Convert the weights if needed, start, load and warm up."""
        try:
            artefact = prepare_artefact(self.case.system, self.case.model)
            command = process.system_command(self.case.system)
            environment = process.make_environment(self.case.threads)
            self._process = AnsweringProcess(command, environment)
        except WhisperHailoError as error:
            self._record = replace(self._record, error=str(error))
            return
        answer = self._ask(order="open", case=asdict(self.case), path=artefact.path)
        if "error" not in answer:
            self._record_loading(answer, artefact)
            self._warm_up(samples)

    def _record_loading(self, answer: dict[str, Any], artefact: Artefact) -> None:
        self._record = replace(
            self._record,
            versions=answer["versions"],
            model_sha256=artefact.sha256,
            heard_as=answer["heard_as"],
            load_ms=answer["load_ms"],
            memory=CaseMemory(before=answer["before_mib"], load=answer["load_mib"]),
        )

    def _warm_up(self, samples: Iterable[Sample]) -> None:
        """Transcribe the first recording that can be read."""
        for sample in samples:
            answer = self._ask(
                order="warm-up", audio=str(sample.audio), runs=WARM_UPS, fatal=False
            )
            if "error" not in answer:
                memory = replace(self._record.memory, warm_up=answer["warm_up_mib"])
                times = tuple(answer["warm_up_ms"])
                self._record = replace(self._record, memory=memory, warm_up_ms=times)
                return

    def transcribe(self, sample: Sample) -> FileResult:
        """Return the result of one recording, which may be an error."""
        result = FileResult(
            self.case.name,
            sample.id,
            language=sample.language,
            reference=sample.reference,
        )
        if self._record.error:
            return replace(result, error=self._record.error)
        answer = self._ask(
            order="transcribe",
            audio=str(sample.audio),
            language=sample.language,
            fatal=False,
        )
        if "error" in answer:
            return replace(result, error=answer["error"])
        answer["hypothesis"] = answer.pop("text")
        return replace(result, **answer)

    def end(self) -> CaseRecord:
        """Close the process and return the case's record with its peak memory."""
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
        """Send an order and return its answer; a fatal error ends the case."""
        if self._process is None:
            return {"error": self._record.error or "not started"}
        try:
            answer = self._process.ask(json.dumps(order))
        except ProcessEndedError as error:
            answer = {"error": str(error)}
            fatal = True
        if fatal and "error" in answer:
            self._record = replace(self._record, error=str(answer["error"]))
        return answer


def evaluate_cases(
    cases: Sequence[Case],
    dataset: Dataset,
    out: Path | None,
    progress: Progress,
    *,
    together: int = TOGETHER,
    note: str = "",
) -> RunRecords:
    """Measure cases on a dataset and return the records of this call.

    Args:
        cases: cases with unique names.
        dataset: recordings with their texts.
        out: run file to add the records to; `None` writes none.
        progress: called before each step.
        together: cases alive at once.
        note: free text for the run's header.
    """
    header = new_header(dataset, note)
    records: list[Record] = []
    with ExitStack() as stack:
        sinks: list[Sink] = [records.append]
        if out is not None:
            writer = stack.enter_context(RunWriter(out, header, append=True))
            sinks.append(writer.write)

        def sink(record: Record) -> None:
            for write in sinks:
                write(record)

        Harness(sink, progress, together).run(cases, dataset)
    return RunRecords(
        header=header,
        cases=tuple(record for record in records if isinstance(record, CaseRecord)),
        files=tuple(record for record in records if isinstance(record, FileResult)),
    )


def new_header(dataset: Dataset | None = None, note: str = "") -> RunHeader:
    """Return the first line of a run file that is measured now, on this machine."""
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
    """Return a case for each system and row.

    Args:
        systems: names of systems.
        rows: names of rules.
        common: model, language and threads of all cases.
        ours: settings of our own system.
        others: settings of every system that has them.
    """
    cases = []
    for system in dict.fromkeys(systems):
        label = find_system(system).label
        settings = others | ours if system == "ours" else others
        for row in dict.fromkeys(rows):
            case = replace(
                common,
                name=f"{label}, {row}",
                system=system,
                row=row,  # type: ignore[arg-type]  # `Case` refuses other names
                settings=settings,
            )
            cases.append(case)
    return tuple(cases)
