"""Streams whose parts a test gives: packets of sound and of pictures, and how long each took."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.core.errors import AudioError
from whisper_hailo.live.sources.network import NetworkSource
from whisper_hailo.live.sources.source import Block

av = pytest.importorskip("av", reason="the media extra is not installed")


class Frame:
    """So many samples of one value, as FFmpeg's resampler gives them."""

    def __init__(self, samples: int, value: float = 0.25) -> None:
        self.samples = samples
        self._value = value

    def to_ndarray(self) -> Any:
        return np.full((1, self.samples), self._value, np.float32)


class Resampler:
    """Gives what it gets, and at the end what it kept."""

    def __init__(self, **how: Any) -> None:
        assert how == {"format": "flt", "layout": "mono", "rate": 16_000}

    def resample(self, frame: Frame | None) -> list[Frame]:
        return [Frame(5, 0.5)] if frame is None else [frame]


class Opened:
    """What FFmpeg opens.

    Args:
        packets: for each, whether it is sound, the samples of its frames, and the seconds that it
            is waited for.
        duration: in microseconds; `None`: without an end.
    """

    def __init__(
        self, *packets: tuple[bool, list[int], float], duration: int | None
    ) -> None:
        self.duration = duration
        self.now_s = 100.0
        self.n_closed = 0
        self._packets = packets
        self._sound, self._pictures = object(), object()
        self.streams = SimpleNamespace(audio=[self._sound])

    def demux(self) -> Iterator[Any]:
        for is_sound, sizes, seconds in self._packets:
            self.now_s += seconds
            frames = [Frame(size) for size in sizes]
            stream = self._sound if is_sound else self._pictures
            yield SimpleNamespace(stream=stream, decode=lambda frames=frames: frames)

    def close(self) -> None:
        self.n_closed += 1


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have an address give such parts."""

    def to(opened: Opened) -> NetworkSource:
        monkeypatch.setattr(av, "open", lambda *_, **__: opened)
        monkeypatch.setattr(
            "whisper_hailo.live.sources.network.time.perf_counter", lambda: opened.now_s
        )
        return NetworkSource("http://radio/live")

    monkeypatch.setattr(av, "AudioResampler", Resampler)
    return to


def test_recording_is_heard_to_its_last_sample_and_closed(connect: Any) -> None:
    opened = Opened(
        (True, [3, 4], 1.0), (False, [9], 1.0), (True, [2], 1.0), duration=1
    )
    source = connect(opened).open()
    blocks = list(source.blocks())
    sounds = [block.audio.tolist() for block in blocks]
    assert sounds == [[0.25] * 3, [0.25] * 4, [0.25] * 2, [0.5] * 5]
    assert {block.captured_s for block in blocks} == {None}
    assert opened.n_closed == 1, "who reads closes"
    source.close()
    assert opened.n_closed == 1


def test_live_source_knows_when_it_came_and_does_not_end(connect: Any) -> None:
    opened = Opened((True, [3, 4], 1.0), (True, [2], 0.5), duration=None)
    heard: list[Block] = []
    with (
        connect(opened) as source,
        pytest.raises(AudioError, match="the sender closed the stream"),
    ):
        heard.extend(source.blocks())  # keeps what came before the error
    pieces = [(block.audio.size, block.captured_s) for block in heard]
    assert pieces == [(3, 101.0), (4, 101.0), (2, 101.5), (5, None)]


@pytest.mark.parametrize("duration", [None, 1])
def test_closed_source_ends_with_its_packet_without_error(
    duration: int | None, connect: Any
) -> None:
    opened = Opened(*[(True, [3], 1.0)] * 9, duration=duration)
    source = connect(opened).open()
    blocks = source.blocks()
    assert next(blocks).audio.size == 3
    source.close()
    assert opened.n_closed == 0, "FFmpeg may be at work"
    assert list(blocks) == []
    assert opened.n_closed == 1


def test_reopened_source_is_closed_by_who_does_not_read_it(
    connect: Any,
) -> None:
    first, again = Opened((True, [3], 1.0), duration=1), Opened(duration=1)
    source = connect(first).open()
    assert sum(block.audio.size for block in source.blocks()) == 8
    connect(again)
    source.open().close()
    assert (first.n_closed, again.n_closed) == (1, 1)
    assert list(source.blocks()) == []


@pytest.mark.parametrize(("n_samples", "is_left"), [(11_999, True), (12_000, False)])
def test_address_gives_three_seconds_of_sound_in_half_minute(
    n_samples: int, is_left: bool, connect: Any
) -> None:
    """Of four packets, 12,000 samples each at least."""
    packet = (True, [n_samples], 7.75)
    opened = Opened(*[packet] * 4, (True, [9], 1.0), duration=1)
    source = connect(opened).open()
    if is_left:
        with pytest.raises(AudioError, match="delivered less than 3 s of audio"):
            list(source.blocks())
    else:
        assert sum(block.audio.size for block in source.blocks()) == 4 * 12_000 + 9 + 5
    assert opened.n_closed == 1
