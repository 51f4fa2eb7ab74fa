"""WhisperLiveKit as a program of standard input: WEIGHTS (of CTranslate2) WARM_UP [DECODER].

Without DECODER it is LocalAgreement, with faster-whisper; with it, AlignAtt: OpenAI's `.pt` file of
the same checkpoint is its decoder, and faster-whisper the encoder. Its own voice activity; all else
by default. Each line says what its page would show; nothing of its server or socket is paid for.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import soundfile
from whisperlivekit import AudioProcessor, TranscriptionEngine
from whisperlivekit.timed_objects import FrontData
from whisperlivekit.whisper import _ALIGNMENT_HEADS

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


def policy(weights: str, decoder: str) -> dict[str, str]:
    """Its options for one of its two policies."""
    if not decoder:
        return {
            "model_path": weights, "backend": "faster-whisper", "backend_policy": "localagreement",
        }  # fmt: skip
    return {
        "encoder_model_path": weights, "decoder_model_path": decoder, "backend": "faster-whisper",
        "backend_policy": "simulstreaming",
        "custom_alignment_heads": _ALIGNMENT_HEADS[Path(decoder).stem].decode(),
    }  # fmt: skip


def main() -> None:
    weights, warm_up, *decoder = sys.argv[1:]
    soundfile.info(warm_up)  # it would fetch one
    options = policy(weights, "".join(decoder))
    engine = TranscriptionEngine(lan="en", pcm_input=True, warmup_file=warm_up, **options)
    print("ready", file=sys.stderr, flush=True)
    asyncio.run(stream(engine))


if __name__ == "__main__":
    main()
