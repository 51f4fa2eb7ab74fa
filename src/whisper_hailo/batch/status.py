"""How far a job is, by what its runs have written; other runs may be at work meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from whisper_hailo.batch.job import read_job
from whisper_hailo.batch.manifest import open_manifest
from whisper_hailo.batch.run_log import RUNS, RunEntry
from whisper_hailo.batch.shard_work import ShardReport
from whisper_hailo.batch.storage import Storage
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import decode

_RECENT: Final = timedelta(hours=1)
"""Runs that have written something in the last hour of the job are taken to go on."""


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a job, by its finished shards.

    Attributes:
        items: recordings of the manifest.
        failures: number of recordings by kind of failure.
        warnings: number of recordings by kind of warning.
        audio_s: seconds of audio transcribed.
        cpu_s: processor time of all runs.
        speed: seconds of audio per second of the runs that go on; 0 if unknown.
        left_s: estimated seconds to the end at that speed; `None` if unknown.
    """

    items: int
    done: int = 0
    failed: int = 0
    audio_s: float = 0.0
    cpu_s: float = 0.0
    speed: float = 0.0
    left_s: float | None = None
    failures: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)

    @property
    def remaining(self) -> int:
        """Items without a final result."""
        return self.items - self.done - self.failed

    @property
    def cpu_s_per_hour(self) -> float:
        """Processor seconds an hour of audio."""
        return 3600 * self.cpu_s / self.audio_s if self.audio_s else 0.0


@dataclass(frozen=True, slots=True)
class _RunFile:
    """What a run has written: its start, and the shards that it has done."""

    begin: datetime
    entries: tuple[RunEntry, ...]

    @property
    def end(self) -> datetime:
        return self.begin + timedelta(seconds=self.entries[-1].seconds)


def read_status(storage: Storage) -> Status:
    """Return the progress of a job, also while other runs work on it.

    Raises:
        OptionError: the folder holds no job.
    """
    facts = read_job(storage)
    if facts is None:
        raise OptionError(
            f"{storage.label} holds no job, expected a job folder; check the path"
        )
    items = sum(1 for _ in open_manifest(facts["manifest"]).rows())
    runs = _read_runs(storage)
    reports: dict[int, ShardReport] = {}
    failures: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    audio_s = 0.0
    cpu_s = 0.0
    for run in runs:
        for entry in run.entries:
            # A shard may have been done in several runs: the last knows its failures.
            reports[entry.report.shard] = entry.report
            audio_s += entry.report.audio_s
            cpu_s += entry.report.cpu_s
    for report in reports.values():
        failures.update(report.failed)
        warnings.update(report.warned)
    n_tried = sum(report.n_items for report in reports.values())
    n_failed = failures.total()
    left_s: float | None = None
    items_per_s, speed = _rates(runs)
    if items_per_s:
        left_s = round((items - n_tried) / items_per_s, 1)
    return Status(
        items=items,
        done=n_tried - n_failed,
        failed=n_failed,
        audio_s=round(audio_s, 3),
        cpu_s=round(cpu_s, 3),
        speed=round(speed, 3),
        left_s=left_s,
        failures=dict(failures),
        warnings=dict(warnings),
    )


def _read_runs(storage: Storage) -> list[_RunFile]:
    """Return what all runs have written, in the order of their starts."""
    runs = []
    for name in sorted(storage.list_names(RUNS)):
        content = storage.read(f"{RUNS}/{name}") or b""
        head, *lines = [json.loads(line) for line in content.splitlines()]
        if lines:
            entries = tuple(decode(RunEntry, line) for line in lines)
            runs.append(_RunFile(datetime.fromisoformat(head["begin"]), entries))
    return runs


def _rates(runs: list[_RunFile]) -> tuple[float, float]:
    """Return the recordings and the seconds of audio a second of the runs that go on."""
    if not runs:
        return 0.0, 0.0
    last = max(run.end for run in runs)
    items_per_s = 0.0
    speed = 0.0
    for run in runs:
        seconds = run.entries[-1].seconds
        if seconds and last - run.end < _RECENT:
            items_per_s += sum(entry.report.n_items for entry in run.entries) / seconds
            speed += sum(entry.report.audio_s for entry in run.entries) / seconds
    return items_per_s, speed


def to_metrics(status: Status, label: str) -> str:
    """Return a status as a text file for the collector of Prometheus's node exporter."""
    gauges: dict[str, Any] = {
        "items": status.items,
        "done": status.done,
        "failed": status.failed,
        "audio_seconds": status.audio_s,
        "cpu_seconds": status.cpu_s,
        "speed_ratio": status.speed,
    }
    if status.left_s is not None:
        gauges["left_seconds"] = status.left_s
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = []
    for name, value in gauges.items():
        metric = f"whisper_hailo_batch_{name}"
        lines.append(f"# TYPE {metric} gauge")
        lines.append(f'{metric}{{job="{escaped}"}} {value}')
    return "\n".join(lines) + "\n"
