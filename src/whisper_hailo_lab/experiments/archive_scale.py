"""How far `batch --engine ray` goes: costs that are measured here, and a simulation with them.

    python -m whisper_hailo_lab.experiments.archive_scale [--hours N]

Measures in processor time what the driver does for each task, what a recording of the manifest
takes in its memory, how quickly recordings are read and transcribed; what Ray costs comes from
`experiments.archives`.
Then clusters of up to 1,000 nodes work on archives of up to N hours, in simulated time. Keeps the
result, from which a table of `docs/cluster.md` follows.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import process_time
from typing import Final

from whisper_hailo.batch.job import BatchJob, JobSettings
from whisper_hailo.batch.manifest import Candidate
from whisper_hailo.batch.pieces import audio_s, tasks_of
from whisper_hailo.batch.records import MOST_PIECES, PIECE_S, Group, Item, Outcome, PieceResult
from whisper_hailo.batch.store import LEDGER_FILE, Folder
from whisper_hailo.batch.worker import BatchWorker, Setup
from whisper_hailo.core.types import Segment, Settings
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.batch_size import USUAL_BATCH
from whisper_hailo_lab.data.clips import measured_on, recordings
from whisper_hailo_lab.documents.archives import RESULT, SCALE
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.experiments.archive_model import Archive, ArchiveCosts, Cluster, simulate
from whisper_hailo_lab.program import description, run

SEGMENT_S: Final = 8.0
TOKENS: Final = 24
"""Of a segment: three words a second."""

SIZES: Final = ((1, 1e2), (10, 1e4), (100, 1e5), (1000, 1e6))
"""Nodes, and hours of audio."""

SPEEDS: Final = (1.0, 0.1)
"""Of a worker, as a share of that of `micro`: it, and a model ten times as large."""


def driver_costs(n_items: int) -> dict[str, float]:
    """What the driver does beside Ray, in seconds of the processor and bytes."""
    items = [Candidate(Item(f"{n:08}.flac", f"s3://archive/{n:08}.flac")) for n in range(n_items)]
    settings = JobSettings("scale", Settings("m", "e", "d", 30.0, 1.0, 1500, 1.0, 0.0, "none", 1))
    segments = tuple(_segment(number) for number in range(round(PIECE_S / SEGMENT_S)))
    with tempfile.TemporaryDirectory() as folder:
        job = BatchJob(Folder(Path(folder)), settings, items).open()
        item_bytes = _held(lambda: [pickle.dumps(group) for group in job.groups()]) / n_items
        begin = process_time()
        for group in job.groups():
            last = len(group.items) - 1
            for place in range(len(group.items)):
                result = PieceResult(place, PIECE_S, "en", segments)
                job.take(Outcome(group.index, place, place == last, (result,), 1.0, PIECE_S))
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
    n_s = sum(map(audio_s, tasks_of(group)))
    return n_s / (process_time() - begin)


def working_speed() -> float:
    """Likewise, of a worker with `micro` and one thread."""
    clips = recordings("seen", "unseen")[: 2 * MOST_PIECES]
    group = Group(0, tuple(Item(path.name, str(path), "en") for path in clips))
    setup = Setup({"model": "micro", "threads": 1}, DecodingOptions(), batch_size=USUAL_BATCH)
    tasks = list(tasks_of(group))
    with BatchWorker(setup) as worker:
        worker.do(tasks[0])  # memory is taken
        begin = process_time()
        n_s = sum(worker.do(task).audio_s for task in tasks)
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
