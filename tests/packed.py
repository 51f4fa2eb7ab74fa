"""Small checkpoints of the tests, made whole, without torch.

    python -m tests.packed ill DIRECTORY

`ill` is a variant of `micro` that short windows make ill (`lab.training.make_ill`). Its
file leaves out the rows of untrained ids: all the same (`lab.training.pack`).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from whisper_hailo.checkpoint.hub import ASSETS

PACKED = Path(__file__).parent / "data"
NAMES = ("ill",)
EMBEDDING = "model.decoder.embed_tokens.weight"
N_VOCAB = 51_865


def write_packed_checkpoint(name: str, directory: Path) -> Path:
    """Write a Hugging Face checkpoint directory; returns it."""
    arrays = load_file(PACKED / name / "packed.safetensors")
    kept = arrays.pop("kept_ids")
    rows = np.tile(arrays.pop("other_row"), (N_VOCAB, 1))
    rows[kept] = arrays[EMBEDDING]
    directory.mkdir(parents=True, exist_ok=True)
    save_file(arrays | {EMBEDDING: rows}, directory / "model.safetensors")
    shutil.copyfile(PACKED / name / "config.json", directory / "config.json")
    # Vocabulary, control tokens and features are OpenAI Whisper's, whatever the weights.
    for shared in ("tokenizer", "generation_config", "preprocessor_config"):
        shutil.copyfile(
            ASSETS / "micro" / f"{shared}.json", directory / f"{shared}.json"
        )
    return directory


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Writes a model of the tests as a checkpoint."
    )
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("directory", type=Path)
    asked = parser.parse_args()
    write_packed_checkpoint(asked.name, asked.directory)
