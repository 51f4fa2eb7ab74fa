"""Eight windows in one batch against one by one: the decoder stage, and the whole recording.

    python -m whisper_hailo_lab.speed.batch MODEL QUANTIZE THREADS AUDIO|-

`-` is noise, eight windows of it, 28 tokens each; else a recording of speech.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber

ROUNDS: Final = 4
WINDOWS: Final = 8
WINDOW_S: Final = 10.0


def measure(model: str, quantize: str, threads: int, audio: str) -> dict[str, Any]:
    """Times of one by one and of a batch, in turns; whether their texts are the same."""
    noise = audio == "-"
    convert = ConvertOptions(quantize=quantize, encoder_quantize="int8")
    options = DecodingOptions(language="en", max_new_tokens=28 if noise else None)
    # Windows that overlap are joined by the times of words, which cost as much in both.
    long = LongOptions(strategy="consecutive")
    audio_samples = _noise() if noise else load_audio(Path(audio))
    decode_ms: dict[int, list[float]] = {1: [], WINDOWS: []}
    whole_ms: dict[int, list[float]] = {1: [], WINDOWS: []}
    texts: dict[int, Transcript] = {}
    with Transcriber.from_model(
        model, convert=convert, margin_s=0.0 if noise else None, threads=threads
    ) as opened:
        in_turn = replace(opened, encode_ahead=False)

        for number in range(1 + ROUNDS):
            for size in (1, WINDOWS) if number % 2 else (WINDOWS, 1):
                begin = perf_counter()
                said = in_turn.transcribe(audio_samples, options, long=long, batch_size=size)
                taken_ms = (perf_counter() - begin) * 1000.0
                texts[size] = said
                if number:
                    stages = said.timings
                    decode_ms[size].append(stages.cross_kv_ms + stages.decode_ms)
                    whole_ms[size].append(taken_ms)
    return {
        "model": Path(model).name,
        "decoder": "float32" if quantize == "none" else quantize,
        "threads": threads,
        "audio_s": audio_samples.size / SAMPLE_RATE_HZ,
        "one_ms": float(np.median(decode_ms[1])),
        "batch_ms": float(np.median(decode_ms[WINDOWS])),
        "ratio": float(np.median(np.array(decode_ms[1]) / np.array(decode_ms[WINDOWS]))),
        "whole_ratio": float(np.median(np.array(whole_ms[1]) / np.array(whole_ms[WINDOWS]))),
        "same_text": texts[1].text == texts[WINDOWS].text,
        "tokens": sum(len(segment.tokens) for segment in texts[WINDOWS].segments),
    }


def _noise() -> FloatArray:
    n_samples = round(WINDOWS * WINDOW_S * SAMPLE_RATE_HZ)
    drawn: FloatArray = np.random.default_rng(0).standard_normal(n_samples, dtype=np.float32)
    return np.float32(0.1) * drawn


if __name__ == "__main__":
    found = measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    sys.stdout.write(json.dumps(found) + "\n")
