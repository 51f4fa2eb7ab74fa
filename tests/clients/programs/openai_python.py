"""OpenAI's package: `openai_python.py ADDRESS WAV`."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import wave
from typing import Any

import numpy as np
from openai import AsyncOpenAI, OpenAI

ADDRESS, WAV = sys.argv[1:]
URL = f"{ADDRESS}/v1"
BLOCK_BYTES = 24_000
"""Half a second at 24 kHz."""


def report(case: str, text: str) -> None:
    print(json.dumps({"case": case, "text": text}), flush=True)


def ask(client: OpenAI, case: str, **options: Any) -> None:
    with open(WAV, "rb") as file:
        answer = client.audio.transcriptions.create(file=file, **options)
    if options.get("stream"):
        last = list(answer)[-1]
        assert last.type == "transcript.text.done", last
        report(case, last.text)
    else:
        report(case, answer if isinstance(answer, str) else answer.text)


def ask_all(client: OpenAI) -> None:
    for model in ("gpt-transcribe", "gpt-4o-mini-transcribe", "whisper-1"):
        ask(client, model, model=model)
    ask(client, "hub id", model="openai/whisper-micro")
    ask(
        client,
        "keywords and languages",
        model="gpt-transcribe",
        keywords=["Vienna"],
        languages=["en", "de"],
    )
    ask(client, "log probabilities", model="gpt-4o-transcribe", include=["logprobs"])
    ask(client, "chunking", model="gpt-4o-transcribe", chunking_strategy="auto")
    ask(client, "plain text", model="whisper-1", response_format="text")
    ask(client, "stream", model="gpt-transcribe", stream=True)
    ask(
        client,
        "words",
        model="whisper-1",
        response_format="verbose_json",
        timestamp_granularities=["word"],
    )


async def caption(case: str, model: str, **audio: Any) -> None:
    """Send the recording as a microphone does, and report the completed texts."""
    with wave.open(WAV) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    indices = np.arange(len(samples) * 3 // 2) / 1.5  # 16 to 24 kHz
    resampled = np.interp(indices, np.arange(len(samples)), samples)
    sound = resampled.astype("<i2").tobytes() + bytes(4 * BLOCK_BYTES)
    transcription = {"model": model, "language": "en"}
    session = {
        "type": "transcription",
        "audio": {"input": {"transcription": transcription, **audio}},
    }
    client = AsyncOpenAI(base_url=URL, api_key="none", max_retries=0)
    query = {"intent": "transcription"}
    texts = []
    async with client.realtime.connect(extra_query=query) as connection:
        await connection.session.update(session=session)
        for start in range(0, len(sound), BLOCK_BYTES):
            block = base64.b64encode(sound[start : start + BLOCK_BYTES]).decode()
            await connection.input_audio_buffer.append(audio=block)
        await connection.input_audio_buffer.commit()
        try:
            async with asyncio.timeout(60):
                while True:
                    # A pause that a text does not end is the end of them.
                    patience_s = 15 if texts else 60
                    event = await asyncio.wait_for(connection.recv(), patience_s)
                    assert event.type != "error" or texts, event
                    if event.type.endswith("input_audio_transcription.completed"):
                        texts.append(event.transcript)
        except TimeoutError:
            pass
    report(case, " ".join(texts))


def main() -> None:
    ask_all(OpenAI(base_url=URL, api_key="none", max_retries=0))
    asyncio.run(caption("realtime", "gpt-transcribe"))
    semantic = {"type": "semantic_vad"}
    asyncio.run(
        caption("semantic turns", "gpt-live-transcribe", turn_detection=semantic)
    )
    asyncio.run(caption("no turns", "gpt-realtime-whisper", turn_detection=None))


if __name__ == "__main__":
    main()
