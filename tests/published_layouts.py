"""Checkpoints laid out as published ones, with random weights, at their own size or scaled down.

`python -m tests.published_layouts large-v3-turbo DIR` writes one at its own size: 0.3 to 1.6 GB.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.checkpoints import config_of, random_arrays, write_checkpoint
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.checkpoint.openai_layout import control_tokens, is_multilingual
from whisper_hailo.checkpoint.openai_vocabulary import (
    ordinary_tokens,
    suppressed_tokens,
    tokenizer_of_tokens,
)
from whisper_hailo.core.spec import Dimensions

_N_TEXT_CTX: Final = 448
_N_AUDIO_CTX: Final = 1500
_LARGE_V3_HEADS: Final = (
    (7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6),
)  # fmt: skip
_SMALL_EN_HEADS: Final = (
    (6, 6), (7, 0), (7, 3), (7, 8), (8, 2), (8, 5), (8, 7), (9, 0), (9, 4), (9, 8), (9, 10),
    (10, 0), (10, 1), (10, 2), (10, 3), (10, 6), (10, 11), (11, 2), (11, 4),
)  # fmt: skip
_TURBO_HEADS: Final = ((2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14))


@dataclass(frozen=True, slots=True)
class PublishedLayout:
    """What sets a published checkpoint apart.

    Attributes:
        alignment_heads: as `generation_config.json` lists them. Distilled checkpoints list those
            of their teacher, in layers that they do not have.
    """

    dims: Dimensions
    alignment_heads: tuple[tuple[int, int], ...]

    def scaled_down(self) -> PublishedLayout:
        """Return the layout with narrow layers, few in the encoder, and all else as it is."""
        n_heads = self.dims.n_decoder_heads
        dims = replace(self.dims, d_model=8 * n_heads, n_encoder_layers=2)
        return replace(self, dims=dims)


def _dimensions(
    n_mels: int,
    d_model: int,
    n_encoder_layers: int,
    n_decoder_layers: int,
    n_vocab: int,
) -> Dimensions:
    n_heads = d_model // 64
    return Dimensions(
        n_mels=n_mels,
        n_audio_ctx=_N_AUDIO_CTX,
        d_model=d_model,
        n_encoder_layers=n_encoder_layers,
        n_encoder_heads=n_heads,
        n_decoder_layers=n_decoder_layers,
        n_decoder_heads=n_heads,
        n_text_ctx=_N_TEXT_CTX,
        n_vocab=n_vocab,
    )


LAYOUTS: Final = {
    "large-v3-turbo": PublishedLayout(
        _dimensions(128, 1280, 32, 4, 51866), _TURBO_HEADS
    ),
    "distil-large-v3": PublishedLayout(
        _dimensions(128, 1280, 32, 2, 51866), _LARGE_V3_HEADS
    ),
    "distil-small.en": PublishedLayout(
        _dimensions(80, 768, 12, 4, 51864), _SMALL_EN_HEADS
    ),
}


def write_published(layout: PublishedLayout, directory: Path) -> Path:
    """Write a checkpoint directory with all files that Transformers saves; return it."""
    dims = layout.dims
    ffn = 4 * dims.d_model
    controls = control_tokens(dims.n_vocab)
    ids = {
        token: dims.n_vocab - len(controls) + index
        for index, token in enumerate(controls)
    }
    config = config_of(dims, ffn) | {
        "bos_token_id": ids["<|endoftext|>"],
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "eos_token_id": ids["<|endoftext|>"],
        "max_length": _N_TEXT_CTX,
        "median_filter_width": 7,
        "num_hidden_layers": dims.n_encoder_layers,
        "pad_token_id": ids["<|endoftext|>"],
        "torch_dtype": "float16",
        "use_cache": True,
    }
    arrays = random_arrays(dims, ffn)
    write_checkpoint(directory, arrays, config=config, dtype="float16")
    n_ordinary = dims.n_vocab - len(controls)
    tokens = ordinary_tokens(ASSETS / "micro" / "tokenizer.json")[:n_ordinary]
    tokenizer = directory / "tokenizer.json"
    tokenizer.write_text(tokenizer_of_tokens(tokens, dims.n_vocab), encoding="utf-8")
    _write_json(
        directory / "generation_config.json", _generation(layout, ids, tokenizer)
    )
    _write_json(
        directory / "preprocessor_config.json",
        {
            "chunk_length": 30,
            "feature_extractor_type": "WhisperFeatureExtractor",
            "feature_size": dims.n_mels,
            "hop_length": 160,
            "n_fft": 400,
            "n_samples": 480000,
            "nb_max_frames": 3000,
            "padding_side": "right",
            "padding_value": 0.0,
            "processor_class": "WhisperProcessor",
            "return_attention_mask": False,
            "sampling_rate": 16000,
        },
    )
    return directory


def _generation(
    layout: PublishedLayout, ids: dict[str, int], tokenizer: Path
) -> dict[str, Any]:
    """Return `generation_config.json`."""
    n_vocab = layout.dims.n_vocab
    generation: dict[str, Any] = {
        **suppressed_tokens(tokenizer),
        "alignment_heads": [[*pair] for pair in layout.alignment_heads],
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "eos_token_id": ids["<|endoftext|>"],
        "is_multilingual": is_multilingual(n_vocab),
        "max_initial_timestamp_index": 50,
        "max_length": _N_TEXT_CTX,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "prev_sot_token_id": ids["<|startofprev|>"],
        "return_timestamps": False,
    }
    if is_multilingual(n_vocab):
        first = ids["<|startoftranscript|>"] + 1
        generation["lang_to_id"] = {
            token: index
            for token, index in ids.items()
            if first <= index < ids["<|translate|>"]
        }
        generation["task_to_id"] = {
            "transcribe": ids["<|transcribe|>"],
            "translate": ids["<|translate|>"],
        }
    return generation


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


if __name__ == "__main__":
    write_published(LAYOUTS[sys.argv[1]], Path(sys.argv[2]))
