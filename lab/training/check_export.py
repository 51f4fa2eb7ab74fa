"""Compares an exported checkpoint with Hugging Face Transformers, loaded from the same files.

    python -m lab.training.check_export CHECKPOINT

Prints the largest difference of encoder features and logits (float32, eager attention) for a full
30 s window, and for a 10 s window with the encoder output zero-padded to 1500 rows on one side and
the single padding key of `model.Attention` on the other.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, WhisperForConditionalGeneration

from lab.training.checkpoint import load_checkpoint
from lab.training.kept_tokens import PREFIX
from lab.training.mel import log_mel

TOLERANCE = 1e-4
N_AUDIO_CTX = 1500


@torch.no_grad()
def differences(checkpoint: Path) -> dict[str, float]:
    """Returns the largest absolute differences by name."""
    ours, _ = load_checkpoint(checkpoint)
    theirs = WhisperForConditionalGeneration.from_pretrained(
        checkpoint, dtype=torch.float32, attn_implementation="eager"
    )
    torch.nn.Module.eval(theirs)
    rng = np.random.default_rng(0)
    audio = rng.standard_normal((1, 480_000)).astype(np.float32) * 0.05
    audio[:, 100_000:] = 0.0
    tokens = torch.tensor([[*PREFIX, 2425, 1002, 13]])
    mel = log_mel(torch.from_numpy(audio))
    features = ours.encoder(mel)
    full = theirs(mel, decoder_input_ids=tokens)
    short = ours.encoder(log_mel(torch.from_numpy(audio[:, :160_000])))
    padded = torch.nn.functional.pad(short, (0, 0, 0, N_AUDIO_CTX - short.shape[1]))
    padded_logits = theirs(encoder_outputs=(padded,), decoder_input_ids=tokens).logits
    ours_padded = ours.decoder(tokens, short, N_AUDIO_CTX - short.shape[1])
    return {
        "features": float((features - full.encoder_last_hidden_state).abs().max()),
        "logits_30s": float(
            (ours.decoder(tokens, features, 0) - full.logits).abs().max()
        ),
        "logits_10s_padded": float((ours_padded - padded_logits).abs().max()),
    }


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description="Compares an export with Transformers."
    )
    parser.add_argument("checkpoint", type=Path)
    options = parser.parse_args()
    found = differences(options.checkpoint)
    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    hello = tokenizer.encode(" Hello world.", add_special_tokens=False)
    sys.stdout.write(json.dumps({**found, "hello_world": hello}) + "\n")
    if max(found.values()) > TOLERANCE or hello != [2425, 1002, 13]:
        sys.exit(f"the export differs from Transformers by more than {TOLERANCE}")


if __name__ == "__main__":
    main()
