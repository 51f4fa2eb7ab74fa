"""What `batch` is tried with: a model and workers that are stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.batch_jobs import segment
from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.batch import run as run_module
from whisper_hailo.batch.cluster import RayCluster
from whisper_hailo.batch.job import Job
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.tasks import Failure, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import Setup
from whisper_hailo.cli.app import run
from whisper_hailo.cli.commands import batch as module
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.types import Settings
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions

SETTINGS = Settings("toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1)


@dataclass
class Model(Listener):
    """Stands for the transcriber that the command asks before there are workers."""

    encoder: Any = field(default_factory=lambda: SimpleNamespace(name="onnx-fp32"))
    asked_of: list[Any] = field(default_factory=list)
    refusal: Exception | None = None

    def check(self, options: DecodingOptions, long: LongOptions) -> None:
        if self.refusal is not None:
            raise self.refusal

    def identity(self, *given: Any) -> str:
        self.asked_of.append(given)
        return str(given)

    def settings(self, *given: Any) -> Settings:
        assert given == self.asked_of[-1]
        return SETTINGS


@dataclass
class Works:
    """What the workers were asked, and what they do.

    Attributes:
        asked: setup and number of workers of each run.
        items: of each run, in order.
        failing: names of recordings that cannot be heard.
        between: called behind each item.
    """

    model: Model = field(default_factory=Model)
    models: list[ModelOptions] = field(default_factory=list)
    asked: list[tuple[Setup, int]] = field(default_factory=list)
    rayed: list[tuple[Any, ...]] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    between: Callable[[], None] = lambda: None

    def tasks(
        self, shard: int, items: list[tuple[int, Item]], *_: object
    ) -> Iterator[Task]:
        for place, item in items:
            self.items.append(Path(item.audio).name)
            yield Task(shard, (Piece(place, 0.0, 1, language=item.audio),))

    def do(self, task: Task) -> Outcome:
        (piece,) = task.pieces
        kind = self.failing.get(Path(piece.language or "").name)
        result = PieceResult(piece.item, 0.0, 1, 30.0, "en", (segment("said"),))
        if kind is not None:
            failure = Failure(kind, "AudioError", "bad")
            result = PieceResult(piece.item, 0.0, 1, 0.0, failure=failure)
        return Outcome(task.shard, (result,), 1.0, 30.0 * (kind is None))


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Works:
    found = Works()

    class Worker:
        do = staticmethod(found.do)

        def __init__(self, _: Setup) -> None:
            pass

        def stop(self) -> None:
            pass

    class Runner(run_module.ShardRunner):
        def __init__(self, storage: Any, settings: Any, setup: Setup, n: int) -> None:
            found.asked.append((setup, n))
            super().__init__(storage, settings, setup, min(n, 1))

        def run(self, *given: Any) -> Iterator[Any]:
            for report in super().run(*given):
                yield report
                found.between()

    def transcriber(self: ModelOptions) -> Model:
        found.models.append(self)
        return found.model

    def ray(
        cluster: RayCluster, job: Job, setup: Setup, shards: Any, progress: Any
    ) -> Iterator[Any]:
        found.rayed.append((setup, cluster.address, cluster.n_workers))
        with RUNNER(job.storage, job.settings, setup, 1) as runner:
            yield from runner.run(shards, progress)

    monkeypatch.setattr(ModelOptions, "transcriber", transcriber)
    monkeypatch.setattr(run_module, "Worker", Worker)
    monkeypatch.setattr(run_module, "ShardRunner", Runner)
    monkeypatch.setattr(run_module, "read_tasks", found.tasks)
    monkeypatch.setattr("whisper_hailo.batch.cluster.run_on_ray", ray)
    monkeypatch.setattr(module, "require_extra", lambda *_: None)
    monkeypatch.setattr(module, "available_cores", lambda: 5)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talks").mkdir()
    for name in ("a.wav", "b.wav", "c.wav"):
        (tmp_path / "talks" / name).write_text("some sound")
    return found


RUNNER = run_module.ShardRunner
"""The real one, also while the fixture has another in its place."""


def batch(words: str = "") -> int:
    return run(["batch", "talks", "-o", "job", *words.split()])
