"""Streams from a real server on this machine: recordings, endless ones, and how they end."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import soundfile

from tests.unit.live.scripted import Fickle, Loudness
from tests.unit.sounds import similarity, tone
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, violations
from whisper_hailo.live.network import NetworkSource
from whisper_hailo.live.stream import CaptionStream

pytest.importorskip("av", reason="the media extra is not installed")

RATE_HZ = 22_050


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, tone(RATE_HZ, 2.0), RATE_HZ, format=kind)
    return file.getvalue()


class Radio(BaseHTTPRequestHandler):
    """`/recording` has a length; `/live` plays for ever, in small pieces."""

    def do_GET(self) -> None:
        if self.path == "/recording":
            body = encoded("FLAC")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/live":
            self.send_response(200)
            self.send_header("Content-Type", "audio/mpeg")
            self.end_headers()
            self._play(encoded("MP3"))
        else:
            self.send_error(404)

    def _play(self, body: bytes) -> None:
        try:
            while True:
                for at in range(0, len(body), 500):
                    self.wfile.write(body[at : at + 500])
                    time.sleep(0.01)
        except OSError:
            return  # the listener left

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture(scope="module")
def radio() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Radio)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The radio is on a machine that may do much else."""
    monkeypatch.setattr("whisper_hailo.live.network._TIMEOUT_S", 300.0)


def test_a_recording_is_read_as_fast_as_it_is_heard(radio: str) -> None:
    with NetworkSource(f"{radio}/recording") as source:
        assert not source.live
        assert not source.endless
        blocks = list(source.blocks())
    audio = np.concatenate([block.audio for block in blocks])
    assert audio.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=50)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 2.0)) > 0.9
    assert all(block.captured_s is None for block in blocks)


@pytest.mark.parametrize("attempt", range(5))
def test_an_endless_stream_is_stopped_while_it_is_read(radio: str, attempt: int) -> None:
    """The thread that reads is deep in FFmpeg then: to close under its feet ends the process."""
    with NetworkSource(f"{radio}/live") as source:
        assert source.live
        assert source.endless
        stream = CaptionStream(source, Captioner(Fickle(attempt), Loudness()))
        events = []
        for event in stream.events():
            events.append(event)
            if len(events) == 2 + attempt:
                stream.stop()
    assert list(violations(events)) == []
    assert isinstance(events[-1], Completed)
    for thread in threading.enumerate():
        if thread.name == "caption-source":
            thread.join()  # it ends with the next piece that the radio sends, however late that is


def test_a_source_that_is_closed_before_it_is_read_gives_nothing(radio: str) -> None:
    source = NetworkSource(f"{radio}/recording").open()
    source.close()
    source.close()
    assert list(source.blocks()) == []


def test_an_address_that_is_not_there_is_one_line(radio: str) -> None:
    with pytest.raises(AudioError, match="404"), NetworkSource(f"{radio}/none"):
        pass
