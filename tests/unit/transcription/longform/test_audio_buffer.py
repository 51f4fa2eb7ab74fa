"""Samples by their position, from a stream that comes in pieces of any size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.fakes.recording_layouts import feed_of, ramp
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer


class Stream:
    """Every sample is its own position; how many were asked for so far is known."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.given = 0

    def __iter__(self) -> Iterator[FloatArray]:
        for size in self.sizes:
            self.given += size
            yield np.arange(self.given - size, self.given, dtype=np.float32)


def feed(*sizes: int) -> tuple[AudioBuffer, Stream]:
    stream = Stream(*sizes)
    return AudioBuffer(iter(stream)), stream


@pytest.mark.parametrize("seed", range(5))
def test_read_forwards_equals_a_slice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 12).tolist()
    total = sum(sizes)
    start = 0
    buffer, _ = feed(*sizes)
    while start < total + 5:
        n_samples = int(rng.integers(0, 12))
        expected = list(range(total))[start : start + n_samples]
        assert buffer.read(start, n_samples).tolist() == expected
        start += int(rng.integers(0, 15))


def test_read_takes_no_more_blocks_than_needed() -> None:
    buffer, stream = feed(4, 4, 4)
    assert buffer.read(0, 4).size == 4
    assert stream.given == 4
    assert buffer.reaches(3)
    assert stream.given == 4
    assert buffer.reaches(4)
    assert stream.given == 8
    assert buffer.n_samples == 8
    assert not buffer.reaches(12)
    assert buffer.read(9, 9).tolist() == [9, 10, 11]


def test_forget_reads_no_further_than_the_position() -> None:
    buffer, stream = feed(*[1] * 9)
    assert buffer.read(3, 0).size == 0
    assert stream.given == 3
    assert buffer.read(5, 1).tolist() == [5]
    assert stream.given == 6


def test_read_drops_what_lies_before() -> None:
    buffer, _ = feed(4, 4, 4)
    first = buffer.read(0, 4)
    assert buffer.read(2, 4).tolist() == [2, 3, 4, 5]
    assert first.tolist() == [0, 1, 2, 3]
    first[:] = 0
    assert buffer.n_held == 6, "from position 2 on"
    buffer.drain()
    assert buffer.n_samples == 12
    assert buffer.n_held == 0
    assert buffer.duration_s == 12 / SAMPLE_RATE_HZ


def test_forget_holds_one_block_at_most() -> None:
    buffer, stream = feed(*[4] * 9)
    assert buffer.read(30, 2).tolist() == [30, 31]
    assert buffer.n_held == 2
    assert stream.given == 32
    assert buffer.read(99, 2).size == 0
    assert buffer.n_samples == 36
    assert not buffer.reaches(36)


def test_read_across_blocks_is_seamless() -> None:
    feed = feed_of(ramp(50_000), block=7_000)
    assert feed.read(5_000, 10_000).tolist() == list(range(5_000, 15_000))
    assert feed.reaches(49_999)
    assert not feed.reaches(50_000)
    assert feed.read(49_990, 100).size == 10
    assert feed.read(60_000, 100).size == 0
