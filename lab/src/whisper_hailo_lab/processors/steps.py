"""Logits and instructions of decoder steps; the same program on x86 and under emulation.

    python -m whisper_hailo_lab.processors.steps MODELS OUT.npz [--counter PATH]

`MODELS` holds the model directories of `prepare.py` with their inputs. A log-mel goes through the
encoder first, audio features do not. Then the first tokens of the transcript, or any tokens where
the weights are random, go through the decoder, whose logits are kept. With a counter
(count_instructions.c) the instructions of each step are printed as well, one line of JSON per
model.
"""

from __future__ import annotations

import argparse
import mmap
import platform
import struct
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.cli.streams import emit_json
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

N_STEPS: Final = 8
N_PROMPT: Final = 4


def open_counter(path: Path | None) -> Callable[[], int]:
    """Return a function that reads the instructions so far; always 0 without a counter."""
    if path is None:
        return lambda: 0
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    return lambda: int(struct.unpack("<Q", shared[:8])[0])


def run_steps(directory: Path, read: Callable[[], int]) -> tuple[FloatArray, list[int]]:
    """Return logits `(1 + steps, n_vocab)` of prompt and steps, and instructions of each step."""
    spec = ModelSpec.load(directory)
    features = load_features(directory, spec)
    tokens = load_tokens(directory)
    last = np.array([0], np.int64)
    with CachedDecoder(directory, spec, 1) as decoder:
        state = decoder.start(features, (Padding(spec.dims.n_audio_ctx),))
        prompt_end = np.array([N_PROMPT - 1], np.int64)
        output, state = decoder.step(tokens[:, :N_PROMPT], state, prompt_end)
        logits = [output.logits[0, -1].copy()]
        instructions = []
        for position in range(N_PROMPT, N_PROMPT + N_STEPS):
            before = read()
            output, state = decoder.step(
                tokens[:, position : position + 1], state, last
            )
            instructions.append(read() - before)
            logits.append(output.logits[0, -1].copy())
    return np.stack(logits), instructions


def load_tokens(directory: Path) -> IntArray:
    """Return `(1, n_tokens)` ids of prompt and steps; any ids without a transcript."""
    path = directory / "tokens.npy"
    if path.is_file():
        tokens: IntArray = np.load(path)[np.newaxis, : N_PROMPT + N_STEPS]
        return tokens
    return np.arange(1000, 1000 + N_PROMPT + N_STEPS, dtype=np.int64)[np.newaxis]


def load_features(directory: Path, spec: ModelSpec) -> FloatArray:
    """Return audio features, encoded here where a log-mel is given instead."""
    path = directory / "features.npy"
    if path.is_file():
        features: FloatArray = np.load(path)
        return features
    with OnnxEncoder(directory, spec, 1) as encoder:
        return encoder.encode(np.load(directory / "mel.npy"))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--counter", type=Path)
    arguments = parser.parse_args()
    read = open_counter(arguments.counter)
    empty = read()
    overhead = read() - empty
    logits: dict[str, Any] = {}
    for directory in sorted(
        path.parent for path in arguments.models.glob("*/model.json")
    ):
        logits[directory.name], instructions = run_steps(directory, read)
        # The first steps still allocate.
        per_step = round(median(instructions[2:])) - overhead
        emit_json(
            {
                "machine": platform.machine(),
                "model": directory.name,
                "instructions": per_step,
            }
        )
        # Whole after each: an emulated run takes long.
        np.savez(arguments.out, **logits)


if __name__ == "__main__":
    main()
