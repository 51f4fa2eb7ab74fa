"""What waits to be heard: one piece, never more than there is room for; losses are told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import (
    AudioQueue,
    Block,
    Interruption,
    empty_block,
)


def ramp(begin: int, end: int) -> Block:
    """Samples that say where they stand; captured at the end of it."""
    return Block(np.arange(begin, end, dtype=np.float32), captured_s=float(end))


def room_for(n_samples: int) -> AudioQueue:
    return AudioQueue(n_samples / SAMPLE_RATE_HZ)


def test_all_that_waits_is_one_piece() -> None:
    backlog = room_for(100)
    backlog.put(ramp(0, 10))
    backlog.put(Block(np.arange(10, 30, dtype=np.float32), 30.0, n_faults=2))
    block = next(backlog.blocks())
    np.testing.assert_array_equal(block.audio, np.arange(30))
    assert (block.captured_s, block.n_faults, block.n_lost) == (30.0, 2, 0)


def test_what_there_is_no_room_for_is_lost_behind_what_waits() -> None:
    backlog = room_for(1000)
    blocks = backlog.blocks()
    assert [backlog.put(ramp(at, at + 400)) for at in range(0, 2000, 400)] == [
        0,
        0,
        400,
        400,
        400,
    ]
    block = next(blocks)
    np.testing.assert_array_equal(block.audio, np.arange(800))
    assert (block.captured_s, block.n_lost) == (800.0, 1200)
    assert backlog.put(ramp(200, 240)) == 0
    np.testing.assert_array_equal(next(blocks).audio, np.arange(200, 240))


def test_losses_behind_an_absence_have_a_place_each() -> None:
    backlog = room_for(1000)
    backlog.put(ramp(0, 300))
    backlog.put(empty_block(Interruption("unplugged")))
    assert backlog.put(ramp(300, 1200)) == 900
    blocks = backlog.blocks()
    assert next(blocks).audio.size == 300
    assert backlog.put(ramp(1200, 1500)) == 0
    assert backlog.put(ramp(1500, 2300)) == 800
    got = [next(blocks) for _ in range(2)]
    assert [(block.audio.size, block.n_lost) for block in got] == [(0, 900), (300, 800)]


def test_losses_on_end_are_one_however_long_they_last() -> None:
    backlog = room_for(1000)
    backlog.put(ramp(0, 1000))
    assert [backlog.put(ramp(at, at + 512)) for at in range(1000, 9192, 512)] == [
        512
    ] * 16
    assert len(backlog._waiting) == 2
    block = next(backlog.blocks())
    assert (block.audio[-1], block.n_lost) == (999.0, 8192)


def test_who_sends_single_samples_fills_the_room_too() -> None:
    backlog = room_for(1000)
    n_taken = sum(backlog.put(ramp(at, at + 1)) == 0 for at in range(1000))
    assert n_taken < 100
    assert len(backlog._waiting) <= n_taken + 1


@pytest.mark.parametrize("way", [AudioQueue.put, AudioQueue.put_all])
def test_absence_lies_behind_earlier_audio_never_in_the_middle(
    way: Callable[[AudioQueue, Block], object],
) -> None:
    backlog = room_for(1000)
    gone, back = Interruption("unplugged"), Interruption("", 16_000)
    for block in (
        ramp(0, 30),
        empty_block(gone),
        empty_block(back),
        ramp(30, 50),
        empty_block(gone),
    ):
        way(backlog, block)
    backlog.end()
    blocks = list(backlog.blocks())
    sounds = [block.audio.tolist() for block in blocks]
    assert sounds == [list(range(30)), [], list(range(30, 50))]
    assert [block.interruption for block in blocks] == [gone, back, gone]
    assert [block.captured_s for block in blocks] == [30.0, None, 50.0]


def test_losses_on_both_sides_of_an_absence_keep_their_places() -> None:
    backlog = room_for(600)
    backlog.put(ramp(0, 500))
    backlog.put(ramp(500, 700))
    backlog.put(empty_block(Interruption("unplugged")))
    backlog.put(empty_block(Interruption("", 16_000)))
    backlog.put(ramp(700, 1000))
    blocks = backlog.blocks()
    got = [next(blocks) for _ in range(4)]
    assert [(block.audio.size, block.n_lost) for block in got] == [
        (500, 200),
        (0, 0),
        (0, 0),
        (0, 300),
    ]
    assert [block.interruption is not None for block in got] == [
        False,
        True,
        True,
        False,
    ]


def test_whoever_can_wait_loses_nothing() -> None:
    backlog = room_for(1000)

    def bring() -> None:
        for at in range(0, 30_000, 750):
            backlog.put_all(ramp(at, at + 750))
        backlog.end()

    thread = threading.Thread(target=bring)
    thread.start()
    blocks = list(backlog.blocks())
    thread.join()
    assert max(block.audio.size for block in blocks) <= 1000
    assert sum(block.n_lost for block in blocks) == 0
    np.testing.assert_array_equal(
        np.concatenate([b.audio for b in blocks]), np.arange(30_000)
    )


def test_whoever_waits_for_room_is_let_go_at_the_end() -> None:
    backlog = room_for(1000)
    backlog.put_all(ramp(0, 900))
    thread = threading.Thread(target=backlog.put_all, args=(ramp(900, 1800),))
    thread.start()
    backlog.end()
    thread.join()


def test_failure_comes_behind_what_waits() -> None:
    backlog = room_for(10)
    backlog.put(ramp(0, 5))
    backlog.end(AudioError("it broke off"))
    backlog.end()
    blocks = backlog.blocks()
    assert next(blocks).audio.size == 5
    with pytest.raises(AudioError, match="it broke off"):
        next(blocks)


@pytest.mark.parametrize(
    "come", [ramp(0, 5), empty_block(Interruption("unplugged")), None]
)
def test_whatever_comes_is_given_at_once(
    come: Block | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 300.0)
    backlog = room_for(100)
    backlog.put(come) if come is not None else backlog.end()
    block = next(backlog.blocks())
    assert block.interruption == (come.interruption if come is not None else None)
    assert block.captured_s == (5.0 if block.audio.size else None)


@pytest.mark.parametrize("way", [AudioQueue.put, AudioQueue.put_all])
def test_who_waits_for_sound_is_woken_by_it(
    way: Callable[[AudioQueue, Block], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 300.0)
    waits, got = threading.Event(), []

    class Noted(threading.Condition):
        def wait_for(self, *given: Any) -> Any:
            waits.set()  # whoever puts something gets its turn when this one really waits
            return super().wait_for(*given)

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Condition", Noted)
        backlog = room_for(100)
    thread = threading.Thread(target=lambda: got.append(next(backlog.blocks())))
    thread.start()
    waits.wait()
    way(backlog, ramp(0, 5))
    thread.join()
    assert [block.audio.size for block in got] == [5]


def test_what_the_source_tells_last_is_not_forgotten() -> None:
    backlog = room_for(100)
    for block in (
        ramp(0, 5),
        empty_block(Interruption("unplugged")),
        empty_block(Interruption("", 9)),
    ):
        backlog.put(block)
    backlog.end()
    absences = [block.interruption for block in backlog.blocks()]
    assert absences == [Interruption("unplugged"), Interruption("", 9)]


def test_of_what_was_taken_nothing_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    backlog = room_for(100)
    backlog.put(Block(np.ones(5, np.float32), 7.0, n_faults=1))
    blocks = backlog.blocks()
    next(blocks)
    nothing_more = next(blocks)
    assert (
        nothing_more.audio.size,
        nothing_more.captured_s,
        nothing_more.n_faults,
    ) == (0, None, 0)
    assert nothing_more.interruption is None


def test_while_nothing_comes_whoever_waits_may_look_around() -> None:
    assert next(room_for(10).blocks()).audio.size == 0
