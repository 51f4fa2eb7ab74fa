"""An archive by one worker, by several and on Ray: the same bytes, how long, how much memory.

    make lab NAME=cluster  # once: makes the environment that has Ray
    .venv-cluster/bin/python -m whisper_hailo_lab.experiments.archives [--hours N] [--pairs N]

A recording of hours, of the frozen clips of `micro` with silence and noise between them, goes
through every engine; then many short clips go through both engines in turns. Keeps the result,
from which `python -m whisper_hailo_lab.documents` of the usual environment makes the tables of
`docs/measurements/archives.md`.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.batch.ledger import LEDGER_FILE
from whisper_hailo.batch.tasks import GROUP_ITEMS
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.data.clips import measured_on, recordings
from whisper_hailo_lab.documents.archives import RESULT
from whisper_hailo_lab.program import description, run

_OURS: Final = "multiprocessing.spawn"
"""Stands in the command line of each worker, and in that of no process of Ray's."""


def peaks_mib(pid: int) -> dict[int, float]:
    """The most memory that each of a command's processes has had so far, in MiB.

    Args:
        pid: of the command; it counts where it has no workers.
    """
    own = list(_descendants(pid))
    workers = [one for one in own if _OURS in _read(one, "cmdline").replace("\0", " ")]
    return {one: peak for one in workers or [pid] if (peak := _peak_mib(one))}


def cpu_s(pid: int) -> dict[int, float]:
    """Seconds of the processor that a command and each of its processes took so far."""
    return {one: _cpu_s(one) for one in (pid, *_descendants(pid))}


def _descendants(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has ended meanwhile
        return
    for thread in threads:
        for child in _read(pid, f"task/{thread}/children").split():
            yield int(child)
            yield from _descendants(int(child))


def _peak_mib(pid: int) -> float:
    lines = dict(line.partition(":")[::2] for line in _read(pid, "status").splitlines())
    return int(lines.get("VmHWM", "0").split()[0]) / 1024


def _cpu_s(pid: int) -> float:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _read(pid: int, name: str) -> str:
    """A file of `/proc`; nothing of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


COMMAND: Final = (sys.executable, "-m", "whisper_hailo")
MODEL: Final = ("--model", "micro", "--language", "en", "--quiet")
ENGINES: Final = {
    "one worker": ("--workers", "1"),
    "two workers": ("--workers", "2"),
    "Ray, two workers": ("--workers", "2", "--engine", "ray"),
}
START_CLIPS: Final = 2 * GROUP_ITEMS
"""Every worker begins: what it takes to begin is no part of what many clips take."""

_LOOK_S: Final = 0.5
_NOISE: Final = 0.003
_BLOCK_S: Final = 600


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """A command that ended.

    Attributes:
        wall_s: that it took.
        driver_cpu_s: seconds of the processor that its own process took, without its children.
        cpu_s: that all of its processes took.
        worker_mib: the most memory of any process with a model.
    """

    wall_s: float
    driver_cpu_s: float
    cpu_s: float
    worker_mib: float


def write_recording(path: Path, hours: float, seed: int) -> None:
    """Write frozen clips in random order, with silence or noise between, as one WAV file."""
    import soundfile

    rng = np.random.default_rng(seed)
    clips = recordings("seen", "unseen", "noisy", "long")
    load = functools.cache(load_audio)
    left = round(3600 * hours * SAMPLE_RATE_HZ)
    with soundfile.SoundFile(path, "w", SAMPLE_RATE_HZ, 1, subtype="PCM_16") as file:
        while left > 0:
            n_gap = round(rng.uniform(0.5, 3.0) * SAMPLE_RATE_HZ)
            noise = _NOISE * rng.standard_normal(n_gap) * (rng.random() < 0.5)
            part = np.concatenate([load(clips[rng.integers(len(clips))]), noise.astype(np.float32)])
            file.write(part[:left])
            left -= part.size


def watched(*words: object, code: int = 0) -> EndedCommand:
    """Run a command of ours, and look at its processes meanwhile; it has to end with a code."""
    memory: dict[int, float] = {}
    taken: dict[int, float] = {}
    begin = time.perf_counter()
    with subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            time.sleep(_LOOK_S)
            memory |= peaks_mib(process.pid)
            # One that has ended tells of nothing any more.
            taken |= {pid: taken_s for pid, taken_s in cpu_s(process.pid).items() if taken_s}
    wall_s = time.perf_counter() - begin
    if process.returncode != code:
        raise subprocess.CalledProcessError(process.returncode, list(map(str, words)))
    most_mib = max(memory.values(), default=0.0)
    return EndedCommand(wall_s, taken[process.pid], sum(taken.values()), most_mib)


def one_long(hours: float, seed: int, work: Path) -> dict[str, Any]:
    """A recording of hours, by each engine, and by `transcribe`."""
    folder = work / "long"
    folder.mkdir()
    recording = folder / "recording.wav"
    write_recording(recording, hours, seed)
    rows, written = [], []
    for name, words in ENGINES.items():
        job = work / "job"
        ran = watched("batch", folder, "-o", job, *MODEL, *words)
        written.append((job / "transcripts" / "part-00000.jsonl").read_bytes())
        rows.append({
            "engine": name, "seconds": ran.wall_s, "worker_mib": ran.worker_mib,
            "same": written[-1] == written[0],
        })  # fmt: skip
        shutil.rmtree(job)
    ran = watched("transcribe", recording, *MODEL, "--threads", "1", "-f", "json", "-o", work)
    straight = json.loads((work / "recording.json").read_text(encoding="utf-8"))["text"].split()
    recording.unlink()
    words = json.loads(written[0])["text"].split()
    return {
        "hours": hours,
        "rows": rows,
        "transcribe": {"seconds": ran.wall_s, "mib": ran.worker_mib},
        "words": len(words),
        "words_changed": count_changed_words(straight, words),
    }


def count_changed_words(one: list[str], other: list[str]) -> int:
    """Count words of the longer of two texts that the other does not have at that place."""
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return max(len(one), len(other)) - sum(block.size for block in blocks)


def both_engines(n_clips: int, n_pairs: int, work: Path) -> None:
    """Short clips through both engines, in turns, the first of a pair being now one, now other."""
    clips = recordings("seen", "unseen", "noisy")
    few, many = work / "few.jsonl", work / "many.jsonl"
    for path, n_items in ((few, START_CLIPS), (many, n_clips)):
        items = ({"audio": str(clips[n % len(clips)]), "id": f"{n:06}"} for n in range(n_items))
        path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    names = ["two workers", "Ray, two workers"]
    pairs: list[dict[str, Any]] = []
    for number in range(n_pairs):
        turn = names if number % 2 == 0 else names[::-1]
        pairs.append({name: _through(ENGINES[name], few, many, work) for name in turn})
        _keep(clips=n_clips, pairs=pairs)


def _through(engine: tuple[str, ...], few: Path, many: Path, work: Path) -> dict[str, float]:
    """A few clips, which tell what the start takes, and many."""
    start = watched("batch", few, "-o", work / "start", *MODEL, *engine)
    ran = watched("batch", many, "-o", work / "job", *MODEL, *engine)
    told = _last_run(work / "job" / LEDGER_FILE)
    shutil.rmtree(work / "start")
    shutil.rmtree(work / "job")
    return {
        "start_clips": START_CLIPS, "start_s": start.wall_s, "seconds": ran.wall_s,
        "start_cpu_s": start.cpu_s, "cpu_s": ran.cpu_s,
        "driver_cpu_s": ran.driver_cpu_s - start.driver_cpu_s,
        "tasks": told["tasks"], "worker_s": told["worker_s"], "audio_s": told["audio_s"],
    }  # fmt: skip


def _last_run(ledger: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(ledger)) as database:
        database.row_factory = sqlite3.Row
        return dict(database.execute("SELECT * FROM runs ORDER BY begin DESC LIMIT 1").fetchone())


def scheduling(n_tasks: int, work: Path) -> dict[str, Any]:
    """Tasks of recordings that are not there: what remains is reading, Ray and the driver."""
    runs = {}
    for name, n_items in (("start", GROUP_ITEMS), ("job", n_tasks * GROUP_ITEMS)):
        items = (f'{{"audio": "none-{number:07}.wav"}}\n' for number in range(n_items))
        (work / "none.jsonl").write_text("".join(items), encoding="utf-8")
        words = (work / "none.jsonl", "-o", work / name, *MODEL, *ENGINES["Ray, two workers"])
        runs[name] = watched("batch", *words, code=ExitCode.AUDIO)
        shutil.rmtree(work / name)
    return {
        "tasks": n_tasks,
        "seconds": runs["job"].wall_s - runs["start"].wall_s,
        "driver_cpu_s": runs["job"].driver_cpu_s - runs["start"].driver_cpu_s,
    }


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--hours", type=float, default=10)
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=1000, help="with nothing to transcribe")
    parser.add_argument("--seed", type=int, default=0, help="of the long recording")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        if given.hours:
            _keep(long=one_long(given.hours, given.seed, Path(work)))
        if given.tasks:
            _keep(scheduling=scheduling(given.tasks, Path(work)))
        if given.pairs:
            both_engines(given.clips, given.pairs, Path(work))


def _keep(**parts: object) -> None:
    """Put parts in the place of those that were measured before."""
    found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    write_file(RESULT, json.dumps(found | parts | measured_on(None)) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
