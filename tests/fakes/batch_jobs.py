"""Jobs of toy recordings, workers that hear their names, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from whisper_hailo.batch import run as run_module
from whisper_hailo.batch.fetching import Fetcher
from whisper_hailo.batch.job import Job
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.records import JobSettings
from whisper_hailo.batch.run import Progress, ShardRunner
from whisper_hailo.batch.shards import Share
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.tasks import Failure, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import Setup
from whisper_hailo.core.types import Segment, Settings, Word
from whisper_hailo.decoding.options import DecodingOptions

SETTINGS: Final = Settings(
    "toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1
)
JOB: Final = JobSettings("micro, greedy", SETTINGS, formats=("txt",), n_items=4)
SETUP: Final = Setup({"model": "micro"}, DecodingOptions())


class Stopped(Exception):  # noqa: N818 - no error, but the end of a process
    """Where a run is killed."""


class World:
    """What workers do with recordings.

    Attributes:
        failures: of recordings, by their id.
        warnings: of recordings, by their id.
        n_left: tasks before the process is killed; `None`: it is not.
        heard: ids of the recordings that workers were given.
    """

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        self.warnings: dict[str, tuple[str, ...]] = {}
        self.n_left: int | None = None
        self.heard: list[str] = []

    def read(
        self,
        shard: int,
        items: list[tuple[int, Item]],
        done: set[Any],
        fetcher: Fetcher,
    ) -> Iterator[Task]:
        """Two pieces a task; recordings with an even number have two pieces."""
        del fetcher
        pieces = [piece for index, item in items for piece in self._pieces(index, item)]
        for start in range(0, len(pieces), 2):
            task = Task(shard, tuple(pieces[start : start + 2]))
            if task.key not in done:
                yield task

    def _pieces(self, index: int, item: Item) -> list[Piece]:
        warnings = self.warnings.get(item.id, ())
        failure = self.failures.get(item.id)
        if failure is not None:
            return [Piece(index, 0.0, 1, failure=failure)]
        if len(item.id) % 2:
            return [Piece(index, 0.0, 1, language=item.id, warnings=warnings)]
        return [
            Piece(index, 0.0, 0, language=item.id),
            Piece(index, 1.0, 2, language=item.id, warnings=warnings),
        ]

    def do(self, task: Task) -> Outcome:
        """Hear the id of each recording."""
        if self.n_left is not None:
            if self.n_left == 0:
                raise Stopped
            self.n_left -= 1
        results = []
        for piece in task.pieces:
            text = (piece.language or "").encode(errors="replace").decode()
            segments: tuple[Segment, ...] = ()
            if piece.failure is None:
                self.heard.append(text)
                segments = (segment(text, piece.start_s),)
            results.append(
                PieceResult(
                    item=piece.item,
                    start_s=piece.start_s,
                    n_pieces=piece.n_pieces,
                    end_s=piece.start_s + 1.0,
                    language="en",
                    segments=segments,
                    warnings=piece.warnings,
                    failure=piece.failure,
                )
            )
        return Outcome(task.shard, tuple(results), 0.5, 8.0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()

    class Worker:
        def __init__(self, setup: object) -> None:
            assert setup == SETUP

        do = staticmethod(made.do)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(run_module, "Worker", Worker)
    monkeypatch.setattr(run_module, "read_tasks", made.read)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return made


def write_manifest(folder: Path, ids: list[str]) -> str:
    path = folder / "archive.txt"
    path.write_text("".join(f"/{name}.wav\n" for name in ids))
    return str(path)


def run_job(
    folder: str | Path,
    *words: str,
    settings: JobSettings = JOB,
    share: Share | None = None,
    n_workers: int = 1,
) -> Progress:
    """Run a job to its end."""
    progress = Progress()
    with (
        Job(Storage(str(folder)), settings, words, share) as job,
        ShardRunner(job.storage, job.settings, SETUP, n_workers) as runner,
    ):
        for _ in runner.run(job.shards(), progress):
            pass
    return progress


def results(folder: Path) -> dict[str, bytes]:
    """All files of a job but those of its runs."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in paths}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith(("runs", ".lock"))
    }


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def segment(text: str, start_s: float = 0.0) -> Segment:
    """A second of speech with a word, heard in a window that begins with it."""
    word = Word(start_s + 0.25, start_s + 0.5, text, 0.9, (1,))
    return Segment(
        start_s,
        start_s + 1.0,
        text,
        (1, 2),
        -0.1,
        0.0,
        words=(word,),
        window_start_s=start_s,
    )
