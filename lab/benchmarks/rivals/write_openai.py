"""OpenAI's `.pt` file of a Whisper checkpoint: `python write_openai.py CHECKPOINT OUT`.

Runs in the environment of openai-whisper.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from whisper_hailo_lab.formats.ggml import openai_name


def main() -> None:
    checkpoint = Path(sys.argv[1])
    out = Path(sys.argv[2])
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    dims = {
        "n_mels": config["num_mel_bins"],
        "n_vocab": config["vocab_size"],
        "n_audio_ctx": config["max_source_positions"],
        "n_audio_state": config["d_model"],
        "n_audio_head": config["encoder_attention_heads"],
        "n_audio_layer": config["encoder_layers"],
        "n_text_ctx": config["max_target_positions"],
        "n_text_state": config["d_model"],
        "n_text_head": config["decoder_attention_heads"],
        "n_text_layer": config["decoder_layers"],
    }
    arrays = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        for name, array in load_file(file).items():
            if name != "proj_out.weight":
                arrays[openai_name(name.removeprefix("model."))] = array.float()
    torch.save({"dims": dims, "model_state_dict": arrays}, out)


if __name__ == "__main__":
    main()
