"""The queue between a source and its reader: joined blocks, bounded, with losses reported."""

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
    """Return samples that are their own index, captured at the end of them."""
    return Block(np.arange(begin, end, dtype=np.float32), captured_s=float(end))


def make_queue(n_samples: int) -> AudioQueue:
    return AudioQueue(n_samples / SAMPLE_RATE_HZ)


def test_audio_queue_joins_waiting_blocks() -> None:
    queue = make_queue(100)
    queue.put(ramp(0, 10))
    queue.put(Block(np.arange(10, 30, dtype=np.float32), 30.0, n_faults=2))
    block = next(queue.blocks())
    np.testing.assert_array_equal(block.audio, np.arange(30))
    assert block.captured_s == 30.0
    assert block.n_faults == 2
    assert block.n_lost == 0


def test_audio_queue_full_loses_what_comes_last() -> None:
    queue = make_queue(1000)
    blocks = queue.blocks()
    assert [queue.put(ramp(at, at + 400)) for at in range(0, 2000, 400)] == [
        0,
        0,
        400,
        400,
        400,
    ]
    block = next(blocks)
    np.testing.assert_array_equal(block.audio, np.arange(800))
    assert block.captured_s == 800.0
    assert block.n_lost == 1200
    assert queue.put(ramp(200, 240)) == 0
    np.testing.assert_array_equal(next(blocks).audio, np.arange(200, 240))


def test_audio_queue_losses_after_absence_stay_apart() -> None:
    queue = make_queue(1000)
    queue.put(ramp(0, 300))
    queue.put(empty_block(Interruption("unplugged")))
    assert queue.put(ramp(300, 1200)) == 900
    blocks = queue.blocks()
    assert next(blocks).audio.size == 300
    assert queue.put(ramp(1200, 1500)) == 0
    assert queue.put(ramp(1500, 2300)) == 800
    blocks_read = [next(blocks) for _ in range(2)]
    assert [(block.audio.size, block.n_lost) for block in blocks_read] == [
        (0, 900),
        (300, 800),
    ]


def test_audio_queue_losses_in_a_row_are_joined() -> None:
    queue = make_queue(1000)
    queue.put(ramp(0, 1000))
    assert [queue.put(ramp(at, at + 512)) for at in range(1000, 9192, 512)] == [
        512
    ] * 16
    assert len(queue._waiting) == 2
    block = next(queue.blocks())
    assert block.audio[-1] == 999.0
    assert block.n_lost == 8192


def test_audio_queue_single_samples_are_bounded() -> None:
    queue = make_queue(1000)
    n_taken = sum(queue.put(ramp(at, at + 1)) == 0 for at in range(1000))
    assert n_taken < 100
    assert len(queue._waiting) <= n_taken + 1


@pytest.mark.parametrize("put", [AudioQueue.put, AudioQueue.put_all])
def test_audio_queue_absence_comes_after_earlier_audio(
    put: Callable[[AudioQueue, Block], object],
) -> None:
    queue = make_queue(1000)
    gone = Interruption("unplugged")
    back = Interruption("", 16_000)
    for block in (
        ramp(0, 30),
        empty_block(gone),
        empty_block(back),
        ramp(30, 50),
        empty_block(gone),
    ):
        put(queue, block)
    queue.end()
    blocks = list(queue.blocks())
    sounds = [block.audio.tolist() for block in blocks]
    assert sounds == [list(range(30)), [], list(range(30, 50))]
    assert [block.interruption for block in blocks] == [gone, back, gone]
    assert [block.captured_s for block in blocks] == [30.0, None, 50.0]


def test_audio_queue_losses_around_absence_keep_places() -> None:
    queue = make_queue(600)
    queue.put(ramp(0, 500))
    queue.put(ramp(500, 700))
    queue.put(empty_block(Interruption("unplugged")))
    queue.put(empty_block(Interruption("", 16_000)))
    queue.put(ramp(700, 1000))
    blocks = queue.blocks()
    blocks_read = [next(blocks) for _ in range(4)]
    assert [(block.audio.size, block.n_lost) for block in blocks_read] == [
        (500, 200),
        (0, 0),
        (0, 0),
        (0, 300),
    ]
    assert [block.interruption is not None for block in blocks_read] == [
        False,
        True,
        True,
        False,
    ]


def test_audio_queue_put_all_waits_and_loses_nothing() -> None:
    queue = make_queue(1000)

    def put_blocks() -> None:
        for at in range(0, 30_000, 750):
            queue.put_all(ramp(at, at + 750))
        queue.end()

    thread = threading.Thread(target=put_blocks)
    thread.start()
    blocks = list(queue.blocks())
    thread.join()
    assert max(block.audio.size for block in blocks) <= 1000
    assert sum(block.n_lost for block in blocks) == 0
    np.testing.assert_array_equal(
        np.concatenate([b.audio for b in blocks]), np.arange(30_000)
    )


def test_audio_queue_end_releases_a_waiting_put_all() -> None:
    queue = make_queue(1000)
    queue.put_all(ramp(0, 900))
    thread = threading.Thread(target=queue.put_all, args=(ramp(900, 1800),))
    thread.start()
    queue.end()
    thread.join()


def test_audio_queue_error_comes_after_waiting_audio() -> None:
    queue = make_queue(10)
    queue.put(ramp(0, 5))
    error = AudioError("the sender hung up")
    queue.end(error)
    queue.end()
    blocks = queue.blocks()
    assert next(blocks).audio.size == 5
    with pytest.raises(AudioError) as raised:
        next(blocks)
    assert raised.value is error


@pytest.mark.parametrize(
    "block_put", [ramp(0, 5), empty_block(Interruption("unplugged")), None]
)
def test_audio_queue_any_block_is_given_at_once(
    block_put: Block | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 300.0)
    queue = make_queue(100)
    if block_put is None:
        queue.end()
    else:
        queue.put(block_put)
    block = next(queue.blocks())
    assert block.interruption == getattr(block_put, "interruption", None)
    assert block.captured_s == (5.0 if block.audio.size else None)


@pytest.mark.parametrize("put", [AudioQueue.put, AudioQueue.put_all])
def test_audio_queue_block_wakes_a_waiting_reader(
    put: Callable[[AudioQueue, Block], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 300.0)
    waits = threading.Event()
    blocks_read = []

    class RecordedCondition(threading.Condition):
        def wait_for(self, *given: Any) -> Any:
            waits.set()  # the lock is free for `put` only once this really waits
            return super().wait_for(*given)

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Condition", RecordedCondition)
        queue = make_queue(100)
    thread = threading.Thread(target=lambda: blocks_read.append(next(queue.blocks())))
    thread.start()
    waits.wait()
    put(queue, ramp(0, 5))
    thread.join()
    assert [block.audio.size for block in blocks_read] == [5]


def test_audio_queue_last_absence_is_given() -> None:
    queue = make_queue(100)
    for block in (
        ramp(0, 5),
        empty_block(Interruption("unplugged")),
        empty_block(Interruption("", 9)),
    ):
        queue.put(block)
    queue.end()
    absences = [block.interruption for block in queue.blocks()]
    assert absences == [Interruption("unplugged"), Interruption("", 9)]


def test_audio_queue_taken_block_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.POLL_S", 0.0)
    queue = make_queue(100)
    queue.put(Block(np.ones(5, np.float32), 7.0, n_faults=1))
    blocks = queue.blocks()
    next(blocks)
    empty = next(blocks)
    assert empty.audio.size == 0
    assert empty.captured_s is None
    assert empty.n_faults == 0
    assert empty.interruption is None


def test_audio_queue_empty_gives_empty_blocks() -> None:
    assert next(make_queue(10).blocks()).audio.size == 0
