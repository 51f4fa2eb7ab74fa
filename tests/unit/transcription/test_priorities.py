"""Whose windows are decoded next, and together with whose."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

import pytest

from tests.unit.transcription.made_up_engine import (
    PLAN,
    Encoder,
    Growing,
    Interpreter,
    noise,
    recording_of,
)
from whisper_hailo.transcription.recording import FairShare, Recording
from whisper_hailo.transcription.schedule import PriorityScheduler, RecordingList, Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult


class Noting(Interpreter):
    """Notes which windows came together, by their beginnings."""

    def __init__(self, key: str = "") -> None:
        super().__init__(Encoder(), batch_key=key)
        self.batches: list[list[int]] = []

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        self.batches.append([round(request.window.start_s) for request in requests])
        return super().transcribe(encoded, requests)


def _schedule(engine: Interpreter, source: Any, batch_size: int = 1) -> Schedule:
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    return Schedule(source, stages, batch_size)


def test_what_is_urgent_goes_before_a_batch_that_was_encoded_ahead() -> None:
    engine = Interpreter(Encoder())
    archive, live = recording_of(noise(6)), recording_of(noise(1, 5), priority=-1)
    source = Growing(engine, [(0, archive), (2, live)])
    order: list[str] = []
    for recording, name in ((archive, "archive"), (live, "live")):
        take = recording.take
        recording.take = lambda result, take=take, name=name: (order.append(name), take(result))
    done = list(_schedule(engine, source).run())
    assert done == [live, archive]
    assert [segment.text for segment in archive.segments] == ["0", "1", "2", "3", "4", "5"]
    # It came when the second window was done, and the third waited with its features.
    assert order == ["archive"] * 2 + ["live"] + ["archive"] * 4


def test_who_had_less_goes_first() -> None:
    engine = Noting()
    greedy, modest = FairShare(), FairShare()
    recordings = [recording_of(noise(6), "seek") for _ in range(3)]
    small = recording_of(noise(2), "seek")
    for recording in recordings:
        recording.share = greedy
    small.share = modest

    class All:
        def next(self, *, n_free: int, idle: bool) -> Recording | None:
            del n_free, idle
            return coming.pop(0) if coming else None

        def rows(self, most: int) -> int:
            return most

        def wait(self, coming: Future[Any]) -> bool:
            wait((coming,))
            return True

    coming = [*recordings, small]
    done = list(_schedule(engine, All()).run())
    assert done[0] is small
    assert greedy.n_windows == 18
    assert modest.n_windows == 2
    assert len(engine.batches) == 20


@pytest.mark.parametrize(("keys", "n_batches"), [(("a", "a"), 3), (("a", "b"), 6)])
def test_windows_of_engines_alike_are_one_batch(keys: tuple[str, str], n_batches: int) -> None:
    engines = [Noting(key) for key in keys]
    recordings = [recording_of(noise(3), "seek") for _ in keys]
    for recording, engine in zip(recordings, engines, strict=True):
        recording.engine = engine
    unused = Noting()
    list(_schedule(unused, RecordingList(recordings), batch_size=2).run())
    assert unused.batches == []
    assert sum(len(engine.batches) for engine in engines) == n_batches
    for recording in recordings:
        assert [segment.text for segment in recording.segments] == ["0", "1", "2"]


def test_whoever_is_passed_over_eight_times_is_due() -> None:
    """Each batch of others counts; one of its own, or nothing left to wait for, ends the count."""
    turns = PriorityScheduler()
    urgent, other, late = (recording_of(noise(1), priority=n) for n in (-1, 0, 1))
    for n in range(8):
        assert not turns.is_due(0)
        assert turns.next_of([other, urgent]) is urgent, n
        turns.note([urgent], [urgent, other])
    assert turns.is_due(0)
    assert not turns.is_due(-1)
    assert not turns.is_due(1)
    assert turns.next_of([urgent, late, other]) is other
    turns.note([other], [urgent, other])
    assert not turns.is_due(0)
    for _ in range(8):
        turns.note([urgent], [urgent, other])
    turns.note([urgent], [urgent])
    assert not turns.is_due(0), "nothing waited"


def test_of_several_that_are_due_the_most_urgent_goes_first() -> None:
    turns = PriorityScheduler()
    urgent, other, late = (recording_of(noise(1), priority=n) for n in (-1, 0, 1))
    for _ in range(9):
        turns.note([urgent], [urgent, other, late])
    assert turns.next_of([late, urgent, other]) is other
    turns.note([other], [urgent, other, late])
    assert turns.next_of([late, urgent, other]) is late


def test_of_several_alike_the_one_who_had_least_goes_first_then_the_one_that_came_first() -> None:
    turns = PriorityScheduler()
    one, other, third = (recording_of(noise(1)) for _ in range(3))
    assert turns.next_of([one, other, third]) is one
    one.share.n_windows, other.share.n_windows = 2, 1
    assert turns.next_of([one, other]) is other
    third.priority = 1
    assert turns.next_of([third, one, other]) is other, "what is urgent had more and goes first"
