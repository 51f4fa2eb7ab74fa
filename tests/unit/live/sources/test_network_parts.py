"""Network sources with scripted packets of audio and video, each with its waiting time."""

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
    """A frame of FFmpeg's resampler: samples of one value."""

    def __init__(self, samples: int, value: float = 0.25) -> None:
        self.samples = samples
        self._value = value

    def to_ndarray(self) -> Any:
        return np.full((1, self.samples), self._value, np.float32)


class Resampler:
    """Returns each frame, and five samples more at the end."""

    def __init__(self, **how: Any) -> None:
        assert how == {"format": "flt", "layout": "mono", "rate": 16_000}

    def resample(self, frame: Frame | None) -> list[Frame]:
        return [Frame(5, 0.5)] if frame is None else [frame]


class Container:
    """A container of FFmpeg.

    Args:
        packets: for each, whether it is audio, the samples of its frames, and the seconds until
            it arrives.
        duration: in microseconds; `None`: without an end.
    """

    def __init__(
        self, *packets: tuple[bool, list[int], float], duration: int | None
    ) -> None:
        self.duration = duration
        self.now_s = 100.0
        self.n_closed = 0
        self._packets = packets
        self._sound = object()
        self._pictures = object()
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
    """Return a function that makes a source of a container."""

    def to(container: Container) -> NetworkSource:
        monkeypatch.setattr(av, "open", lambda *_, **__: container)
        monkeypatch.setattr(
            "whisper_hailo.live.sources.network.time.perf_counter",
            lambda: container.now_s,
        )
        return NetworkSource("http://radio/live")

    monkeypatch.setattr(av, "AudioResampler", Resampler)
    return to


def test_network_source_of_recording_closes_at_its_end(connect: Any) -> None:
    container = Container(
        (True, [3, 4], 1.0), (False, [9], 1.0), (True, [2], 1.0), duration=1
    )
    source = connect(container).open()
    blocks = list(source.blocks())
    sounds = [block.audio.tolist() for block in blocks]
    assert sounds == [[0.25] * 3, [0.25] * 4, [0.25] * 2, [0.5] * 5]
    assert {block.captured_s for block in blocks} == {None}
    assert container.n_closed == 1, "the reader closes it"
    source.close()
    assert container.n_closed == 1


def test_network_source_live_has_times_and_no_end(connect: Any) -> None:
    container = Container((True, [3, 4], 1.0), (True, [2], 0.5), duration=None)
    heard: list[Block] = []
    with (
        connect(container) as source,
        pytest.raises(AudioError, match="http://radio/live"),
    ):
        heard.extend(source.blocks())  # keeps what came before the error
    pieces = [(block.audio.size, block.captured_s) for block in heard]
    assert pieces == [(3, 101.0), (4, 101.0), (2, 101.5), (5, None)]


@pytest.mark.parametrize("duration", [None, 1])
def test_network_source_closed_ends_after_its_packet(
    duration: int | None, connect: Any
) -> None:
    container = Container(*[(True, [3], 1.0)] * 9, duration=duration)
    source = connect(container).open()
    blocks = source.blocks()
    assert next(blocks).audio.size == 3
    source.close()
    assert container.n_closed == 0, "FFmpeg may be reading"
    assert list(blocks) == []
    assert container.n_closed == 1


def test_network_source_reopened_unread_is_closed(
    connect: Any,
) -> None:
    first = Container((True, [3], 1.0), duration=1)
    again = Container(duration=1)
    source = connect(first).open()
    assert sum(block.audio.size for block in source.blocks()) == 8
    connect(again)
    source.open().close()
    assert first.n_closed == 1
    assert again.n_closed == 1
    assert list(source.blocks()) == []


@pytest.mark.parametrize(("n_samples", "has_failed"), [(11_999, True), (12_000, False)])
def test_network_source_needs_3_s_of_audio_in_30_s(
    n_samples: int, has_failed: bool, connect: Any
) -> None:
    """Four packets of 12,000 samples in 31 s are enough."""
    packet = (True, [n_samples], 7.75)
    container = Container(*[packet] * 4, (True, [9], 1.0), duration=1)
    source = connect(container).open()
    if has_failed:
        with pytest.raises(AudioError, match=" 3 s "):
            list(source.blocks())
    else:
        assert sum(block.audio.size for block in source.blocks()) == 4 * 12_000 + 9 + 5
    assert container.n_closed == 1
