"""Logits and instructions of decoder steps, the same program on x86 and under emulation of aarch64.

    python -m whisper_hailo_lab.processors.steps MODELS OUT.npz [--counter PATH]

`MODELS` is what `prepare.py` made: model directories with the input of each. A log-mel goes through
the encoder first, audio features do not; then the first tokens of what is said there, or any where
the weights are random, through the decoder, whose logits are kept. With a counter
(count_instructions.c) the instructions of each step are told as well, a line of JSON per model.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.cli.streams import emit_json
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_lab.processors.counter import counter

N_STEPS = 8
N_PROMPT = 4


def steps(directory: Path, read: Callable[[], int]) -> tuple[FloatArray, list[int]]:
    """Logits `(1 + steps, n_vocab)` of prompt and steps, and the instructions of each step."""
    spec = ModelSpec.load(directory)
    with CachedDecoder(directory, spec, 1) as decoder:
        features = audio_features(directory, spec)
        state = decoder.start(features, (Padding(spec.dims.n_audio_ctx),))
        tokens = fed(directory)
        last = np.array([0], np.int64)
        output, state = decoder.step(
            tokens[:, :N_PROMPT], state, np.array([N_PROMPT - 1], np.int64)
        )
        found, counted = [output.logits[0, -1].copy()], []
        for at in range(N_PROMPT, N_PROMPT + N_STEPS):
            before = read()
            output, state = decoder.step(tokens[:, at : at + 1], state, last)
            counted.append(read() - before)
            found.append(output.logits[0, -1].copy())
    return np.stack(found), counted


def fed(directory: Path) -> IntArray:
    """`(1, n_tokens)` ids of prompt and steps: given, or any."""
    given = directory / "tokens.npy"
    if given.is_file():
        tokens: IntArray = np.load(given)[np.newaxis, : N_PROMPT + N_STEPS]
        return tokens
    return np.arange(1000, 1000 + N_PROMPT + N_STEPS, dtype=np.int64)[np.newaxis]


def audio_features(directory: Path, spec: ModelSpec) -> FloatArray:
    """What the model hears: given, or encoded here from a log-mel."""
    given = directory / "features.npy"
    if given.is_file():
        features: FloatArray = np.load(given)
        return features
    with OnnxEncoder(directory, spec, 1) as encoder:
        return encoder.encode(np.load(directory / "mel.npy"))


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--counter", type=Path)
    words = parser.parse_args()
    read = counter(words.counter)
    empty = read()
    overhead = read() - empty
    logits: dict[str, Any] = {}
    for directory in sorted(path.parent for path in words.models.glob("*/model.json")):
        logits[directory.name], taken = steps(directory, read)
        # The first steps still allocate.
        counted = round(median(taken[2:])) - overhead
        told = {"machine": platform.machine(), "model": directory.name, "instructions": counted}
        emit_json(told)
        np.savez(words.out, **logits)  # whole after each: an emulated run takes long


if __name__ == "__main__":
    main()
