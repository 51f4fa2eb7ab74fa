"""What `batch` is tried with: a model and workers that are stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.batch.made_up import segment
from tests.unit.cli.commands.test_transcribe_options import Listener
from whisper_hailo.batch.tasks import Failure, Group, Outcome, PieceResult
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

    def outcomes(self, groups: Iterable[Group]) -> Iterator[Outcome]:
        for group in groups:
            for at, item in enumerate(group.items):
                if at in group.done:
                    continue
                self.items.append(Path(item.audio).name)
                kind = self.failing.get(Path(item.audio).name)
                if kind is None:
                    result = PieceResult(at, 1, 30.0, "en", (segment(f"said {at}"),))
                else:
                    result = PieceResult(at, 1, 0.0, failure=Failure(kind, "bad"))
                seconds = 30.0 * (kind is None)
                yield Outcome(group.index, at, (result,), 1.0, seconds)
                self.between()


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Works:
    found = Works()

    def transcriber(self: ModelOptions) -> Model:
        found.models.append(self)
        return found.model

    def local(
        setup: Setup, groups: Iterable[Group], n_workers: int
    ) -> Iterator[Outcome]:
        found.asked.append((setup, n_workers))
        return found.outcomes(groups)

    def ray(setup: Setup, groups: Iterable[Group], *given: Any) -> Iterator[Outcome]:
        found.rayed.append((setup, *given))
        return found.outcomes(groups)

    monkeypatch.setattr(ModelOptions, "transcriber", transcriber)
    monkeypatch.setattr("whisper_hailo.batch.workers.run_locally", local)
    monkeypatch.setattr("whisper_hailo.batch.cluster.run_on_ray", ray)
    monkeypatch.setattr(module, "require_extra", lambda *_: None)
    monkeypatch.setattr(module, "available_cores", lambda: 5)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talks").mkdir()
    for name in ("a.wav", "b.wav", "c.wav"):
        (tmp_path / "talks" / name).write_text("some sound")
    return found


def batch(words: str = "") -> int:
    return run(["batch", "talks", "-o", "job", *words.split()])
