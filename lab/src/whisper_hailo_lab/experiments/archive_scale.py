"""How far `batch --engine ray` goes: costs that are measured here, and a simulation with them.

    python -m whisper_hailo_lab.experiments.archive_scale [--hours N]

Measures in processor time what the driver does for each task, what a recording of the manifest
takes in its memory, how quickly recordings are read and transcribed; what Ray costs comes from
`experiments.archives`.
Then clusters of up to 1,000 nodes work on archives of up to N hours, in simulated time. Keeps the
result.
"""

from __future__ import annotations

import argparse
import json
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
from typing import Final

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
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Settings
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.pipeline import USUAL_BATCH
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.data.clips import measured_on, recordings
from whisper_hailo_lab.documents.archives import RESULT, SCALE
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run

SOUND_BYTES: Final = 4 * SAMPLE_RATE_HZ
"""Of a second of audio on its way to a worker: float32."""

RESTART_S: Final = 120.0
"""Until Ray has given a dead node's work to another one, with its model loaded."""

UNEVEN: Final = 0.2
"""Machines and tasks differ by so much, up and down."""


@dataclass(frozen=True, slots=True)
class ArchiveCosts:
    """What was measured on one machine.

    Attributes:
        dispatch_s: of the driver for each task, in Ray.
        note_s: of the driver for each task, in the job: ledger and results.
        speed: of a worker, in seconds of audio in a second.
        reading: of a reader, likewise.
        item_bytes: of a recording, in the driver's memory.
        ledger_bytes: of a task, in the ledger.
        result_bytes: of a task, in the results.
    """

    dispatch_s: float
    note_s: float
    speed: float
    reading: float
    item_bytes: float
    ledger_bytes: float
    result_bytes: float


@dataclass(frozen=True, slots=True)
class Archive:
    """Recordings of one length.

    Attributes:
        hours: of all.
        item_s: of each.
        sound_bytes: of a second, as stored: a broadcast at 64 kbit/s.
    """

    hours: float
    item_s: float = 3600.0
    sound_bytes: float = 8000.0

    @property
    def n_items(self) -> int:
        return ceil(3600 * self.hours / self.item_s)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines of one kind, and what is assumed of them.

    Attributes:
        n_nodes: of them.
        speed: of a worker, in seconds of audio in a second.
        node_workers: a worker for each core.
        node_bytes_s: of a node's network: 1 Gbit/s.
        storage_bytes_s: of the storage, to all nodes together: 40 Gbit/s.
        request_s: of the storage for each file.
        days_up: of a node until it dies, on average.
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
class Ran:
    """What came of a job.

    Attributes:
        n_tasks: that were done, those that were done twice counted once.
        seconds: that it took.
        ideal_s: that the workers alone would have taken, never waiting and never dying.
        busy: share of the time that readers, driver, storage and network were at work.
        again: tasks that were done twice, since their node died.
        restart_s: that the same command takes to fetch the ledger from a bucket, at the end.
        ledger_bytes: of the ledger, at the end.
        result_bytes: of all results.
        driver_bytes: of the driver's memory, for the recordings that it hands to Ray.
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
class _Steps:
    """Seconds that each step of a task takes, and how likely its node dies meanwhile."""

    reading: float
    fetch: float
    send: float
    work: float
    handle: float
    deadly: float

    @classmethod
    def of(cls, task_s: float, archive: Archive, cluster: Cluster, costs: ArchiveCosts) -> _Steps:
        """Of tasks of so many seconds of audio."""
        send_s = task_s * SOUND_BYTES / cluster.node_bytes_s
        work_s = task_s / cluster.speed
        return cls(
            task_s / costs.reading,
            task_s * archive.sound_bytes / cluster.storage_bytes_s,
            send_s,
            work_s,
            costs.dispatch_s + costs.note_s,
            (work_s + send_s) / (cluster.days_up * 86_400),
        )


def simulate(archive: Archive, cluster: Cluster, costs: ArchiveCosts, seed: int) -> Ran:
    """Run a job in simulated time.

    Args:
        archive: what is to be done.
        cluster: who does it.
        costs: of each step.
        seed: of all that is uneven, and of deaths.
    """
    task_s = min(archive.item_s, PIECE_S)
    n_tasks = ceil(3600 * archive.hours / task_s)
    steps = _Steps.of(task_s, archive, cluster, costs)
    end, again = _timeline(n_tasks, cluster, steps, seed)
    ledger_bytes = n_tasks * costs.ledger_bytes
    busy = {
        "readers": n_tasks * steps.reading / (cluster.n_readers * end),
        "driver": n_tasks * steps.handle / end,
        "storage": n_tasks * steps.fetch / end,
        "network": n_tasks * steps.send / (cluster.n_nodes * end),
        "workers": n_tasks * steps.work / (cluster.n_workers * end),
    }
    return Ran(
        n_tasks,
        end,
        n_tasks * steps.work / cluster.n_workers,
        busy,
        again,
        cluster.request_s + ledger_bytes / cluster.node_bytes_s,
        ledger_bytes,
        n_tasks * costs.result_bytes,
        archive.n_items * costs.item_bytes,
    )


def _timeline(n_tasks: int, cluster: Cluster, steps: _Steps, seed: int) -> tuple[float, int]:
    """When the last task is done, and how many were done twice."""
    chance = Random(seed).random  # noqa: S311 - of machines, not of keys
    readers, workers = [0.0] * cluster.n_readers, [0.0] * cluster.n_workers
    storage = driver = end = 0.0
    again = 0
    for _ in range(n_tasks):  # of millions: comparisons are quicker than calls of `max`
        reader = readers[0]
        storage = (storage if storage > reader else reader) + steps.fetch
        read = reader + steps.reading
        read = read if read > storage else storage
        heapreplace(readers, read)
        driver = (driver if driver > read else read) + steps.handle
        took_s = steps.work * (1 - UNEVEN + 2 * UNEVEN * chance()) + steps.send
        if chance() < steps.deadly:
            again += 1
            took_s += RESTART_S + steps.work * chance()
        free = workers[0]
        done = (driver if driver > free else free) + took_s
        heapreplace(workers, done)
        end = done if done > end else end
    return end, again


SEGMENT_S: Final = 8.0
TOKENS: Final = 24
"""Of a segment: three words a second."""

SIZES: Final = ((1, 1e2), (10, 1e4), (100, 1e5), (1000, 1e6))
"""Nodes, and hours of audio."""

SPEEDS: Final = (1.0, 0.1)
"""Of a worker, as a share of that of `micro`: it, and a model ten times as large."""


def driver_costs(n_items: int) -> dict[str, float]:
    """What the driver does beside Ray, in seconds of the processor and bytes."""
    items = [Candidate(Item(f"{n:08}.flac", f"/archive/{n:08}.flac")) for n in range(n_items)]
    settings = JobSettings("scale", Settings("m", "e", "d", 30.0, 1.0, 1500, 1.0, 0.0, "none", 1))
    segments = tuple(_segment(number) for number in range(round(PIECE_S / SEGMENT_S)))
    with tempfile.TemporaryDirectory() as folder:
        job = BatchJob(Path(folder), settings, items).open()
        item_bytes = _held(lambda: [pickle.dumps(group) for group in job.groups()]) / n_items
        begin = process_time()
        for group in job.groups():
            for place in range(len(group.items)):
                result = PieceResult(place, 1, PIECE_S, "en", segments)
                job.record_outcome(Outcome(group.index, place, (result,), 1.0, PIECE_S))
        task_s = (process_time() - begin) / n_items
        results = Path(folder) / "transcripts"
        result_bytes = sum(path.stat().st_size for path in results.iterdir()) / n_items
        job.close()
        ledger_bytes = (Path(folder) / LEDGER_FILE).stat().st_size / n_items
    return {
        "task_s": task_s,
        "item_bytes": item_bytes,
        "ledger_bytes": ledger_bytes,
        "result_bytes": result_bytes,
    }


def _segment(number: int) -> Segment:
    """Return a segment of random text, which a ledger packs as badly as speech."""
    tokens = tuple(Random(number).choices(range(50_000), k=TOKENS))  # noqa: S311 - no key
    text = "".join(f" w{token}" for token in tokens)
    return Segment(number * SEGMENT_S, (number + 1) * SEGMENT_S, text, tokens, -0.3, 0.1)


def _held(make: Callable[[], object]) -> int:
    """Bytes of memory of what is made."""
    tracemalloc.start()
    made = make()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del made
    return held


def reading_speed() -> float:
    """Seconds of audio that are read in a second of the processor."""
    paths = recordings("seen", "unseen", "long")
    group = Group(0, tuple(Item(path.name, str(path)) for path in paths))
    begin = process_time()
    n_s = sum(task.audio_s for task in read_tasks(group))
    return n_s / (process_time() - begin)


def working_speed() -> float:
    """Likewise, of a worker with `micro` and one thread."""
    clips = recordings("seen", "unseen")[: 4 * GROUP_ITEMS]
    group = Group(0, tuple(Item(path.name, str(path), "en") for path in clips))
    setup = Setup({"model": "micro", "threads": 1}, DecodingOptions(), batch_size=USUAL_BATCH)
    tasks = list(read_tasks(group))
    with Transcriber.from_model(**setup.model) as transcriber:
        transcribe_task(transcriber, setup, tasks[0])  # memory is taken
        begin = process_time()
        n_s = sum(transcribe_task(transcriber, setup, task).audio_s for task in tasks)
    return n_s / (process_time() - begin)


def costs_of(none: dict[str, float], driver: dict[str, float]) -> ArchiveCosts:
    """All costs.

    Args:
        none: of tasks without anything to transcribe, from `experiments.archives`.
        driver: of `driver_costs`.
    """
    return ArchiveCosts(
        dispatch_s=none["driver_cpu_s"] / none["tasks"],
        note_s=driver["task_s"],
        speed=working_speed(),
        reading=reading_speed(),
        item_bytes=driver["item_bytes"],
        ledger_bytes=driver["ledger_bytes"],
        result_bytes=driver["result_bytes"],
    )


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--hours", type=float, default=SIZES[-1][1], help="at most")
    parser.add_argument("--items", type=int, default=4096, help="of the job whose cost is measured")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    measured = json.loads(RESULT.read_text(encoding="utf-8"))
    costs = costs_of(measured["scheduling"], driver_costs(given.items))
    rows = []
    for share in SPEEDS:
        for n_nodes, hours in SIZES:
            archive = Archive(min(hours, given.hours))
            cluster = Cluster(n_nodes, speed=costs.speed * share)
            ran = simulate(archive, cluster, costs, given.seed)
            rows.append(asdict(archive) | asdict(cluster) | asdict(ran))
    keep(SCALE, measured_on(None) | {"costs": asdict(costs), "rows": rows})


if __name__ == "__main__":
    sys.exit(run(main))
