"""How far `batch` scales: archives of up to ten million recordings without a model, and a cluster.

    python -m whisper_hailo_lab.experiments.archive_scale [--items N,N,...] [--nodes N]

Writes manifests and measures, each in a fresh process, what happens besides transcribing: the time
to the first recording, the time to find what is left of a job that is done to 90 %, the most
memory, and what a shard costs. Then a cluster whose nodes die transcribes 100,000 hours in
simulated time with these costs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from heapq import heapreplace
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

from whisper_hailo.batch.job import Job
from whisper_hailo.batch.records import JobSettings
from whisper_hailo.batch.run_log import RunLog
from whisper_hailo.batch.shard_work import TRANSCRIPTS, ShardWork, part_name
from whisper_hailo.batch.shards import DEFAULT_ITEMS, SHARD_S, Share
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.tasks import Outcome, PieceResult
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import Segment, Settings
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.tables import Table, make_table

SETTINGS: Final = JobSettings(
    "scale", Settings("m", "e", "d", 30.0, 1.0, 1500, 1.0, 0.0, "none", 1)
)

SEGMENT_S: Final = 8.0
TOKENS: Final = 24
"""Tokens of a segment: three words a second."""

RESTART_S: Final = 120.0
"""Seconds until a dead node's shard is begun by another, with its model loaded."""

UNEVEN: Final = 0.2
"""Relative spread of machines and shards, up and down."""

HOURS: Final = 100_000
SPEED: Final = 33.0
"""Seconds of audio that a worker transcribes in a second: `base` on a core with VNNI."""


@dataclass(frozen=True, slots=True)
class ManifestCosts:
    """What a manifest costs, in processor seconds and bytes.

    Attributes:
        first_s: to the first recording of a new job.
        last_share_s: to the first recording of the last of 400 processes.
        resume_s: to the first recording of a job that is done to 90 %.
        peak_mib: most memory of the process.
        manifest_bytes: of the manifest.
    """

    n_items: int
    first_s: float
    last_share_s: float
    resume_s: float
    peak_mib: float
    manifest_bytes: int


def write_manifest(path: Path, n_items: int) -> None:
    """Write a manifest without durations."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_items):
            file.write(f'{{"audio": "/archive/{number:08}.flac", "show": "news"}}\n')


def measure_manifest(folder: Path, n_items: int) -> ManifestCosts:
    """Measure a manifest of so many recordings in this process."""
    manifest = folder / "archive.jsonl"
    write_manifest(manifest, n_items)
    first_s = _time_to_first(folder / "new", manifest, Share())
    last_share_s = _time_to_first(folder / "new", manifest, Share(399, 400))
    done = folder / "done" / TRANSCRIPTS
    done.mkdir(parents=True)
    for number in range(n_items // DEFAULT_ITEMS * 9 // 10):
        (done / part_name(number)).touch()
    return ManifestCosts(
        n_items=n_items,
        first_s=first_s,
        last_share_s=last_share_s,
        resume_s=_time_to_first(folder / "done", manifest, Share()),
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        manifest_bytes=manifest.stat().st_size,
    )


def _time_to_first(folder: Path, manifest: Path, share: Share) -> float:
    begin_s = process_time()
    with Job(Storage(str(folder)), SETTINGS, [str(manifest)], share) as job:
        next(job.shards(), None)
    return round(process_time() - begin_s, 3)


@dataclass(frozen=True, slots=True)
class ShardCosts:
    """What a shard of an hour costs besides reading and transcribing.

    Attributes:
        cpu_s: processor time of its process.
        result_bytes: of its results; `disk_bytes`: of all that is left of it on disk.
    """

    cpu_s: float
    result_bytes: float
    disk_bytes: float


def measure_shards(folder: Path, n_shards: int) -> ShardCosts:
    """Run shards of an hour with a model that has the text at once."""
    manifest = folder / "archive.jsonl"
    write_manifest(manifest, n_shards * 12)
    storage = Storage(str(folder / "job"))
    settings = JobSettings("scale", SETTINGS.settings, n_items=12)
    log = RunLog(storage)
    outcomes = [_make_outcome(index) for index in range(12)]
    begin_s = process_time()
    with Job(storage, settings, [str(manifest)]) as job:
        for shard in job.shards():
            with ShardWork(storage, settings, shard) as work:
                for outcome in outcomes:
                    work.record(outcome)
                log.write(work.finish())
    cpu_s = process_time() - begin_s
    files = [path for path in (folder / "job").rglob("*") if path.is_file()]
    results = [path for path in files if path.parent.name == TRANSCRIPTS]
    return ShardCosts(
        cpu_s=round(cpu_s / n_shards, 5),
        result_bytes=sum(path.stat().st_size for path in results) / n_shards,
        disk_bytes=sum(path.stat().st_size for path in files) / n_shards,
    )


def _make_outcome(index: int) -> Outcome:
    """Return five minutes of random text, which is as long as speech."""
    n_segments = round(300 / SEGMENT_S)
    segments = tuple(_make_segment(number) for number in range(n_segments))
    return Outcome(0, (PieceResult(index, 0.0, 1, 300.0, "en", segments),), 1.0, 300.0)


def _make_segment(number: int) -> Segment:
    tokens = tuple(Random(number).choices(range(50_000), k=TOKENS))  # noqa: S311 - no key
    text = "".join(f" w{token}" for token in tokens)
    start_s = number * SEGMENT_S
    return Segment(start_s, start_s + SEGMENT_S, text, tokens, -0.3, 0.1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines of one kind, with assumptions about them.

    Attributes:
        n_nodes: number of machines.
        node_workers: workers of a node, one per core.
        speed: seconds of audio that a worker transcribes in a second.
        days_up: mean time until a node dies: spot machines.
    """

    n_nodes: int
    node_workers: int = 4
    speed: float = SPEED
    days_up: float = 1.0

    @property
    def n_workers(self) -> int:
        """Workers of all nodes."""
        return self.n_nodes * self.node_workers


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Outcome of a simulated job.

    Attributes:
        seconds: duration.
        busy: share of the workers' time that became results, up to the last shard.
        busy_full: the same until no shard was left to be handed out.
        again: shards that were begun twice, since their node died.
    """

    n_shards: int
    seconds: float
    busy: float
    busy_full: float
    again: int


def simulate_job(
    hours: int, cluster: Cluster, costs: ShardCosts, seed: int
) -> JobOutcome:
    """Run a job of shards of an hour in simulated time; each worker takes the next shard."""
    chance = Random(seed).random  # noqa: S311 - of machines, not of keys
    work_s = SHARD_S / cluster.speed + costs.cpu_s
    death = work_s / (cluster.days_up * 86_400)
    workers = [0.0] * cluster.n_workers
    useful_s = 0.0
    end_s = 0.0
    again = 0
    for _ in range(hours):
        took_s = work_s * (1 - UNEVEN + 2 * UNEVEN * chance())
        useful_s += took_s - costs.cpu_s
        if chance() < death:
            again += 1
            took_s += RESTART_S + took_s * chance()
        done_s = workers[0] + took_s
        heapreplace(workers, done_s)
        end_s = max(end_s, done_s)
    busy = useful_s / (cluster.n_workers * end_s)
    full_s = sum(workers)
    return JobOutcome(hours, end_s, busy, useful_s / full_s, again)


def manifest_table(rows: list[dict[str, Any]]) -> Table:
    """Return what manifests cost."""
    return make_table(
        rows,
        (
            ("recordings", "{n_items:,}"),
            ("first recording, s", "{first_s:.1f}"),
            ("share 400 of 400, s", "{last_share_s:.1f}"),
            ("resumed at 90 %, s", "{resume_s:.1f}"),
            ("most memory, MiB", "{peak_mib:.0f}"),
        ),
    )


def cluster_table(rows: list[dict[str, Any]]) -> Table:
    """Return the simulated jobs."""
    return make_table(
        rows,
        (
            ("nodes", "{n_nodes:,}"),
            ("hours", "{n_shards:,}"),
            ("takes, h", lambda row: f"{row['seconds'] / 3600:,.1f}"),
            ("workers at work", "{busy:.1%}"),
            ("until the last shard is begun", "{busy_full:.1%}"),
            ("shards begun twice", "{again:,}"),
        ),
    )


def _measure_apart(n_items: int) -> dict[str, Any]:
    """Measure a manifest in a process of its own, whose memory is of nothing else."""
    command = [sys.executable, "-m", __spec__.name, "--one", str(n_items)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--items", default="10000,100000,1000000,10000000")
    parser.add_argument("--nodes", default="1,10,100")
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.one is not None:
            costs = measure_manifest(Path(folder), arguments.one)
            emit(json.dumps(asdict(costs)))
            return
        shard_costs = measure_shards(Path(folder), arguments.shards)
    manifests = [_measure_apart(int(text)) for text in arguments.items.split(",")]
    clusters = []
    for text in arguments.nodes.split(","):
        cluster = Cluster(int(text))
        outcome = simulate_job(HOURS, cluster, shard_costs, seed=0)
        clusters.append(asdict(cluster) | asdict(outcome))
    emit(manifest_table(manifests).markdown())
    emit(
        f"a shard of an hour: {1000 * shard_costs.cpu_s:.0f} ms of processor time, "
        f"{shard_costs.result_bytes / 1024:.0f} KiB of results, "
        f"{shard_costs.disk_bytes / 1024:.0f} KiB on disk\n"
    )
    emit(cluster_table(clusters).markdown())


if __name__ == "__main__":
    sys.exit(run_program(main))
