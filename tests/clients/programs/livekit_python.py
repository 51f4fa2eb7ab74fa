"""LiveKit's plug-in: `livekit_python.py ADDRESS WAV`."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from typing import Any

import aiohttp
from livekit import rtc
from livekit.agents import stt
from livekit.plugins import openai

ADDRESS, WAV = sys.argv[1:]
FRAME_BYTES = 3200
"""A tenth of a second at 16 kHz."""


def read_samples() -> bytes:
    with wave.open(WAV) as file:
        return file.readframes(file.getnframes())


def make_frame(samples: bytes) -> rtc.AudioFrame:
    return rtc.AudioFrame(samples, 16_000, 1, len(samples) // 2)


async def transcribe(case: str, speech: openai.STT) -> None:
    if not speech.capabilities.streaming:
        event = await speech.recognize(make_frame(read_samples()))
        report(case, [event.alternatives[0].text])
        return
    stream = speech.stream()
    sending = asyncio.create_task(send(stream))
    texts = []
    try:
        while True:
            event = await asyncio.wait_for(anext(stream), 15 if texts else 60)
            if event.type is stt.SpeechEventType.FINAL_TRANSCRIPT:
                texts.append(event.alternatives[0].text)
    except (TimeoutError, StopAsyncIteration):
        pass
    sending.cancel()
    await stream.aclose()
    report(case, texts)


async def send(stream: Any) -> None:
    sound = read_samples() + bytes(20 * FRAME_BYTES)
    for start in range(0, len(sound), FRAME_BYTES):
        stream.push_frame(make_frame(sound[start : start + FRAME_BYTES]))
        await asyncio.sleep(0.02)


def report(case: str, texts: list[str]) -> None:
    print(json.dumps({"case": case, "text": " ".join(texts)}), flush=True)


async def main() -> None:
    where = {"base_url": f"{ADDRESS}/v1", "api_key": "none"}
    semantic = {"type": "semantic_vad", "eagerness": "auto"}
    cases: dict[str, dict[str, Any]] = {
        "default": {},
        "realtime": {"use_realtime": True},
        "semantic turns": {"use_realtime": True, "turn_detection": semantic},
    }
    async with aiohttp.ClientSession() as session:
        for case, options in cases.items():
            speech = openai.STT(**where, **options)
            speech._session = session  # else it wants one of a job of its own
            await transcribe(case, speech)


if __name__ == "__main__":
    asyncio.run(main())
