"""`/v1/realtime` of the `serve` command, with OpenAI's client."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soxr

from tests.e2e.conftest import DEMO, DEMO_TEXT
from tests.e2e.serving import serve
from whisper_hailo.audio import load_audio
from whisper_hailo_lab.clip_archives import unpack_clips

openai = pytest.importorskip(
    "openai", reason="openai is not installed: requirements/dev.txt"
)
pytest.importorskip("fastapi", reason="the server extra is not installed")

# OpenAI's client uses `websockets` in a way that is deprecated there.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:connect\(\) must be used:DeprecationWarning"
)

KEY = "a key of this test"
GERMAN = sorted((unpack_clips() / "german").glob("*.ogg"))[0]
WANTED = {"intent": "transcription"}
DONE = "conversation.item.input_audio_transcription.completed"


@pytest.fixture(scope="module")
def server(environment: dict[str, str]) -> Iterator[str]:
    """Address of the server."""
    with serve(environment, "--http", "127.0.0.1:0", "--api-key", KEY) as served:
        yield served.wait_for(r"serving at (http\S+)")
        assert served.end() == 0
        assert "api=realtime" in served.said
        assert DEMO_TEXT not in served.said


def encode_pieces(path: Any) -> list[str]:
    """Return a recording as clients send it: a fifth of a second at a time."""
    samples = soxr.resample(load_audio(path), 16_000, 24_000)
    raw = (np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes()
    return [
        base64.b64encode(raw[at : at + 9_600]).decode()
        for at in range(0, len(raw), 9_600)
    ]


def make_settings(turns: Any, **of_input: Any) -> dict[str, Any]:
    """Return settings of a session."""
    return {
        "type": "transcription",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "whisper-1"},
                "turn_detection": turns,
                **of_input,
            }
        },
    }


def test_openai_client_gets_text_of_its_commit(server: str) -> None:
    with (
        openai.OpenAI(base_url=f"{server}/v1", api_key=KEY) as client,
        client.realtime.connect(extra_query=WANTED) as talk,
    ):
        assert talk.recv().type == "session.created"
        talk.session.update(session=make_settings(None))
        updated = talk.recv()
        assert updated.type == "session.updated"
        assert updated.session.audio.input.turn_detection is None
        for piece in encode_pieces(DEMO):
            talk.input_audio_buffer.append(audio=piece)
        talk.input_audio_buffer.commit()
        deltas = ""
        while (event := talk.recv()).type != DONE:
            deltas += getattr(event, "delta", "")
        assert event.transcript == deltas == DEMO_TEXT
        assert event.usage.type == "duration"


def test_openai_async_client_gets_each_turn(server: str) -> None:
    async def ask() -> list[str]:
        kinds = []
        async with (
            openai.AsyncOpenAI(base_url=f"{server}/v1", api_key=KEY) as client,
            client.realtime.connect(model="micro", extra_query=WANTED) as talk,
        ):
            turns = {"type": "server_vad", "silence_duration_ms": 500}
            await talk.session.update(session=make_settings(turns))
            silence = base64.b64encode(bytes(48_000)).decode()
            for piece in [*encode_pieces(GERMAN), silence]:
                await talk.input_audio_buffer.append(audio=piece)
            async for event in talk:
                assert event.type != "error", event
                kinds.append(event.type)
                if event.type == DONE:
                    assert event.transcript
                    break
        return kinds

    kinds = asyncio.run(ask())
    order = (
        "session.created",
        "session.updated",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        DONE,
    )
    assert [kind for kind in kinds if kind in order] == list(order)


def test_openai_client_gets_error_events(server: str) -> None:
    with (
        openai.OpenAI(base_url=f"{server}/v1", api_key=KEY) as client,
        client.realtime.connect(extra_query=WANTED) as talk,
    ):
        assert talk.recv().type == "session.created"
        talk.input_audio_buffer.commit(event_id="mine")
        event = talk.recv()
        assert event.type == "error"
        assert event.error.code == "input_audio_buffer_commit_empty"
        assert event.error.event_id == "mine"
    with (
        openai.OpenAI(base_url=f"{server}/v1", api_key="guessed") as stranger,
        pytest.raises(Exception, match="401"),
        stranger.realtime.connect(extra_query=WANTED),
    ):
        pass


def test_openai_clients_get_their_own_text(server: str) -> None:
    async def transcribe_stream(client: Any, path: Any) -> str:
        async with client.realtime.connect(extra_query=WANTED) as talk:
            await talk.session.update(session=make_settings(None))
            for piece in encode_pieces(path):
                await talk.input_audio_buffer.append(audio=piece)
            await talk.input_audio_buffer.commit()
            async for event in talk:
                if event.type == DONE:
                    return str(event.transcript)
        raise AssertionError("the session ended before its item")

    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key=KEY) as client:
            recordings = [
                client.audio.transcriptions.create(file=DEMO, model="whisper-1")
                for _ in range(4)
            ]
            streams = [transcribe_stream(client, path) for path in (DEMO, GERMAN) * 3]
            texts = await asyncio.gather(*streams, *recordings)
            return [*texts[:6], *(answer.text for answer in texts[6:])]

    texts = asyncio.run(ask())
    assert texts[:2] * 3 == texts[:6]
    assert {texts[0], *texts[6:]} == {DEMO_TEXT}
    assert texts[1] != DEMO_TEXT
