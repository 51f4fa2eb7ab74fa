"""OpenAI's `.pt` file of a Whisper checkpoint: `python write_openai.py CHECKPOINT OUT`.

Runs in the environment of openai-whisper.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo_lab.formats.ggml import openai_name


def main() -> None:
    checkpoint = Checkpoint(Path(sys.argv[1]))
    out = Path(sys.argv[2])
    config = checkpoint.config
    dims = {
        "n_mels": config.dims.n_mels,
        "n_vocab": config.dims.n_vocab,
        "n_audio_ctx": config.dims.n_audio_ctx,
        "n_audio_state": config.dims.d_model,
        "n_audio_head": config.dims.n_encoder_heads,
        "n_audio_layer": config.dims.n_encoder_layers,
        "n_text_ctx": config.dims.n_text_ctx,
        "n_text_state": config.dims.d_model,
        "n_text_head": config.dims.n_decoder_heads,
        "n_text_layer": config.dims.n_decoder_layers,
    }
    shapes = expected_shapes(config.dims, config.encoder_ffn, config.decoder_ffn)
    arrays = {
        openai_name(name): torch.from_numpy(checkpoint.read(name)) for name in shapes
    }
    torch.save({"dims": dims, "model_state_dict": arrays}, out)


if __name__ == "__main__":
    main()
