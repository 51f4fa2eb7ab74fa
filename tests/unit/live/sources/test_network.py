"""Streams from a real server on this machine: recordings, endless ones, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from types import SimpleNamespace

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
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The radio is on a machine that may do much else."""
    monkeypatch.setattr("whisper_hailo.live.sources.network.TIMEOUT_S", 300.0)


def test_recording_is_read_as_fast_as_it_is_heard(radio: str) -> None:
    with NetworkSource(f"{radio}/recording") as source:
        assert source.pace is Pace.PULL
        assert not source.endless
        blocks = list(source.blocks())
    audio = np.concatenate([block.audio for block in blocks])
    assert audio.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=50)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 2.0)) > 0.9
    assert all(block.captured_s is None for block in blocks)


@pytest.mark.parametrize("attempt", range(5))
def test_endless_stream_is_stopped_while_it_is_read(radio: str, attempt: int) -> None:
    """The thread that reads is deep in FFmpeg then: to close under its feet ends the process."""
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
    assert isinstance(events[-1], Completed)
    for thread in threading.enumerate():
        if thread.name == "caption-source":
            thread.join()  # it ends with the next piece that the radio sends, however late that is


def test_source_that_is_closed_before_it_is_read_gives_nothing(radio: str) -> None:
    source = NetworkSource(f"{radio}/recording").open()
    source.close()
    source.close()
    assert list(source.blocks()) == []


def test_source_that_never_connected_can_be_closed(radio: str) -> None:
    source = NetworkSource(f"{radio}/none")
    source.close()
    with pytest.raises(AudioError, match="404"):
        source.open()
    source.close()
    assert list(source.blocks()) == []


class Opened:
    """What FFmpeg opens: with a sound, of so many microseconds, or without an end."""

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
def test_address_is_heard_as_its_sender_is_paced(
    address: str, duration: int | None, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, asked = Opened(duration), []

    def connect(name: str, **how: object) -> Opened:
        asked.append((name, how))
        return opened

    monkeypatch.setattr(av, "open", connect)
    with NetworkSource(address) as source:
        assert (source.pace, source.endless) == (pace, duration is None)
    assert opened.n_closed == 1, "nobody reads, who would close it"
    options = {"rtsp_transport": "tcp"} if address.startswith("rtsp") else {}
    assert asked == [(address, {"timeout": 300.0, "options": options})]


def test_address_without_sound_is_told_and_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Opened(None, has_sound=False)
    monkeypatch.setattr(av, "open", lambda *_, **__: opened)
    with (
        pytest.raises(AudioError, match="has no audio"),
        NetworkSource("rtsp://camera/1"),
    ):
        pass
    assert opened.n_closed == 1


def test_address_that_was_not_reached_yet_may_go_on_for_ever() -> None:
    source = NetworkSource("http://127.0.0.1:1/none")
    assert source.endless
    assert list(source.blocks()) == [], "and gives nothing by then"


def test_address_that_is_not_there_is_one_line(radio: str) -> None:
    with pytest.raises(AudioError, match="404"), NetworkSource(f"{radio}/none"):
        pass


def test_address_that_does_not_answer_is_one_line(
    radio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.network.TIMEOUT_S", 0.2)
    with (
        pytest.raises(
            AudioError, match=r"does not answer within 0\.2 s; check the address"
        ),
        NetworkSource(f"{radio}/never"),
    ):
        pass


@pytest.mark.parametrize(("path", "endless"), [("dying", True), ("half", False)])
def test_sender_that_dies_is_an_error_behind_what_it_sent(
    radio: str, path: str, endless: bool
) -> None:
    heard: list[Block] = []
    with NetworkSource(f"{radio}/{path}") as source:
        assert source.endless == endless
        with pytest.raises(AudioError, match=f"{path} (ended|broke off)"):
            heard.extend(source.blocks())  # keeps what came before the error
    assert sum(block.audio.size for block in heard) > 0.5 * SAMPLE_RATE_HZ


def test_sender_that_died_is_listened_to_again(radio: str) -> None:
    with ReopenedSource(
        NetworkSource(f"{radio}/dying"), sleep=lambda _: None
    ) as source:
        heard, n_back = 0, 0
        for block in source.blocks():
            heard += block.audio.size
            n_back += block.interruption is not None and not block.interruption.reason
            if n_back == 3:
                source.close()
    assert heard == pytest.approx(3 * 2.0 * SAMPLE_RATE_HZ, rel=0.1)


def test_address_is_not_waited_for_forever_unless_asked(
    radio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.source.ADDRESS_PATIENCE_S", 0.0)
    with (
        SourceOptions().make_source(f"{radio}/dying") as source,
        pytest.raises(AudioError, match=r"dying (ended|broke off)"),
    ):
        assert all(block.interruption is None for block in source.blocks())


@pytest.mark.parametrize(
    "path", [pytest.param("trickle", marks=pytest.mark.slow), "pictures"]
)
def test_address_that_gives_next_to_no_sound_is_given_up(
    radio: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.network.MAX_WAIT_S", 0.1)
    told: list[str] = []

    def listen(source: NetworkSource) -> None:
        try:
            list(source.blocks())
        except AudioError as error:
            told.append(str(error))

    with NetworkSource(f"{radio}/{path}") as source:
        thread = threading.Thread(target=listen, args=(source,), daemon=True)
        thread.start()
        thread.join(60)
    assert len(told) == 1
    assert "delivered less than 3 s of audio within 0.1 s" in told[0]
