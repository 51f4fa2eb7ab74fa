"""Wyoming, as its own client speaks it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    GERMAN,
    OPTIONS,
    SHORT,
    MicroService,
)
from tests.fakes.speech_clients import (
    heard,
    read_pcm,
    say,
    wyoming_server,
)
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import FloatArray
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo.serve.request import Choices
from whisper_hailo.serve.ticket import Ticket
from whisper_hailo_lab.experiments.invented_home import TOKEN, Home, home_assistant_api

pytestmark = pytest.mark.slow


def test_session_describe_and_ping_are_answered(micro: MicroService) -> None:
    async def ask() -> Info:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
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
def test_session_chunks_of_any_size_are_kept(
    micro: MicroService, sizes: tuple[int, ...]
) -> None:
    data = read_pcm(DEMO)[:96_000] if sizes[0] == 1 else read_pcm(DEMO)

    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            return heard(await say(client, data, sizes=sizes))

    text = asyncio.run(ask())
    whole = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    assert text == asyncio.run(micro.text(whole))


@pytest.mark.parametrize(
    "form", [(8_000, 2, 1), (44_100, 2, 2), (48_000, 4, 1), (22_050, 3, 1)]
)
def test_session_sample_formats_are_decoded(
    micro: MicroService,
    transcriber: Transcriber,
    form: tuple[int, int, int],
    tmp_path: Any,
) -> None:
    import soundfile
    import soxr

    rate_hz, width, n_channels = form
    mono = soxr.resample(load_audio(DEMO), 16_000, rate_hz)
    sound = np.repeat(mono[:, np.newaxis], n_channels, axis=1)
    file = tmp_path / "a.wav"
    soundfile.write(
        file, sound, rate_hz, subtype={2: "PCM_16", 3: "PCM_24", 4: "PCM_32"}[width]
    )
    data = file.read_bytes()
    data = data[data.index(b"data") + 8 :]

    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            return heard(await say(client, data, form=form, sizes=(1000,)))

    assert asyncio.run(ask()) == transcriber.transcribe(file, OPTIONS).text


def test_session_language_and_model_are_honoured(
    micro: MicroService, transcriber: Transcriber
) -> None:
    async def ask(**asked: Any) -> list[Event]:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            return await say(client, read_pcm(GERMAN[0]), **asked)

    audio = load_audio(GERMAN[0])
    for language, code in (("de", "de"), ("en", "en"), ("de-DE", "de")):
        events = asyncio.run(ask(language=language))
        alone = transcriber.transcribe(audio, replace(OPTIONS, language=code))
        assert heard(events) == alone.text
        assert events[-2].data["language"] == code
    assert heard(asyncio.run(ask(name="micro", language="de")))
    (error,) = asyncio.run(ask(name="other"))
    assert error.type == "error"
    assert "'other'" in error.data["text"]
    (error,) = asyncio.run(ask(language="xx"))
    assert "xx" in error.data["text"]


def test_session_many_names_are_no_error(micro: MicroService) -> None:
    async def ask(names: list[str]) -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            return heard(await say(client, read_pcm(DEMO), transcript_names=names))

    many = [f"lamp {n}" for n in range(2000)]
    assert asyncio.run(ask(many[:3])) == asyncio.run(ask(many)) == asyncio.run(ask([]))


def test_session_expects_the_names_of_home_assistant(
    micro: MicroService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    expected: list[str | None] = []
    submit = micro.service.submit

    def note(audio: FloatArray, choices: Choices, *rest: Any, **more: Any) -> Ticket:
        expected.append(choices.hotwords)
        return submit(audio, choices, *rest, **more)

    monkeypatch.setattr(micro.service, "submit", note)

    async def ask(home: HomeAssistantOptions) -> None:
        async with (
            wyoming_server(micro, home=home) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            for _ in range(100):  # until the names have come
                await say(client, read_pcm(SHORT), transcript_names=["Anna"])
                if expected[-1] != "Anna":
                    return

    with home_assistant_api(Home(areas={"Snug": ["Den"]})) as address:
        asyncio.run(ask(HomeAssistantOptions(address, token_file)))
    assert expected[-1] == "Anna, Snug, Den, snug, den"


def test_session_takes_several_recordings(micro: MicroService) -> None:
    async def ask() -> list[str]:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            return [
                heard(await say(client, read_pcm(path)))
                for path in (DEMO, GERMAN[0], DEMO)
            ]

    texts = asyncio.run(ask())
    assert texts[0] == texts[2] == DEMO_TEXT
    assert texts[1] != DEMO_TEXT


def test_sessions_ten_at_once_get_their_own_text(micro: MicroService) -> None:
    async def ask() -> list[str]:
        async with wyoming_server(micro) as port:

            async def one(number: int) -> str:
                async with AsyncTcpClient("127.0.0.1", port) as client:
                    path = (DEMO, GERMAN[0])[number % 2]
                    return heard(await say(client, read_pcm(path)))

            return await asyncio.gather(*map(one, range(10)))

    texts = asyncio.run(ask())
    assert texts == texts[:2] * 5
    assert texts[0] == DEMO_TEXT


def test_session_events_of_other_services_are_ignored(micro: MicroService) -> None:
    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await client.write_event(Event("synthesize", {"text": "hello"}))
            return heard(await say(client, read_pcm(DEMO)))

    assert asyncio.run(ask()) == DEMO_TEXT
