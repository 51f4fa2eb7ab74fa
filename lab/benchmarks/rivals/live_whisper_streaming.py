"""whisper_streaming with faster-whisper as a program of standard input: WEIGHTS WARM_UP SOURCE.

SOURCE is a copy of its repository. As its server does it: at least a second is heard each time,
faster-whisper's own filter of voice activity is on (`--vad`). Its class asks for a GPU, so that the
model is opened here, with 8 bits. Running text is told, too, which its server keeps to itself.
"""

import json
import sys

import numpy as np
from faster_whisper import WhisperModel

RATE_HZ = 16_000
CHUNK_S = 1.0


def main() -> None:
    weights, warm_up, source = sys.argv[1:]
    sys.path.insert(0, source)
    import whisper_online

    class OnProcessor(whisper_online.FasterWhisperASR):
        def load_model(self, *_: object) -> WhisperModel:
            return WhisperModel(weights, device="cpu", compute_type="int8")

    heard = OnProcessor(lan="en")
    heard.use_vad()
    heard.transcribe(whisper_online.load_audio(warm_up))
    online = whisper_online.OnlineASRProcessor(heard, buffer_trimming=("segment", 15))
    print("ready", file=sys.stderr, flush=True)
    settled: list[str] = []
    while chunk := sys.stdin.buffer.read(round(CHUNK_S * RATE_HZ) * 2):
        online.insert_audio_chunk(np.frombuffer(chunk, "<i2").astype(np.float32) / 32768)
        settled.append(online.process_iter()[2])
        tell(settled, online.to_flush(online.transcript_buffer.complete())[2])
    settled.append(online.finish()[2])
    tell(settled, "")


def tell(settled: list[str], running: str) -> None:
    print(json.dumps({"settled": "".join(settled), "running": running}), flush=True)


if __name__ == "__main__":
    main()
