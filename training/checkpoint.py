"""Reads an exported checkpoint back into the training-time model, for evaluation."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from training import whisper_vocabulary as ids
from training.kept_tokens import KeptTokens
from training.model import Dimensions, Whisper


def load_checkpoint(folder: Path) -> tuple[Whisper, KeptTokens]:
    """Returns the model of a Hugging Face folder, in float32, and the identity map of its ids.

    Raises:
        KeyError: an array is missing.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes = Dimensions(
        n_mels=config["num_mel_bins"],
        d_model=config["d_model"],
        n_encoder_layers=config["encoder_layers"],
        n_decoder_layers=config["decoder_layers"],
        ffn=config["encoder_ffn_dim"],
        head_size=config["d_model"] // config["encoder_attention_heads"],
        n_audio_ctx=config["max_source_positions"],
        n_text_ctx=config["max_target_positions"],
    )
    arrays = load_file(folder / "model.safetensors")
    state = {name.removeprefix("model."): value.float() for name, value in arrays.items()}
    model = Whisper(sizes, ids.N_VOCAB)
    model.encoder.positions = state.pop("encoder.embed_positions.weight")
    heads = {name: value for name, value in model.state_dict().items() if "ctc_head" in name}
    model.load_state_dict(state | heads)
    torch.nn.Module.eval(model)
    return model, KeptTokens(tuple(range(ids.N_VOCAB)))
