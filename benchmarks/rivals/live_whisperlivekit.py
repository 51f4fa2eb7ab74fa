"""WhisperLiveKit with faster-whisper as a program of standard input: WEIGHTS (of CTranslate2).

LocalAgreement, its policy for faster-whisper, with its own voice activity; all else by default.
Each line says what its page would show; nothing of its server or its socket is paid for.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import soundfile
from whisperlivekit import AudioProcessor, TranscriptionEngine
from whisperlivekit.timed_objects import FrontData

BLOCK_BYTES = 3200  # 0.1 s


async def stream(engine: TranscriptionEngine) -> None:
    processor = AudioProcessor(transcription_engine=engine, mode="full")
    results = await processor.create_tasks()
    telling = asyncio.create_task(tell(results))
    while block := await asyncio.to_thread(sys.stdin.buffer.read, BLOCK_BYTES):
        await processor.process_audio(block)
    await processor.process_audio(b"")
    await telling
    await processor.cleanup()


async def tell(results: AsyncIterator[FrontData]) -> None:
    before = None
    async for result in results:
        settled = "".join(line.text or "" for line in result.lines)
        if before != (before := (settled, result.buffer_transcription)):
            print(json.dumps({"settled": settled, "running": before[1]}), flush=True)


def main() -> None:
    weights, warm_up = sys.argv[1:]
    soundfile.info(warm_up)  # it would fetch one
    engine = TranscriptionEngine(
        model_path=weights, backend="faster-whisper", backend_policy="localagreement", lan="en",
        pcm_input=True, warmup_file=warm_up,
    )  # fmt: skip
    print("ready", file=sys.stderr, flush=True)
    asyncio.run(stream(engine))


if __name__ == "__main__":
    main()
