"""Instructions of decoder passes over one token and over several: what a draft costs to verify.

    python -m whisper_hailo_lab.processors.passes MODELS --counter PATH

`MODELS` is what `prepare.py` made. Each decoder goes on from a short prompt, over one token, over
two, and so on; the instructions of each pass (count_instructions.c) are told as a line of JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.cli.streams import emit_json
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import DECODER_FILE, ModelSpec
from whisper_hailo_lab.processors.counter import counter
from whisper_hailo_lab.processors.steps import N_PROMPT, audio_features

LONGEST = 5
ROUNDS = 4


def passes(directory: Path, read: Callable[[], int]) -> list[int]:
    """Instructions of a pass over 1, 2, ... tokens, each position's logits asked for."""
    spec = ModelSpec.load(directory)
    counted: list[list[int]] = [[] for _ in range(LONGEST)]
    with CachedDecoder(directory, spec, 1) as decoder:
        features = audio_features(directory, spec)
        state = decoder.start(features, (Padding(spec.dims.n_audio_ctx),))
        tokens = np.arange(1000, 1000 + N_PROMPT, dtype=np.int64)[np.newaxis]
        _, state = decoder.step(tokens, state, np.array([N_PROMPT - 1], np.int64))
        for _ in range(1 + ROUNDS):
            for n_tokens in range(1, LONGEST + 1):
                tokens = np.arange(2000, 2000 + n_tokens, dtype=np.int64)[np.newaxis]
                before = read()
                _, state = decoder.step(tokens, state, np.arange(n_tokens, dtype=np.int64))
                counted[n_tokens - 1].append(read() - before)
    return [round(median(taken[1:])) for taken in counted]  # the first ones still allocate


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("--counter", type=Path)
    words = parser.parse_args()
    read = counter(words.counter)
    for directory in sorted(path.parent for path in words.models.glob("*/model.json")):
        weights = sum(path.stat().st_size for path in directory.glob(f"{DECODER_FILE}*"))
        emit_json(
            {"model": directory.name, "instructions": passes(directory, read), "bytes": weights}
        )


if __name__ == "__main__":
    main()
