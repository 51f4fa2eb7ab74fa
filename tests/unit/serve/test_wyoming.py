"""Wyoming, as its own client speaks it."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping

from tests.unit.serve.house import DEMO, DEMO_TEXT, GERMAN, LONG, OPTIONS, House
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.serve.audio import AudioLimits
from whisper_hailo.serve.doors.wyoming import WyomingDoor
from whisper_hailo.serve.doors.wyoming_wire import LINE_BYTES
from whisper_hailo.serve.room import Room
from whisper_hailo.serve.worker import WorkerOptions

pytestmark = pytest.mark.slow


@asynccontextmanager
async def door(house: House, most: int = 16) -> AsyncIterator[int]:
    """The port of a door that is open."""
    opened = WyomingDoor(house.engine, most)
    server = await asyncio.start_server(opened.connected, "127.0.0.1", 0, limit=LINE_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await opened.close()


def pcm(path: Any) -> bytes:
    """Samples of 16 bits at 16 kHz."""
    return (load_audio(path) * 32767).round().astype("<i2").tobytes()


async def say(
    client: AsyncTcpClient,
    data: bytes,
    *,
    sizes: Sequence[int] = (2048,),
    form: tuple[int, int, int] = (16_000, 2, 1),
    **asked: Any,
) -> list[Event]:
    """Send a recording in chunks of some sizes; what comes until the stream of text is over."""
    await client.write_event(Transcribe(**asked).event())
    await client.write_event(AudioStart(*form).event())
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        await client.write_event(AudioChunk(*form, audio=data[at : at + size]).event())
        at, number = at + size, number + 1
    await client.write_event(AudioStop().event())
    events: list[Event] = []
    while not events or events[-1].type not in {"transcript-stop", "error"}:
        event = await client.read_event()
        assert event is not None
        events.append(event)
    return events


def heard(events: list[Event]) -> str:
    """The text of a whole answer."""
    (whole,) = [event for event in events if event.type == "transcript"]
    chunks = [event.data["text"] for event in events if event.type == "transcript-chunk"]
    assert "".join(chunks) == whole.data["text"]
    return str(whole.data["text"])


def test_it_says_what_it_is(house: House) -> None:
    async def ask() -> Info:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Ping(text="there?").event())
            pong = await client.read_event()
            assert pong is not None
            assert pong.data["text"] == "there?"
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return Info.from_event(event)

    (program,) = asyncio.run(ask()).asr
    assert program.supports_transcript_streaming
    (model,) = program.models
    assert model.name == "micro"
    assert set(model.languages) == {"en", "de"}


@pytest.mark.parametrize("sizes", [(2048,), (1, 3, 7, 4001), (10_000_000,)])
def test_every_chunk_is_kept_whatever_its_size(house: House, sizes: tuple[int, ...]) -> None:
    data = pcm(DEMO)[:96_000] if sizes[0] == 1 else pcm(DEMO)

    async def ask() -> str:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            return heard(await say(client, data, sizes=sizes))

    text = asyncio.run(ask())
    whole = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    assert text == asyncio.run(house.text(whole))


@pytest.mark.parametrize("form", [(8_000, 2, 1), (44_100, 2, 2), (48_000, 4, 1), (22_050, 3, 1)])
def test_every_form_of_samples_is_heard(
    house: House, transcriber: Transcriber, form: tuple[int, int, int], tmp_path: Any
) -> None:
    import soundfile
    import soxr

    rate_hz, width, n_channels = form
    mono = soxr.resample(load_audio(DEMO), 16_000, rate_hz)
    sound = np.repeat(mono[:, np.newaxis], n_channels, axis=1)
    file = tmp_path / "a.wav"
    soundfile.write(file, sound, rate_hz, subtype={2: "PCM_16", 3: "PCM_24", 4: "PCM_32"}[width])
    data = file.read_bytes()
    data = data[data.index(b"data") + 8 :]

    async def ask() -> str:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            return heard(await say(client, data, form=form, sizes=(1000,)))

    assert asyncio.run(ask()) == transcriber.transcribe(file, OPTIONS).text


def test_the_form_may_change_within_a_recording(house: House) -> None:
    data = pcm(DEMO)
    half = len(data) // 2

    async def ask() -> str:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(AudioStart(16_000, 2, 1).event())
            await client.write_event(AudioChunk(16_000, 2, 1, data[:half]).event())
            stereo = np.repeat(np.frombuffer(data[half:], "<i2"), 2).tobytes()
            await client.write_event(AudioChunk(16_000, 2, 2, stereo).event())
            await client.write_event(AudioStop().event())
            events: list[Event] = []
            while not events or events[-1].type != "transcript-stop":
                event = await client.read_event()
                assert event is not None
                events.append(event)
            return heard(events)

    assert asyncio.run(ask()) == DEMO_TEXT


def test_language_and_names_are_honoured(house: House, transcriber: Transcriber) -> None:
    async def ask(**asked: Any) -> list[Event]:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            return await say(client, pcm(GERMAN[0]), **asked)

    audio = load_audio(GERMAN[0])
    for language, code in (("de", "de"), ("en", "en"), ("de-DE", "de")):
        events = asyncio.run(ask(language=language))
        alone = transcriber.transcribe(audio, replace(OPTIONS, language=code))
        assert heard(events) == alone.text
        assert events[-2].data["language"] == code
    assert heard(asyncio.run(ask(name="micro", language="de")))
    (error,) = asyncio.run(ask(name="other"))
    assert error.type == "error"
    assert "'other' is not served" in error.data["text"]
    (error,) = asyncio.run(ask(language="xx"))
    assert "xx" in error.data["text"]


def test_names_to_expect_are_shown_as_far_as_the_model_takes_them(house: House) -> None:
    async def ask(names: list[str]) -> str:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            return heard(await say(client, pcm(DEMO), transcript_names=names))

    few, many = (f"lamp {number}" for number in range(3)), [f"lamp {n}" for n in range(400)]
    request = house.engine.request(load_audio(DEMO), *_choices(many))
    shown = request.options.prompts.hotwords or ""
    assert shown.startswith("lamp 0, lamp 1, ")
    assert 10 < len(shown.split(", ")) < 100
    assert asyncio.run(ask(list(few)))
    assert asyncio.run(ask(many))


def _choices(names: list[str]) -> tuple[Any, Any]:
    from tests.unit.serve.house import caller
    from whisper_hailo.serve.request import Choices

    return Choices(hints=tuple(names)), caller()


def test_one_connection_asks_again_and_again(house: House) -> None:
    async def ask() -> list[str]:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            return [heard(await say(client, pcm(path))) for path in (DEMO, GERMAN[0], DEMO)]

    texts = asyncio.run(ask())
    assert texts[0] == texts[2] == DEMO_TEXT
    assert texts[1] != DEMO_TEXT


def test_ten_at_once_get_their_own(house: House) -> None:
    async def ask() -> list[str]:
        async with door(house) as port:

            async def one(number: int) -> str:
                async with AsyncTcpClient("127.0.0.1", port) as client:
                    path = (DEMO, GERMAN[0])[number % 2]
                    return heard(await say(client, pcm(path)))

            return await asyncio.gather(*map(one, range(10)))

    texts = asyncio.run(ask())
    assert texts == texts[:2] * 5
    assert texts[0] == DEMO_TEXT


def test_who_hangs_up_frees_the_place() -> None:
    async def ask(house: House) -> None:
        async with door(house) as port:
            async with AsyncTcpClient("127.0.0.1", port) as client:
                await client.write_event(AudioStart(16_000, 2, 1).event())
                for _ in range(100):
                    await client.write_event(AudioChunk(16_000, 2, 1, pcm(LONG[0])).event())
                await client.write_event(AudioStop().event())
                event = await client.read_event()
                assert event is not None
                assert house.worker.queue.n_unfinished == 1
            while house.worker.queue.n_unfinished:
                await asyncio.sleep(0.01)
            async with AsyncTcpClient("127.0.0.1", port) as client:
                assert heard(await say(client, pcm(DEMO))) == DEMO_TEXT

    with House(WorkerOptions(queue=1)) as house:
        asyncio.run(ask(house))


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no JSON"),
        (b"[]\n", "no JSON object"),
        (b'{"type": 5}\n', "no type"),
        (b'{"type": "ping", "data": 5}\n', "no object"),
        (b'{"type": "ping", "data_length": 99999999999}\n', "data_length is 99999999999"),
        (b'{"type": "audio-chunk", "payload_length": -1}\n', "payload_length is -1"),
        (b'{"type": "audio-chunk", "payload_length": "many"}\n', "payload_length is many"),
        (b'{"type": "audio-chunk", "payload_length": 2}\nxx', "no rate, width and channels"),
        (b'{"type": "audio-chunk", "data": {"rate": 0, "width": 2, "channels": 1}}\n', "no rate"),
        (b'{"type": "transcribe", "data": {"name": 5}}\n', "no text"),
        (b'{"type": "transcribe", "data": {"transcript_names": 2.5}}\n', "no list of texts"),
        (b'{"type": "transcribe", "data": {"transcript_terms": [[]]}}\n', "no list of texts"),
        (b'{"type": "ping", "data": {"text": "\\ud800"}}\n', "no JSON"),
        (b"x" * 200_000, "more than 65536 bytes"),
        (b"[" * 60_000 + b"\n", "no JSON"),
        (b'{"type": "audio-stop"}\n', "no sound came"),
        (
            b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 7, "channels": 1}, '
            b'"payload_length": 7}\nsamples{"type": "audio-stop"}\n',
            "samples of 7 bytes",
        ),
    ],
)
def test_what_is_no_event_is_told_and_ends_the_connection(
    house: House, sent: bytes, told: str
) -> None:
    async def ask() -> bytes:
        async with door(house) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            answer = await reader.read()
            writer.close()
            return answer

    head, _, rest = asyncio.run(ask()).partition(b"\n")
    assert json.loads(head)["type"] == "error"
    assert told in json.loads(rest)["text"]


def test_who_is_sent_away_in_the_middle_can_read_why(house: House) -> None:
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
        async with door(house) as port:
            return await asyncio.to_thread(ask, port)

    assert b"no JSON object" in asyncio.run(asked())


def test_events_of_other_services_are_left(house: House) -> None:
    async def ask() -> str:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Event("synthesize", {"text": "hello"}))
            return heard(await say(client, pcm(DEMO)))

    assert asyncio.run(ask()) == DEMO_TEXT


def test_a_recording_without_an_end_is_stopped() -> None:
    async def ask(house: House) -> Event:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as client:
            (event,) = await say(client, pcm(DEMO))
            return event

    with House(limits=AudioLimits(seconds=5.0)) as house:
        event = asyncio.run(ask(house))
    assert event.data["code"] == "too_large"
    assert "expected 5 s at most" in event.data["text"]


def test_recordings_of_all_connections_have_room_or_are_refused() -> None:
    chunk = bytes(1 << 20)

    async def ask(house: House) -> Event | None:
        async with door(house) as port, AsyncTcpClient("127.0.0.1", port) as first:
            await first.write_event(AudioStart(16_000, 2, 1).event())
            for _ in range(3):
                await first.write_event(AudioChunk(16_000, 2, 1, chunk).event())
            await first.write_event(Ping().event())
            assert await first.read_event() is not None
            async with AsyncTcpClient("127.0.0.1", port) as second:
                await second.write_event(AudioChunk(16_000, 2, 1, chunk * 2).event())
                refused = await second.read_event()
        while house.engine.room.n_bytes:  # until the first one's connection is gone
            await asyncio.sleep(0.01)
        return refused

    with House(room=Room(4 << 20)) as house:
        event = asyncio.run(ask(house))
    assert event is not None
    assert event.data["code"] == "busy"


def test_connections_are_so_many_at_most(house: House) -> None:
    async def ask() -> None:
        async with door(house, most=1) as port, AsyncTcpClient("127.0.0.1", port) as first:
            await first.write_event(Describe().event())
            assert await first.read_event() is not None
            async with AsyncTcpClient("127.0.0.1", port) as second:
                assert await second.read_event() is None

    asyncio.run(ask())
