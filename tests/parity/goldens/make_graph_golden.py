"""Make `graph.npz`: what Transformers computes for the toy checkpoint of `tests/checkpoints.py`.

Run in an environment with torch and transformers, from the root of the repository:

    python -m tests.parity.goldens.make_graph_golden
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from transformers import WhisperForConditionalGeneration

from tests.checkpoints import TOY, write_checkpoint
from tests.parity import reference

N_FRAMES = 100
N_TOKENS = 40
PADS = (None, 70, 150)


def main() -> None:
    rng = np.random.RandomState(1)
    mel = rng.standard_normal((1, TOY.n_mels, N_FRAMES)).astype(np.float32)
    tokens = rng.randint(0, TOY.n_vocab, (1, N_TOKENS)).astype(np.int64)
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = write_checkpoint(Path(directory))
        model = WhisperForConditionalGeneration.from_pretrained(
            checkpoint, attn_implementation="eager", dtype="float32"
        ).eval()
    features = reference.encode(model, mel)
    logits = [reference.logits(model, tokens, features, pad_to)[0] for pad_to in PADS]
    np.savez_compressed(
        Path(__file__).parent / "graph.npz",
        mel=mel,
        tokens=tokens,
        pads=np.array([pad_to or 0 for pad_to in PADS]),
        features=features,
        logits=np.stack(logits),
    )


if __name__ == "__main__":
    main()
