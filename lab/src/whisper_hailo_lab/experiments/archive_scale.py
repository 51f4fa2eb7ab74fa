"""How far `batch --engine ray` scales: measured costs, and a simulation with them.

    python -m whisper_hailo_lab.experiments.archive_scale [--hours N]

Measures in processor time what the driver does for each task, the driver's memory per recording,
and how fast recordings are read and transcribed; Ray's own cost comes from the kept result
`archives.json`. Then clusters of up to 1,000 nodes process archives of up to N hours in simulated
time. Prints both tables and keeps the result.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from heapq import heapreplace
from math import ceil
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

from whisper_hailo.batch.cluster import WORKERS_PER_READER
from whisper_hailo.batch.job import BatchJob, JobSettings
from whisper_hailo.batch.ledger import LEDGER_FILE
from whisper_hailo.batch.manifest import Candidate, Item
from whisper_hailo.batch.tasks import (
    GROUP_ITEMS,
    PIECE_S,
    Group,
    Outcome,
    PieceResult,
    read_tasks,
)
from whisper_hailo.batch.workers import Setup, transcribe_task
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Settings
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.pipeline import USUAL_BATCH
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.data.clips import find_clips
from whisper_hailo_lab.documents.archives import ARCHIVES
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.results import describe_run, read_result, write_result
from whisper_hailo_lab.tables import Table, make_table

RESULT: Final = RESULTS / "archive_scale.json"

SOUND_BYTES: Final = 4 * SAMPLE_RATE_HZ
"""Bytes of a second of audio that is sent to a worker: float32."""

RESTART_S: Final = 120.0
"""Seconds until Ray has given a dead node's work to another node, with its model loaded."""

UNEVEN: Final = 0.2
"""Relative spread of machines and tasks, up and down."""

_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class ArchiveCosts:
    """Costs that were measured on one machine.

    Attributes:
        dispatch_s: driver time per task in Ray.
        note_s: driver time per task in the job: ledger and results.
        speed: seconds of audio that a worker transcribes in a second.
        reading: seconds of audio that a reader reads in a second.
        item_bytes: driver memory per recording.
        ledger_bytes: bytes of the ledger per task.
        result_bytes: bytes of the results per task.
    """

    dispatch_s: float
    note_s: float
    speed: float
    reading: float
    item_bytes: float
    ledger_bytes: float
    result_bytes: float

    @property
    def handle_s(self) -> float:
        """Driver time per task."""
        return self.dispatch_s + self.note_s


@dataclass(frozen=True, slots=True)
class Archive:
    """Recordings of one length.

    Attributes:
        hours: length of all recordings.
        item_s: length of each.
        sound_bytes: stored bytes of a second: a broadcast at 64 kbit/s.
    """

    hours: float
    item_s: float = 3600.0
    sound_bytes: float = 8000.0

    @property
    def n_items(self) -> int:
        return ceil(3600 * self.hours / self.item_s)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines of one kind, with assumptions about them.

    Attributes:
        n_nodes: number of machines.
        speed: seconds of audio that a worker transcribes in a second.
        node_workers: workers of a node, one per core.
        node_bytes_s: network of a node: 1 Gbit/s.
        storage_bytes_s: bandwidth of the storage to all nodes together: 40 Gbit/s.
        request_s: time of the storage per file.
        days_up: mean time until a node dies.
    """

    n_nodes: int
    speed: float
    node_workers: int = 4
    node_bytes_s: float = 1.25e8
    storage_bytes_s: float = 5e9
    request_s: float = 0.03
    days_up: float = 30.0

    @property
    def n_workers(self) -> int:
        return self.n_nodes * self.node_workers

    @property
    def n_readers(self) -> int:
        return 1 + self.n_workers // WORKERS_PER_READER


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Outcome of a simulated job.

    Attributes:
        n_tasks: finished tasks, each counted once.
        seconds: duration.
        ideal_s: duration if workers alone counted, without waits and deaths.
        busy: share of the time in which readers, driver, storage, network and workers work.
        again: tasks that were done twice, since their node died.
        restart_s: time of the same command to fetch the ledger from a bucket, at the end.
        ledger_bytes: size of the ledger, at the end.
        result_bytes: size of all results.
        driver_bytes: driver memory for the recordings that it hands to Ray.
    """

    n_tasks: int
    seconds: float
    ideal_s: float
    busy: dict[str, float]
    again: int
    restart_s: float
    ledger_bytes: float
    result_bytes: float
    driver_bytes: float


@dataclass(frozen=True, slots=True)
class _TaskTimes:
    """Seconds of each step of a task, and the probability that its node dies meanwhile."""

    reading: float
    fetch: float
    send: float
    work: float
    handle: float
    death: float

    @classmethod
    def make(
        cls,
        task_s: float,
        archive: Archive,
        cluster: Cluster,
        costs: ArchiveCosts,
    ) -> _TaskTimes:
        """Return the times of tasks of some seconds of audio."""
        send_s = task_s * SOUND_BYTES / cluster.node_bytes_s
        work_s = task_s / cluster.speed
        return cls(
            reading=task_s / costs.reading,
            fetch=task_s * archive.sound_bytes / cluster.storage_bytes_s,
            send=send_s,
            work=work_s,
            handle=costs.handle_s,
            death=(work_s + send_s) / (cluster.days_up * 86_400),
        )


def simulate_job(
    archive: Archive,
    cluster: Cluster,
    costs: ArchiveCosts,
    seed: int,
) -> JobOutcome:
    """Run a job in simulated time.

    Args:
        archive: recordings.
        cluster: machines.
        costs: costs of each step.
        seed: seed of uneven times and of deaths.
    """
    task_s = min(archive.item_s, PIECE_S)
    n_tasks = ceil(3600 * archive.hours / task_s)
    times = _TaskTimes.make(task_s, archive, cluster, costs)
    end_s, again = _run_tasks(n_tasks, cluster, times, seed)
    ledger_bytes = n_tasks * costs.ledger_bytes
    busy = {
        "readers": n_tasks * times.reading / (cluster.n_readers * end_s),
        "driver": n_tasks * times.handle / end_s,
        "storage": n_tasks * times.fetch / end_s,
        "network": n_tasks * times.send / (cluster.n_nodes * end_s),
        "workers": n_tasks * times.work / (cluster.n_workers * end_s),
    }
    return JobOutcome(
        n_tasks=n_tasks,
        seconds=end_s,
        ideal_s=n_tasks * times.work / cluster.n_workers,
        busy=busy,
        again=again,
        restart_s=cluster.request_s + ledger_bytes / cluster.node_bytes_s,
        ledger_bytes=ledger_bytes,
        result_bytes=n_tasks * costs.result_bytes,
        driver_bytes=archive.n_items * costs.item_bytes,
    )


def _run_tasks(
    n_tasks: int,
    cluster: Cluster,
    times: _TaskTimes,
    seed: int,
) -> tuple[float, int]:
    """Return when the last task is done, and how many were done twice."""
    chance = Random(seed).random  # noqa: S311 - of machines, not of keys
    readers = [0.0] * cluster.n_readers
    workers = [0.0] * cluster.n_workers
    storage = driver = end = 0.0
    again = 0
    # There are millions of tasks: conditional expressions are faster than calls of `max`.
    for _ in range(n_tasks):
        reader = readers[0]
        storage = (storage if storage > reader else reader) + times.fetch
        read = reader + times.reading
        read = read if read > storage else storage
        heapreplace(readers, read)
        driver = (driver if driver > read else read) + times.handle
        took_s = times.work * (1 - UNEVEN + 2 * UNEVEN * chance()) + times.send
        if chance() < times.death:
            again += 1
            took_s += RESTART_S + times.work * chance()
        free = workers[0]
        done = (driver if driver > free else free) + took_s
        heapreplace(workers, done)
        end = done if done > end else end
    return end, again


SEGMENT_S: Final = 8.0
TOKENS: Final = 24
"""Tokens of a segment: three words a second."""

SIZES: Final = ((1, 1e2), (10, 1e4), (100, 1e5), (1000, 1e6))
"""Nodes, and hours of audio."""

SPEEDS: Final = (1.0, 0.1)
"""Speed of a worker relative to `micro`: `micro`, and a model ten times as large."""


def measure_driver(n_items: int) -> dict[str, float]:
    """Return what the driver does besides Ray, in processor seconds and bytes."""
    names = [f"{number:08}.flac" for number in range(n_items)]
    items = [Candidate(Item(name, f"/archive/{name}")) for name in names]
    settings = JobSettings(
        "scale",
        Settings(
            "m",
            "e",
            "d",
            30.0,
            1.0,
            1500,
            1.0,
            0.0,
            "none",
            1,
        ),
    )
    segments = tuple(
        _make_segment(number) for number in range(round(PIECE_S / SEGMENT_S))
    )
    with tempfile.TemporaryDirectory() as folder:
        job = BatchJob(Path(folder), settings, items).open()
        held = _allocated_bytes(lambda: [pickle.dumps(group) for group in job.groups()])
        begin_s = process_time()
        for group in job.groups():
            for index in range(len(group.items)):
                piece = PieceResult(index, 1, PIECE_S, "en", segments)
                job.record_outcome(Outcome(group.index, index, (piece,), 1.0, PIECE_S))
        task_s = (process_time() - begin_s) / n_items
        results = Path(folder) / "transcripts"
        result_bytes = sum(path.stat().st_size for path in results.iterdir()) / n_items
        job.close()
        ledger_bytes = (Path(folder) / LEDGER_FILE).stat().st_size / n_items
    return {
        "task_s": task_s,
        "item_bytes": held / n_items,
        "ledger_bytes": ledger_bytes,
        "result_bytes": result_bytes,
    }


def _make_segment(number: int) -> Segment:
    """Return a segment of random text, which compresses as badly as speech."""
    tokens = tuple(Random(number).choices(range(50_000), k=TOKENS))  # noqa: S311 - no key
    text = "".join(f" w{token}" for token in tokens)
    return Segment(
        number * SEGMENT_S,
        (number + 1) * SEGMENT_S,
        text,
        tokens,
        -0.3,
        0.1,
    )


def _allocated_bytes(make: Callable[[], object]) -> int:
    """Return the memory of what a function makes, in bytes."""
    tracemalloc.start()
    made = make()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del made
    return held


def measure_reading() -> float:
    """Return the seconds of audio that are read in a processor second."""
    paths = find_clips("seen", "unseen", "long")
    group = Group(0, tuple(Item(path.name, str(path)) for path in paths))
    begin_s = process_time()
    audio_s = sum(task.audio_s for task in read_tasks(group))
    return audio_s / (process_time() - begin_s)


def measure_working() -> float:
    """Return the seconds of audio that a worker with `micro` transcribes in a processor second."""
    clips = find_clips("seen", "unseen")[: 4 * GROUP_ITEMS]
    group = Group(0, tuple(Item(path.name, str(path), "en") for path in clips))
    setup = Setup(
        {"model": "micro", "threads": 1}, DecodingOptions(), batch_size=USUAL_BATCH
    )
    tasks = list(read_tasks(group))
    with Transcriber.from_model(**setup.model) as transcriber:
        transcribe_task(transcriber, setup, tasks[0])  # allocates memory
        begin_s = process_time()
        audio_s = sum(
            transcribe_task(transcriber, setup, task).audio_s for task in tasks
        )
    return audio_s / (process_time() - begin_s)


def measure_costs(n_items: int) -> ArchiveCosts:
    """Measure all costs but Ray's, which are kept.

    Args:
        n_items: recordings of the job whose driver is measured.
    """
    scheduling = read_result(ARCHIVES)["scheduling"]
    driver = measure_driver(n_items)
    return ArchiveCosts(
        dispatch_s=scheduling["driver_cpu_s"] / scheduling["tasks"],
        note_s=driver["task_s"],
        speed=measure_working(),
        reading=measure_reading(),
        item_bytes=driver["item_bytes"],
        ledger_bytes=driver["ledger_bytes"],
        result_bytes=driver["result_bytes"],
    )


def cost_table(costs: ArchiveCosts) -> Table:
    """Return what was measured."""
    rows = (
        ("a worker with `micro`", f"{costs.speed:.0f} x real time"),
        ("a reader", f"{costs.reading:.0f} x real time"),
        ("the driver, in Ray", f"{1000 * costs.dispatch_s:.0f} ms a task"),
        ("the driver, ledger and results", f"{1000 * costs.note_s:.1f} ms a task"),
        ("the driver's memory", f"{costs.item_bytes:.0f} bytes a recording"),
        ("the ledger", f"{costs.ledger_bytes / 1024:.1f} KiB a task"),
        ("results", f"{costs.result_bytes / 1024:.0f} KiB a task"),
        ("tasks of the driver", f"{1 / costs.handle_s:.0f} a second"),
        (
            "workers that it keeps busy",
            f"{PIECE_S / costs.handle_s / costs.speed:,.0f}",
        ),
    )
    return make_table(rows, (("what", "{0}"), ("measured", "{1}")))


def job_table(rows: list[dict[str, Any]]) -> Table:
    """Return the simulated jobs."""
    return make_table(
        rows,
        (
            ("nodes", "{n_nodes:,}"),
            ("hours", "{hours:,.0f}"),
            ("a worker, x real time", "{speed:.0f}"),
            ("tasks", "{n_tasks:,}"),
            ("takes, h", lambda row: f"{row['seconds'] / 3600:,.1f}"),
            ("workers at work", "{busy.workers:.0%}"),
            ("narrowest", _describe_bottleneck),
            ("done twice", "{again:,}"),
            ("driver, GiB", lambda row: f"{row['driver_bytes'] / _GIB:.1f}"),
            ("restart, s", "{restart_s:.0f}"),
        ),
    )


def _describe_bottleneck(row: dict[str, Any]) -> str:
    busy: dict[str, float] = row["busy"]
    name = max(busy, key=busy.__getitem__)
    return f"{name}, {100 * busy[name]:.0f} %"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument(
        "--hours",
        type=float,
        default=SIZES[-1][1],
        help="at most",
    )
    parser.add_argument(
        "--items", type=int, default=4096, help="of the job whose cost is measured"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    costs = measure_costs(arguments.items)
    emit(f"{cost_table(costs).plain()}\n")
    rows = []
    for share in SPEEDS:
        for n_nodes, hours in SIZES:
            archive = Archive(min(hours, arguments.hours))
            cluster = Cluster(n_nodes, speed=costs.speed * share)
            outcome = simulate_job(archive, cluster, costs, arguments.seed)
            rows.append(asdict(archive) | asdict(cluster) | asdict(outcome))
    emit(job_table(rows).plain())
    write_result(RESULT, describe_run(None) | {"costs": asdict(costs), "rows": rows})


if __name__ == "__main__":
    sys.exit(run_program(main))
