"""A job on a cluster in simulated time: storage, readers, the driver and workers, as servers.

Each task goes from the storage to the reader that is free first, to the driver, which hands tasks
out one after the other, and over the network to the worker that is free first. Nodes die now and
then, and what they were at is done again. What is not modelled: Ray's own limits of nodes and
actors, and back-pressure, which changes who waits but not how many tasks an hour go through the
narrowest place.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace
from math import ceil
from random import Random
from typing import Final

from whisper_hailo.batch.cluster import WORKERS_PER_READER
from whisper_hailo.batch.records import PIECE_S
from whisper_hailo.core.types import SAMPLE_RATE_HZ

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
