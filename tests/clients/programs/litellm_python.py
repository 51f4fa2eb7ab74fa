"""litellm: `litellm_python.py ADDRESS WAV`."""

from __future__ import annotations

import json
import sys

import litellm

ADDRESS, WAV = sys.argv[1:]
MODELS = ("openai/gpt-transcribe", "openai/whisper-1", "openai/gpt-4o-transcribe")


def main() -> None:
    for model in MODELS:
        with open(WAV, "rb") as file:
            answer = litellm.transcription(
                model=model, file=file, api_base=f"{ADDRESS}/v1", api_key="none"
            )
        print(json.dumps({"case": model, "text": answer.text}), flush=True)


if __name__ == "__main__":
    main()
