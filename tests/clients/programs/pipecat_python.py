"""pipecat's services: `pipecat_python.py ADDRESS WAV`."""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from pathlib import Path

from pipecat.frames.frames import (
    InputAudioRawFrame,
    TranscriptionFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.services.openai.stt import OpenAIRealtimeSTTService, OpenAISTTService
from pipecat.tests.utils import SleepFrame, run_test

ADDRESS, WAV = sys.argv[1:]
FRAME_BYTES = 3200
"""A tenth of a second at 16 kHz."""


def report(case: str, text: str) -> None:
    print(json.dumps({"case": case, "text": text}), flush=True)


async def main() -> None:
    upload = OpenAISTTService(api_key="none", base_url=f"{ADDRESS}/v1")
    answer = await upload._transcribe(Path(WAV).read_bytes())
    report("default", answer.text)
    address = ADDRESS.replace("http", "ws", 1)
    live = OpenAIRealtimeSTTService(api_key="none", base_url=f"{address}/v1/realtime")
    with wave.open(WAV) as file:
        sound = file.readframes(file.getnframes()) + bytes(20 * FRAME_BYTES)
    frames = [SleepFrame(1)]
    for start in range(0, len(sound), FRAME_BYTES):
        samples = sound[start : start + FRAME_BYTES]
        frames.append(
            InputAudioRawFrame(audio=samples, sample_rate=16_000, num_channels=1)
        )
        frames.append(SleepFrame(0.02))
    frames += [SleepFrame(1), VADUserStoppedSpeakingFrame(), SleepFrame(15)]
    down, _ = await run_test(live, frames_to_send=frames, expected_down_frames=None)
    texts = [frame.text for frame in down if isinstance(frame, TranscriptionFrame)]
    report("realtime", " ".join(texts))


if __name__ == "__main__":
    asyncio.run(main())
