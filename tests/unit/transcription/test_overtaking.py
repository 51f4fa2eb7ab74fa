"""What is urgent waits neither for a batch that is being encoded nor for its windows."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.transcription.made_up_engine import (
    PLAN,
    WAIT_S,
    AtOnce,
    Encoder,
    Interpreter,
    noise,
    recording_of,
)
from tests.unit.transcription.test_priorities import Noting
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import QUANTUM, Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult


@dataclass
class Slow(Encoder):
    """In its own thread it is done with a batch when something else was decoded meanwhile."""

    overtaken: threading.Event = field(default_factory=threading.Event)
    n_in_vain: int = 0

    def encode(self, mel: FloatArray) -> FloatArray:
        if threading.current_thread().name.startswith("encode"):
            self.n_in_vain += not self.overtaken.wait(WAIT_S)
        return super().encode(mel)


@dataclass
class Noted(Interpreter):
    """Lets the encoder go on when a window was decoded."""

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        assert isinstance(self.encoder, Slow)
        self.encoder.overtaken.set()
        return super().transcribe(encoded, requests)


class Arriving(AtOnce):
    """Has one recording more when the schedule begins to wait for the encoder."""

    def __init__(self, here: list[Recording], later: Recording) -> None:
        super().__init__(here)
        self._later = [later]

    def wait(self, coming: Future[Any]) -> bool:
        if self._later:
            self._coming.append(self._later.pop())
            return True
        return super().wait(coming)


@pytest.mark.parametrize("strategy", ["seek", "consecutive"])
def test_what_comes_while_a_batch_is_encoded_goes_before_it(strategy: str) -> None:
    encoder = Slow()
    stages = Stages(encoder, Noted(encoder), PLAN)  # type: ignore[arg-type]
    archives = [recording_of(noise(3, n), strategy, 1) for n in range(2)]
    command = recording_of(noise(1, 5), strategy)
    done = list(Schedule(Arriving(archives, command), stages, 2).run())
    assert encoder.n_in_vain == 0, "what is urgent waited for this"
    assert done[0] is command
    assert [one.failure for one in done] == [None] * 3
    for archive in archives:
        assert [segment.text for segment in archive.segments] == ["0", "1", "2"]


def test_what_is_urgent_shares_no_batch_with_what_is_not() -> None:
    engine = Noting()
    command, film = recording_of(noise(2)), recording_of(noise(3), priority=1)
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    list(Schedule(AtOnce([film, command]), stages, 8).run())
    assert engine.batches == [[0, 1], [0, 1, 2]]


class Stepping(Interpreter):
    """Takes many steps for the windows of one recording; others come while it does."""

    def __init__(self, hard: Recording, coming: dict[int, Recording], source: AtOnce) -> None:
        super().__init__(Encoder())
        self._hard = hard
        self._coming_at = coming
        self._source = source
        self.n_steps = 0
        self.begun_at: list[int] = []

    def steps(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        if any(request.context is self._hard.context for request in requests):
            for _ in range(4 * QUANTUM):
                self.n_steps += 1
                if self.n_steps in self._coming_at:
                    self._source._coming.append(self._coming_at[self.n_steps])
                yield
        else:
            self.begun_at.append(self.n_steps)
        return self.transcribe(encoded, requests)


def run_hard(hard: Recording, coming: dict[int, Recording]) -> tuple[list[Recording], list[int]]:
    """Return what is done, in order, and at which steps of the hard one others were decoded."""
    source = AtOnce([hard])
    engine = Stepping(hard, coming, source)
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    return list(Schedule(source, stages).run()), engine.begun_at


def test_newcomer_goes_before_the_next_step_of_a_window_that_takes_long() -> None:
    hard, command = recording_of(noise(1)), recording_of(noise(1, 5))
    done, begun_at = run_hard(hard, {3: command})
    assert done == [command, hard]
    assert begun_at == [QUANTUM + 1]
    assert [segment.text for segment in hard.segments] == ["0"]


def test_urgent_recording_waits_for_one_step() -> None:
    film, command = recording_of(noise(1), priority=1), recording_of(noise(1, 5))
    done, begun_at = run_hard(film, {3: command})
    assert done == [command, film]
    assert begun_at == [3]


def test_window_that_takes_long_goes_on_between_newcomers() -> None:
    hard, *others = (recording_of(noise(1, n)) for n in range(4))
    done, begun_at = run_hard(hard, dict(enumerate(others, 1)))
    assert done == [*others, hard]
    gaps = [later - earlier for earlier, later in pairwise(begun_at)]
    assert all(gap >= QUANTUM for gap in gaps), begun_at


def test_newcomer_of_two_windows_keeps_their_order() -> None:
    hard, film = recording_of(noise(1)), recording_of(noise(3, 5), "consecutive")
    done, _ = run_hard(hard, {3: film})
    assert set(done) == {hard, film}
    assert [segment.text for segment in film.segments] == ["0", "1", "2"]


def test_windows_of_one_recording_do_not_overtake_each_other() -> None:
    hard = recording_of(noise(3))
    done, begun_at = run_hard(hard, {})
    assert (done, begun_at) == ([hard], [])
    assert [segment.text for segment in hard.segments] == ["0", "1", "2"]


def test_time_of_what_went_first_is_not_counted() -> None:
    class Waiting(Interpreter):
        def transcribe(
            self, encoded: Encoded, requests: Sequence[WindowRequest]
        ) -> list[WindowResult]:
            time.sleep(0.2)
            return super().transcribe(encoded, requests)

    film, command = recording_of(noise(1), priority=1), recording_of(noise(1, 5))
    command.engine = Waiting(Encoder())
    done, _ = run_hard(film, {3: command})
    assert done == [command, film]
    assert film.context.clock.timings().total_ms < 150
    assert command.context.clock.timings().total_ms >= 200
