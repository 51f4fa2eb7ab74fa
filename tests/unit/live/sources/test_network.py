"""Recordings and endless streams: from a real server on this machine, and from parts."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.radio_server import Radio
from tests.fakes.scripted_speech import Fickle, Loudness
from tests.fakes.sounds import similarity, tone
from whisper_hailo.cli.caption_options import SourceOptions
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed
from whisper_hailo.live.sources.network import NetworkSource
from whisper_hailo.live.sources.source import Block, Pace, ReopenedSource
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo_lab.captions.event_checks import find_violations

av = pytest.importorskip("av", reason="the media extra is not installed")


@pytest.fixture(scope="module")
def radio() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Radio)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def long_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be slow on a busy machine."""
    monkeypatch.setattr("whisper_hailo.live.sources.network.TIMEOUT_S", 300.0)


def test_network_source_of_recording_is_pulled(radio: str) -> None:
    with NetworkSource(f"{radio}/recording") as source:
        assert source.pace is Pace.PULL
        assert not source.endless
        blocks = list(source.blocks())
    audio = np.concatenate([block.audio for block in blocks])
    assert audio.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=50)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 2.0)) > 0.9
    assert all(block.captured_s is None for block in blocks)


@pytest.mark.parametrize("attempt", range(5))
def test_network_source_endless_can_be_stopped_while_read(
    radio: str, attempt: int
) -> None:
    """FFmpeg is reading then: closing its container would crash the process."""
    with NetworkSource(f"{radio}/live") as source:
        assert source.pace is Pace.BUFFERED
        assert source.endless
        stream = CaptionStream(source, Captioner(Fickle(attempt), Loudness()))
        events = []
        for event in stream.events():
            events.append(event)
            if len(events) == 2 + attempt:
                stream.stop()
    assert list(find_violations(events)) == []
    # What follows the last of them depends on the pace: a stall, speech without text.
    assert any(isinstance(event, Completed) for event in events)
    for thread in threading.enumerate():
        if thread.name == "caption-source":
            thread.join()  # it ends with the next piece that the server sends


def test_network_source_closed_before_reading_is_empty(radio: str) -> None:
    source = NetworkSource(f"{radio}/recording").open()
    source.close()
    source.close()
    assert list(source.blocks()) == []


def test_network_source_never_connected_can_be_closed(radio: str) -> None:
    source = NetworkSource(f"{radio}/none")
    source.close()
    with pytest.raises(AudioError, match="404"):
        source.open()
    source.close()
    assert list(source.blocks()) == []


class Container:
    """A container of FFmpeg: its duration in microseconds, `None` without an end."""

    def __init__(self, duration: int | None, *, has_sound: bool = True) -> None:
        self.duration = duration
        self.streams = SimpleNamespace(audio=[object()] if has_sound else [])
        self.n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


@pytest.mark.parametrize(
    ("address", "duration", "pace"),
    [
        ("rtsp://camera/1", None, Pace.REAL_TIME),
        ("RTMP://studio/live", None, Pace.REAL_TIME),
        ("srt://studio:9000", 5_000_000, Pace.REAL_TIME),
        ("http://radio/live", None, Pace.BUFFERED),
        ("https://host/talk.mp3", 5_000_000, Pace.PULL),
    ],
)
def test_network_source_pace_follows_scheme_and_duration(
    address: str, duration: int | None, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Container(duration)
    calls = []

    def connect(name: str, **how: object) -> Container:
        calls.append((name, how))
        return opened

    monkeypatch.setattr(av, "open", connect)
    with NetworkSource(address) as source:
        assert source.pace == pace
        assert source.endless == (duration is None)
    assert opened.n_closed == 1, "no reader is there to close it"
    options = {"rtsp_transport": "tcp"} if address.startswith("rtsp") else {}
    assert calls == [(address, {"timeout": 300.0, "options": options})]


def test_network_source_without_audio_raises_and_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Container(None, has_sound=False)
    monkeypatch.setattr(av, "open", lambda *_, **__: opened)
    address = "rtsp://camera/1"
    with pytest.raises(AudioError, match=address), NetworkSource(address):
        pass
    assert opened.n_closed == 1


def test_network_source_not_open_is_endless_and_empty() -> None:
    source = NetworkSource("http://127.0.0.1:1/none")
    assert source.endless
    assert list(source.blocks()) == []


def test_network_source_missing_address_raises(radio: str) -> None:
    with pytest.raises(AudioError, match="404"), NetworkSource(f"{radio}/none"):
        pass


def test_network_source_without_answer_raises_after_timeout(
    radio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.network.TIMEOUT_S", 0.2)
    with (
        pytest.raises(AudioError, match=r" 0\.2 s"),
        NetworkSource(f"{radio}/never"),
    ):
        pass


@pytest.mark.parametrize(("path", "endless"), [("dying", True), ("half", False)])
def test_network_source_lost_sender_raises_after_its_audio(
    radio: str, path: str, endless: bool
) -> None:
    heard: list[Block] = []
    with NetworkSource(f"{radio}/{path}") as source:
        assert source.endless == endless
        with pytest.raises(AudioError, match=path):
            heard.extend(source.blocks())  # keeps what came before the error
    assert sum(block.audio.size for block in heard) > 0.5 * SAMPLE_RATE_HZ


def test_network_source_lost_sender_is_reopened(radio: str) -> None:
    with ReopenedSource(
        NetworkSource(f"{radio}/dying"), sleep=lambda _: None
    ) as source:
        heard = 0
        n_back = 0
        for block in source.blocks():
            heard += block.audio.size
            n_back += block.interruption is not None and not block.interruption.reason
            if n_back == 3:
                source.close()
    assert heard == pytest.approx(3 * 2.0 * SAMPLE_RATE_HZ, rel=0.1)


def test_make_source_of_address_without_patience_raises(
    radio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.ADDRESS_PATIENCE_S", 0.0)
    with (
        SourceOptions().make_source(f"{radio}/dying") as source,
        pytest.raises(AudioError, match="dying"),
    ):
        assert all(block.interruption is None for block in source.blocks())


@pytest.mark.parametrize(
    "path", [pytest.param("trickle", marks=pytest.mark.slow), "pictures"]
)
def test_network_source_with_little_audio_raises(
    radio: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.network.MAX_WAIT_S", 0.1)
    messages: list[str] = []

    def listen(source: NetworkSource) -> None:
        try:
            list(source.blocks())
        except AudioError as error:
            messages.append(str(error))

    with NetworkSource(f"{radio}/{path}") as source:
        thread = threading.Thread(target=listen, args=(source,), daemon=True)
        thread.start()
        thread.join(60)
    assert len(messages) == 1
    assert re.search(r" 3 s .* 0\.1 s", messages[0])


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


class TimedContainer:
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

    def to(container: TimedContainer) -> NetworkSource:
        monkeypatch.setattr(av, "open", lambda *_, **__: container)
        monkeypatch.setattr(
            "whisper_hailo.live.sources.network.time.perf_counter",
            lambda: container.now_s,
        )
        return NetworkSource("http://radio/live")

    monkeypatch.setattr(av, "AudioResampler", Resampler)
    return to


def test_network_source_of_recording_closes_at_its_end(connect: Any) -> None:
    container = TimedContainer(
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
    container = TimedContainer((True, [3, 4], 1.0), (True, [2], 0.5), duration=None)
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
    container = TimedContainer(*[(True, [3], 1.0)] * 9, duration=duration)
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
    first = TimedContainer((True, [3], 1.0), duration=1)
    again = TimedContainer(duration=1)
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
    container = TimedContainer(*[packet] * 4, (True, [9], 1.0), duration=1)
    source = connect(container).open()
    if has_failed:
        with pytest.raises(AudioError, match=" 3 s "):
            list(source.blocks())
    else:
        assert sum(block.audio.size for block in source.blocks()) == 4 * 12_000 + 9 + 5
    assert container.n_closed == 1
