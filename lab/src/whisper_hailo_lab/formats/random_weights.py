"""Checkpoints of published dimensions with seeded random weights.

Speed depends on the number of weights, not on their values, but also on where decoding ends: the
rows of control tokens and timestamps are zero, so that their logits are 0 and never the largest.
"""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import save_file

from whisper_hailo.checkpoint.checkpoint import expected_shapes
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FloatArray

SEED: Final = 8
COPIED: Final = ("tokenizer.json", "generation_config.json", "preprocessor_config.json")
"""Files of the bundled model, which has the vocabulary of all multilingual checkpoints."""

SIZES: Final[dict[str, tuple[int, int, int]]] = {
    "tiny": (384, 4, 6),
    "base": (512, 6, 8),
    "small": (768, 12, 12),
    "turbo": (1280, 4, 20),
    "distil": (1280, 2, 20),
}
"""Width, layers and heads of encoder and decoder.

Real encoders of turbo and distil-large-v3 have 32 layers; here they have those of the decoder.
"""


def write_random_checkpoint(size: str, out: Path) -> Path:
    """Write a checkpoint in Hugging Face's layout, unless it exists, and return its directory.

    Args:
        size: one of `SIZES`.
        out: the directory.

    Raises:
        OptionError: no such size.
    """
    if size not in SIZES:
        raise OptionError(f"size is {size!r}, expected one of: {', '.join(SIZES)}")
    if (out / "config.json").is_file():
        return out
    out.mkdir(parents=True, exist_ok=True)
    bundled = Path(str(resources.files("whisper_hailo") / "assets" / "micro"))
    for name in COPIED:
        shutil.copyfile(bundled / name, out / name)
    _drop_alignment_heads(out / "generation_config.json")
    config = json.loads((bundled / "config.json").read_text(encoding="utf-8"))
    width, layers, heads = SIZES[size]
    config |= {"d_model": width, "num_hidden_layers": layers, "torch_dtype": "float32"}
    for half in ("encoder", "decoder"):
        config |= {
            f"{half}_layers": layers,
            f"{half}_attention_heads": heads,
            f"{half}_ffn_dim": 4 * width,
        }
    arrays = make_arrays(_dimensions(config), 4 * width, int(config["eos_token_id"]))
    save_file(arrays, out / "model.safetensors", metadata={"format": "pt"})
    # Last, so that a directory that has it is complete.
    (out / "config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )
    return out


def make_arrays(dims: Dimensions, ffn: int, eot: int) -> dict[str, FloatArray]:
    """Return all arrays by name, scaled so that activations stay of order one.

    Args:
        dims: dimensions of the model.
        ffn: width inside the feed-forward layers.
        eot: id of end-of-transcript, the first control token.
    """
    rng = np.random.default_rng(SEED)
    arrays: dict[str, FloatArray] = {}
    for name, shape in expected_shapes(dims, ffn, ffn).items():
        noise = rng.standard_normal(shape, dtype=np.float32)
        if name.endswith("layer_norm.weight"):
            noise = 1 + np.float32(0.1) * noise
        elif len(shape) == 1:
            noise *= np.float32(0.1)
        else:
            noise /= np.float32(np.prod(shape[1:])) ** np.float32(0.5)
        arrays[f"model.{name}"] = noise
    arrays["model.decoder.embed_tokens.weight"][eot:] = 0.0
    return arrays


def _dimensions(config: dict[str, Any]) -> Dimensions:
    return Dimensions(
        n_mels=config["num_mel_bins"],
        n_audio_ctx=config["max_source_positions"],
        d_model=config["d_model"],
        n_encoder_layers=config["encoder_layers"],
        n_encoder_heads=config["encoder_attention_heads"],
        n_decoder_layers=config["decoder_layers"],
        n_decoder_heads=config["decoder_attention_heads"],
        n_text_ctx=config["max_target_positions"],
        n_vocab=config["vocab_size"],
    )


def _drop_alignment_heads(path: Path) -> None:
    """Drop the alignment heads, which are those of the bundled model."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw.pop("alignment_heads", None)
    path.write_text(json.dumps(raw, indent=2) + "\n", encoding="utf-8")
