"""From a fresh process to the first text, by ours: MODEL AUDIO THREADS."""

import json
import sys
from pathlib import Path

from whisper_hailo import Transcriber
from whisper_hailo.decoding.options import DecodingOptions


def main() -> None:
    model, audio, threads = sys.argv[1:]
    with Transcriber.from_model(model, threads=int(threads)) as transcriber:
        options = DecodingOptions(language="en", max_new_tokens=28)
        text = transcriber.transcribe(Path(audio), options).text
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    print(json.dumps({"text": text, "peak_mib": int(peak.split()[1]) / 1024}), flush=True)


if __name__ == "__main__":
    main()
