"""Realtime sessions, as clients of OpenAI's API see them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import socket
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    GERMAN,
    MicroService,
    RunningServer,
    run_server,
)
from tests.fakes.speech_clients import (
    BUFFER,
    PAUSE_S,
    TRANSCRIPTION,
    URL,
    pcm,
    speech,
    talk,
)
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.serve.errors import BusyError
from whisper_hailo.serve.options import LimitOptions, SafetyOptions
from whisper_hailo.serve.routes.realtime.sample_formats import (
    PCM,
    PCMU,
)
from whisper_hailo.serve.routes.realtime.session import RealtimeSession

pytestmark = pytest.mark.slow


def test_session_committed_item_equals_the_command_s_text(
    web: RunningServer, transcriber: Transcriber
) -> None:
    with talk(web) as said:
        assert said.update()["session"]["audio"]["input"]["turn_detection"] is None
        for path in (DEMO, GERMAN[0]):
            said.append(pcm(load_audio(path)))
            said.say(BUFFER + "commit")
            done = said.until(TRANSCRIPTION + "completed")
            alone = transcriber.transcribe(load_audio(path))
            assert done["transcript"] == alone.text
            assert said.deltas(done["item_id"]) == done["transcript"]
            seconds = load_audio(path).size / 16_000
            assert done["usage"]["seconds"] == pytest.approx(seconds, abs=0.04)
    committed = [
        event for event in said.events if event["type"] == BUFFER + "committed"
    ]
    first, second = committed
    assert first["previous_item_id"] is None
    assert second["previous_item_id"] == first["item_id"]
    added = [
        event["item"]["id"]
        for event in said.events
        if event["type"].endswith("item.added")
    ]
    assert added == [first["item_id"], second["item_id"]]
    assert done["item_id"] == second["item_id"]


def test_session_16_khz_sound_has_the_command_s_text(
    web: RunningServer, transcriber: Transcriber
) -> None:
    audio = load_audio(GERMAN[0])
    with talk(web) as said:
        session = said.update(format={"type": PCM, "rate": 16_000})["session"]
        assert session["audio"]["input"]["format"]["rate"] == 16_000
        said.append(pcm(audio, 16_000))
        said.say(BUFFER + "commit")
        done = said.until(TRANSCRIPTION + "completed")
    assert done["transcript"] == transcriber.transcribe(audio).text
    assert done["usage"]["seconds"] == pytest.approx(audio.size / 16_000, abs=0.001)


def test_session_deltas_come_before_the_commit(web: RunningServer) -> None:
    with talk(web) as said:
        said.update(transcription={"language": "en"})
        said.append(pcm(load_audio(DEMO)))
        delta = said.until(TRANSCRIPTION + "delta")
        assert BUFFER + "committed" not in said.kinds()
        said.say(BUFFER + "commit")
        done = said.until(TRANSCRIPTION + "completed")
    assert done["transcript"].startswith(delta["delta"])
    assert done["item_id"] == delta["item_id"]


def test_session_server_vad_finds_the_turns(web: RunningServer) -> None:
    turns = {"type": "server_vad", "silence_duration_ms": 700, "prefix_padding_ms": 200}
    with talk(web) as said:
        said.update(turns)
        said.append(speech(GERMAN[0], GERMAN[1]))
        items = [said.until(TRANSCRIPTION + "completed")["item_id"]]
        items.append(said.until(TRANSCRIPTION + "completed")["item_id"])
    for item in items:
        kinds = [event["type"] for event in said.events if event.get("item_id") == item]
        assert [kind for kind in kinds if not kind.endswith("delta")] == [
            BUFFER + "speech_started",
            BUFFER + "speech_stopped",
            BUFFER + "committed",
            TRANSCRIPTION + "completed",
        ]
    begin, end = (
        next(event for event in said.events if event["type"] == BUFFER + kind)
        for kind in ("speech_started", "speech_stopped")
    )
    seconds = load_audio(GERMAN[0]).size / 16_000
    assert 0 <= begin["audio_start_ms"] < end["audio_end_ms"]
    assert end["audio_end_ms"] < (seconds + PAUSE_S) * 1000
    second = [
        event for event in said.events if event["type"] == BUFFER + "speech_started"
    ][1]
    assert second["audio_start_ms"] >= (seconds + PAUSE_S) * 1000 - 300


def test_session_cleared_sound_is_dropped(web: RunningServer) -> None:
    with talk(web) as said:
        said.update()
        said.append(pcm(load_audio(DEMO)))
        said.say(BUFFER + "clear")
        said.until(BUFFER + "cleared")
        said.say(BUFFER + "commit", event_id="mine")
        error = said.until("error")["error"]
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert error["event_id"] == "mine"
        assert TRANSCRIPTION + "completed" not in said.kinds()


def test_metrics_count_items_and_not_partials() -> None:
    with MicroService() as micro, run_server(micro) as web, talk(web) as said:
        said.update()
        said.append(pcm(load_audio(DEMO)))
        said.until(TRANSCRIPTION + "delta")
        assert b"whisper_hailo_live_streams 1.0" in micro.metrics.render_page()
        said.say(BUFFER + "commit")
        said.until(TRANSCRIPTION + "completed")
        page = micro.metrics.render_page().decode()
    assert 'whisper_hailo_requests_total{api="realtime",outcome="done"} 1.0' in page
    assert 'whisper_hailo_wait_seconds_count{priority="live"}' in page
    assert re.search(r'looks_total\{outcome="done"\} [1-9]', page)
    assert re.search(r"audio_seconds_total 14\.[789]", page)


def test_session_include_logprobs_are_sent(web: RunningServer) -> None:
    with talk(web) as said:
        session = {
            "type": "transcription",
            "include": [TRANSCRIPTION[13:-1] + ".logprobs"],
        }
        session["audio"] = {"input": {"turn_detection": None}}  # type: ignore[assignment]
        said.say("session.update", session=session)
        said.until("session.updated")
        said.append(pcm(load_audio(DEMO)))
        said.say(BUFFER + "commit")
        done = said.until(TRANSCRIPTION + "completed")
    assert (
        "".join(entry["token"] for entry in done["logprobs"]).strip()
        == done["transcript"]
    )
    assert all(entry["logprob"] <= 0 for entry in done["logprobs"])


def test_session_outlasts_the_request_head_timeout(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time-out of a request's head does not hold for its WebSocket."""
    monkeypatch.setattr("whisper_hailo.http.connections.IDLE_S", 0.1)
    with run_server(micro) as web, talk(web) as said:
        time.sleep(0.3)
        said.update()


def test_session_departed_client_stops_its_work() -> None:
    long = np.tile(load_audio(DEMO), 8)
    with MicroService() as micro, run_server(micro) as web:
        with talk(web) as said:
            said.update()
            said.append(pcm(long), 1 << 20)
            said.until(TRANSCRIPTION + "delta")
        assert micro.model.queue.wait_until_empty(60)
        assert not micro.model.queue.n_live
        assert asyncio.run(micro.text(load_audio(DEMO))) == DEMO_TEXT


def test_session_when_server_ends_completes_its_item(
    transcriber: Transcriber,
) -> None:
    with MicroService() as micro, run_server(micro) as web, talk(web) as said:
        said.update()
        said.append(pcm(load_audio(DEMO)))
        said.until(TRANSCRIPTION + "delta")
        micro.service.stop()
        web.loop.call_soon_threadsafe(micro.service.ending.set)
        done = said.until(TRANSCRIPTION + "completed")
        assert done["transcript"]
        with pytest.raises(ConnectionClosed) as closed:
            said.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012


def test_session_idle_client_is_closed_with_1001(
    web: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.serve.routes.realtime.session.IDLE_TIMEOUT_S", 0.05
    )
    with talk(web) as said:
        with pytest.raises(ConnectionClosed) as closed:
            said.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


def test_session_semantic_vad_finds_turns(web: RunningServer) -> None:
    with talk(web) as said:
        said.update({"type": "semantic_vad"})
        said.append(speech(DEMO))
        done = said.until(TRANSCRIPTION + "completed")
        assert done["transcript"]
        assert done["languages"] == [{"code": "en"}]


@pytest.mark.parametrize(
    ("message", "param", "fragment"),
    [
        ("nothing", None, "Invalid JSON"),
        ("[" * 100_000, None, "recursion limit"),
        ("[]", None, "object"),
        ('{"type": "response.create"}', "type", "Input should be 'session.update'"),
        ('{"type": 5}', "type", "Input should be 'session.update'"),
        ('{"type": "input_audio_buffer.append", "audio": 5}', "audio", "bytes"),
        ('{"type": "input_audio_buffer.append", "audio": "?"}', "audio", "base64"),
        ('{"type": "session.update", "session": 1}', "session", "object"),
        ('{"type": "session.update", "sesion": {}}', "session", "session is missing"),
        ('{"type": "input_audio_buffer.append", "audi": ""}', "audio", "audio is missing"),
        (
            '{"type": "session.update", "session": {"type": "realtime"}}',
            "session.type",
            "'transcription'",
        ),
        (
            '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": '
            '{"type": "magic_vad"}}}}}',
            "session.audio.input.turn_detection",
            "'server_vad', 'semantic_vad'",
        ),
        (
            '{"type": "session.update", "session": {"audio": {"input": {"transcription": '
            '{"language": "xx"}}}}}',
            None,
            "xx",
        ),
        (
            '{"type": "session.update", "session": {"audio": {"input": {"transcription": '
            '{"model": "other"}}}}}',
            None,
            "'other' is not served",
        ),
        (
            '{"type": "session.update", "session": {"audio": {"input": {"transcription": '
            '{"prompt": "\\ud800"}}}}}',
            None,
            "hex escape",
        ),
        ('{"type": "session.update", "session": {"voice": "x"}}', "session.voice", "Extra"),
        ('{"type": "session.update", "session": [' + "1," * 70_000 + "1]}", "audio", "audio"),
        ('{"type": "session.update", "session": {"x": "' + "x" * 70_000 + '"}}', "session", "KiB"),
    ],
)  # fmt: skip
def test_session_invalid_message_is_an_error_event(
    web: RunningServer, message: str, param: str | None, fragment: str
) -> None:
    with talk(web) as said:
        said.socket.send(message)
        event = said.next()
        assert event["type"] == "error"
        assert fragment in event["error"]["message"]
        assert event["error"]["param"] == param
        assert event["error"]["type"] == "invalid_request_error"
        said.update()
        said.append(pcm(load_audio(DEMO)[:32_000]))
        said.say(BUFFER + "commit")
        assert said.until(TRANSCRIPTION + "completed")["transcript"]


def test_session_binary_message_is_an_error(web: RunningServer) -> None:
    with talk(web) as said:
        said.socket.send(b"sound")
        assert "Invalid JSON" in said.next()["error"]["message"]


@pytest.mark.parametrize(
    "frame", [b"\x83\x80\0\0\0\0", b"\xc1\x80\0\0\0\0", b"\x81\x01a"]
)
def test_session_invalid_frame_ends_it_alone(
    micro: MicroService,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    frame: bytes,
) -> None:
    monkeypatch.setattr("whisper_hailo.http.server.PING_S", 0.2)
    head = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    )
    asked = f"GET {URL} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode()
    with run_server(micro) as web:
        with socket.create_connection(("127.0.0.1", web.port), 30) as raw:
            raw.sendall(asked)
            assert b"session.created" in raw.recv(1 << 12) + raw.recv(1 << 12)
            raw.sendall(frame)
            while raw.recv(1 << 12):
                pass
        with talk(web) as said:
            said.update()
    assert not [record for record in caplog.records if record.exc_info]


def test_session_uncommitted_sound_is_bounded() -> None:
    with (
        MicroService(limits=LimitOptions(max_audio_s=2.0)) as micro,
        run_server(micro) as web,
        talk(web) as said,
    ):
        said.update()
        said.append(pcm(load_audio(DEMO)[: 3 * 16_000]))
        error = said.until("error")["error"]
        assert "2 s" in error["message"]
        said.say(BUFFER + "commit")
        assert said.until(TRANSCRIPTION + "completed")["usage"]["seconds"] <= 2.04


@pytest.mark.parametrize("turns", [None, {"type": "server_vad"}])
@pytest.mark.parametrize(
    ("failure", "n_times", "event_kind"),
    [
        (BusyError("no place; try again"), 1, TRANSCRIPTION + "failed"),
        (DeviceError("the chip went away; plug it in"), 9, "error"),
    ],
)
def test_session_failed_partial_fails_one_item(
    monkeypatch: pytest.MonkeyPatch,
    turns: Any,
    failure: Exception,
    n_times: int,
    event_kind: str,
) -> None:
    with MicroService() as micro, run_server(micro) as web, talk(web) as said:
        broken = []

        def fall(transcribe: Any, *given: Any) -> Any:
            if len(broken) < n_times:
                broken.append(given)
                raise failure
            return transcribe(*given)

        said.update(turns)
        for name in ("transcribe_partial", "transcribe_item"):
            failing = partial(fall, getattr(micro.model, name))
            monkeypatch.setattr(micro.model, name, failing)
        said.append(speech(GERMAN[0]), 1 << 20)
        if turns is None:
            said.say(BUFFER + "commit")
            event_kind = TRANSCRIPTION + "failed"
        event = said.until(event_kind)
        assert str(failure).partition(";")[0] in event["error"]["message"]
        if event_kind != "error":
            stopped = said.kinds().count(BUFFER + "speech_started")
            assert said.kinds().count(BUFFER + "speech_stopped") == stopped
        broken += [()] * n_times
        said.append(speech(GERMAN[1]))
        if turns is None:
            said.say(BUFFER + "commit")
        done = said.until(TRANSCRIPTION + "completed")
        assert done["transcript"]
        assert done["item_id"] != event.get("item_id")


def test_session_without_key_is_401(micro: MicroService) -> None:
    safety = SafetyOptions(api_key=("secret",))
    with run_server(micro, safety=safety) as web:
        for given in (
            {},
            {"additional_headers": {"Authorization": "Bearer guessed"}},
            {"subprotocols": ["realtime", "openai-insecure-api-key.guessed"]},
        ):
            with pytest.raises(InvalidStatus) as denied, talk(web, **given):
                pass
            assert denied.value.response.status_code == 401
        for given in (
            {"additional_headers": {"Authorization": "Bearer secret"}},
            {"subprotocols": ["realtime", "openai-insecure-api-key.secret"]},
        ):
            with talk(web, **given) as said:
                offered = "subprotocols" in given
                assert said.socket.subprotocol == ("realtime" if offered else None)


@pytest.mark.parametrize(
    ("url", "headers", "status"),
    [
        (URL, {"Origin": "https://other.example"}, 403),
        ("/v1/realtime?intent=conversation", {}, 400),
        ("/v1/realtime?model=other", {}, 404),
    ],
)
def test_session_not_served_is_refused_over_http(
    web: RunningServer,
    url: str,
    headers: dict[str, str],
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        pytest.raises(InvalidStatus) as denied,
        talk(web, url, additional_headers=headers),
    ):
        pass
    assert denied.value.response.status_code == status
    assert "error" in json.loads(denied.value.response.body)
    assert not [
        record for record in caplog.records if record.name.startswith("uvicorn")
    ]


def test_session_beyond_live_limit_is_429_or_503() -> None:
    with (
        MicroService(limits=LimitOptions(live=2, queue=1)) as micro,
        run_server(micro) as web,
    ):
        with talk(web) as said:
            with pytest.raises(InvalidStatus) as denied, talk(web):
                pass
            assert denied.value.response.status_code == 429
            with micro.service.quota.hold_live_stream("another"):
                with pytest.raises(InvalidStatus) as denied, talk(web):
                    pass
                assert denied.value.response.status_code == 503
            assert asyncio.run(micro.text(load_audio(DEMO))) == DEMO_TEXT
            said.update()
        with talk(web):
            pass


def test_session_waiting_messages_are_bounded(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session reads one message more than there is room for, and waits."""
    monkeypatch.setattr(micro.service, "ending", asyncio.Event())  # no other server's

    class Socket:
        n_read = 0
        state = SimpleNamespace()

        async def receive(self) -> dict[str, Any]:
            self.n_read += 1
            await asyncio.sleep(0)
            text = base64.b64encode(bytes(1 << 20)).decode()
            message = json.dumps({"type": BUFFER + "append", "audio": text})
            return {"type": "websocket.receive", "text": message}

        async def send_text(self, _text: str) -> None:
            await asyncio.Event().wait()

    async def read() -> int:
        from whisper_hailo.serve.request import Caller

        socket = Socket()
        caller = Caller("me", "realtime")
        session = RealtimeSession(micro.service, caller, socket, None, "micro")  # type: ignore[arg-type]
        reading = asyncio.ensure_future(session.run())
        for _ in range(100):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return socket.n_read

    assert asyncio.run(read()) == 4


def test_session_g711_sound_is_transcribed(web: RunningServer) -> None:
    audio = soxr.resample(load_audio(DEMO), 16_000, 8_000)
    file = io.BytesIO()
    soundfile.write(file, audio, 8_000, subtype="ULAW", format="RAW")
    with talk(web) as said:
        form = said.update(format={"type": PCMU})["session"]["audio"]["input"]["format"]
        assert form["type"] == PCMU
        said.append(file.getvalue())
        said.say(BUFFER + "commit")
        text = said.until(TRANSCRIPTION + "completed")["transcript"]
    heard = set(text.lower().split())
    expected = set(DEMO_TEXT.lower().split())
    assert len(heard & expected) >= len(expected) // 2
