"""Wyoming events that are malformed, and limits."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import ExitStack

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe
from wyoming.ping import Ping

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    LONG,
    MicroService,
    client,
    transcribe,
)
from tests.fakes.speech_clients import (
    heard,
    read_pcm,
    say,
    wyoming_server,
)
from whisper_hailo.serve.errors import BusyError
from whisper_hailo.serve.options import LimitOptions

pytestmark = pytest.mark.slow


def test_session_departed_client_frees_its_request() -> None:
    async def ask(micro: MicroService) -> None:
        async with wyoming_server(micro) as port:
            async with AsyncTcpClient("127.0.0.1", port) as client:
                await client.write_event(AudioStart(16_000, 2, 1).event())
                for _ in range(100):
                    await client.write_event(
                        AudioChunk(16_000, 2, 1, read_pcm(LONG[0])).event()
                    )
                await client.write_event(AudioStop().event())
                event = await client.read_event()
                assert event is not None
                assert micro.model.queue.n_unfinished == 1
            while micro.model.queue.n_unfinished:
                await asyncio.sleep(0.01)
            async with AsyncTcpClient("127.0.0.1", port) as client:
                assert heard(await say(client, read_pcm(DEMO))) == DEMO_TEXT

    with MicroService(limits=LimitOptions(queue=1)) as micro:
        asyncio.run(ask(micro))


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "readable JSON"),
        (b"[]\n", "no JSON object"),
        (b'{"type": 5}\n', "no type"),
        (b'{"type": "ping", "data": 5}\n', "not an object"),
        (
            b'{"type": "ping", "data_length": 99999999999}\n',
            "data_length is 99999999999",
        ),
        (b'{"type": "audio-chunk", "payload_length": -1}\n', "payload_length is -1"),
        (
            b'{"type": "audio-chunk", "payload_length": "many"}\n',
            "payload_length is many",
        ),
        (
            b'{"type": "audio-chunk", "payload_length": 2}\nxx',
            "rate, width and channels",
        ),
        (
            b'{"type": "audio-chunk", "data": {"rate": 0, "width": 2, "channels": 1}}\n',
            "rate",
        ),
        (b'{"type": "transcribe", "data": {"name": 5}}\n', "is not text"),
        (
            b'{"type": "transcribe", "data": {"transcript_names": 2.5}}\n',
            "not a list of strings",
        ),
        (
            b'{"type": "transcribe", "data": {"transcript_terms": [[]]}}\n',
            "not a list of strings",
        ),
        (b'{"type": "ping", "data": {"text": "\\ud800"}}\n', "readable JSON"),
        (b"x" * 200_000, "65536 bytes"),
        (b"[" * 60_000 + b"\n", "readable JSON"),
        (b'{"type": "audio-stop"}\n', "no audio before audio-stop"),
        (
            b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 7, "channels": 1}, '
            b'"payload_length": 7}\nsamples{"type": "audio-stop"}\n',
            "samples of 7 bytes",
        ),
        (
            b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 2, "channels": 1}}\n'
            b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 2, "channels": 2}}\n',
            "use one format for each recording",
        ),
    ],
)
def test_session_malformed_event_is_an_error(
    micro: MicroService, sent: bytes, fragment: str
) -> None:
    async def ask() -> bytes:
        async with wyoming_server(micro) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            answer = await reader.read()
            writer.close()
            return answer

    head, _, rest = asyncio.run(ask()).partition(b"\n")
    assert json.loads(head)["type"] == "error"
    assert fragment in json.loads(rest)["text"]


def test_session_refused_client_can_read_the_error(micro: MicroService) -> None:
    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 30) as talk:
            talk.sendall(b"[]\n")
            for _ in range(64):  # and it goes on, as those do who send a recording
                time.sleep(0.002)
                talk.sendall(bytes(1 << 15))
            talk.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := talk.recv(1 << 12):
                answer += piece
            return answer

    async def asked() -> bytes:
        async with wyoming_server(micro) as port:
            return await asyncio.to_thread(ask, port)

    assert b"no JSON object" in asyncio.run(asked())


def test_session_recording_too_long_is_refused() -> None:
    async def ask(micro: MicroService) -> Event:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            (event,) = await say(client, read_pcm(DEMO))
            return event

    with MicroService(limits=LimitOptions(max_audio_s=5.0)) as micro:
        event = asyncio.run(ask(micro))
    assert event.data["code"] == "too_large"
    assert "5 s" in event.data["text"]


def test_session_recordings_beyond_quota_are_refused() -> None:
    chunk = bytes(1 << 20)

    async def ask(micro: MicroService) -> Event | None:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as first,
        ):
            await first.write_event(AudioStart(16_000, 2, 1).event())
            for _ in range(3):
                await first.write_event(AudioChunk(16_000, 2, 1, chunk).event())
            await first.write_event(Ping().event())
            assert await first.read_event() is not None
            async with AsyncTcpClient("127.0.0.1", port) as second:
                await second.write_event(AudioChunk(16_000, 2, 1, chunk * 2).event())
                refused = await second.read_event()
        # Until the first one's connection is gone.
        while micro.service.wyoming_quota.n_bytes:
            await asyncio.sleep(0.01)
        return refused

    with MicroService(limits=LimitOptions(max_stored_mib=16)) as micro:
        event = asyncio.run(ask(micro))
    assert event is not None
    assert event.data["code"] == "busy"


def test_session_takes_no_place_of_http(micro: MicroService) -> None:
    """Wyoming has no keys: all that its clients may have leaves all for HTTP."""
    wyoming = micro.service.wyoming_quota
    with ExitStack() as taken:
        for number in range(wyoming.limits.queue):
            taken.enter_context(wyoming.hold_request(f"client {number}"))
        with pytest.raises(BusyError):
            taken.enter_context(wyoming.hold_request("another"))
        assert client(micro).get("/health").status_code == 200
        assert transcribe(client(micro)).status_code == 200
    assert wyoming.limits.queue == micro.service.quota.limits.queue // 2


def test_session_idle_connection_makes_room(micro: MicroService) -> None:
    async def ask() -> None:
        async with (
            wyoming_server(micro, most=1) as port,
            AsyncTcpClient("127.0.0.1", port) as idle,
        ):
            await idle.write_event(Describe().event())
            assert await idle.read_event() is not None
            async with AsyncTcpClient("127.0.0.1", port) as busy:
                await busy.write_event(AudioStart(16_000, 2, 1).event())
                await busy.write_event(Ping().event())
                assert await busy.read_event() is not None
                assert await idle.read_event() is None
                async with AsyncTcpClient("127.0.0.1", port) as refused:
                    assert await refused.read_event() is None
                await busy.write_event(Ping().event())
                assert await busy.read_event() is not None

    asyncio.run(ask())
