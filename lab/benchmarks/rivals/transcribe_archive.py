"""Other programs' batched pipelines on a list of recordings, each program as its pages show it.

    python transcribe_archive.py SYSTEM MODEL RECORDINGS OUT [--beam 1]

RECORDINGS and OUT are JSON lines: `{"id": ..., "audio": ...}` in, `{"id": ..., "text": ...}` out.
Runs with PYTHONPATH=src:tools/src:lab/src in the environment of the system that `make lab
NAME=rivals` makes. MODEL is a folder in CTranslate2's format for `faster-whisper`, and a checkpoint
for `transformers`. One thread computes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ

FASTER_WHISPER_BATCH = 8
"""Chunks of a recording that are decoded together: its default."""

TRANSFORMERS_BATCH = 24
"""Chunks that are decoded together: the default of `insanely-fast-whisper`."""


def run_faster_whisper(
    chosen: argparse.Namespace, recordings: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield texts by `BatchedInferencePipeline`, which batches the chunks of one recording."""
    import faster_whisper

    model = faster_whisper.WhisperModel(
        chosen.model, device="cpu", compute_type="int8", cpu_threads=1
    )
    pipeline = faster_whisper.BatchedInferencePipeline(model)
    for recording in recordings:
        segments, _ = pipeline.transcribe(
            recording["audio"], batch_size=FASTER_WHISPER_BATCH, beam_size=chosen.beam
        )
        yield "".join(segment.text for segment in segments)


def run_transformers(
    chosen: argparse.Namespace, recordings: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield texts by Transformers' pipeline, called as `insanely-fast-whisper` calls it.

    Chunks of all recordings are decoded together, in float32 as there is no GPU.
    """
    import torch
    from transformers import (
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperTokenizer,
        pipeline,
    )

    torch.set_num_threads(1)
    tokenizer = WhisperTokenizer.from_pretrained(chosen.model)
    tokenizer.pad_token = tokenizer.eos_token
    transcribe = pipeline(
        "automatic-speech-recognition",
        model=WhisperForConditionalGeneration.from_pretrained(
            chosen.model, dtype=torch.float32
        ),
        tokenizer=tokenizer,
        feature_extractor=WhisperFeatureExtractor.from_pretrained(chosen.model),
        device="cpu",
    )
    audio = (
        {"raw": load_audio(recording["audio"]), "sampling_rate": SAMPLE_RATE_HZ}
        for recording in recordings
    )
    results = transcribe(
        audio,
        chunk_length_s=30,
        batch_size=TRANSFORMERS_BATCH,
        return_timestamps=True,
        generate_kwargs={"task": "transcribe", "num_beams": chosen.beam},
    )
    for result in results:
        yield result["text"]


SYSTEMS = {"faster-whisper": run_faster_whisper, "transformers": run_transformers}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("model")
    parser.add_argument("recordings", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--beam", type=int, default=1)
    chosen = parser.parse_args()
    lines = chosen.recordings.read_text(encoding="utf-8").splitlines()
    recordings = [json.loads(line) for line in lines]
    texts = SYSTEMS[chosen.system](chosen, recordings)
    with chosen.out.open("w", encoding="utf-8") as file:
        for recording, text in zip(recordings, texts, strict=True):
            line = json.dumps({"id": recording["id"], "text": text})
            file.write(f"{line}\n")


if __name__ == "__main__":
    main()
