"""A whole small model, made once: a checkpoint with a tokenizer, and a model directory of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.checkpoints import TOY, config_of, random_arrays, write_checkpoint
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.text.tokenizer import BYTES_BY_LETTER

NAMED = (
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
    "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>", "<|0.00|>", "<|0.02|>",
)  # fmt: skip
FIRST_NAMED = 160


def tokenizer_json() -> dict[str, Any]:
    """A byte-level vocabulary of the toy's size, laid out as the library writes it."""
    vocab = {
        letter: number for number, letter in enumerate([*BYTES_BY_LETTER][:FIRST_NAMED])
    }
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": FIRST_NAMED + number, "content": name, **flags, "special": True}
        for number, name in enumerate(NAMED)
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            **{"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False},
            **{"continuing_subword_prefix": None, "end_of_word_suffix": None},
            "vocab": vocab,
            "merges": [],
        },
    }


def write_toy_checkpoint(folder: Path) -> Path:
    """A multilingual checkpoint of two shards; weights of few values, so that copies pack well."""
    sot = FIRST_NAMED + 1
    eot = FIRST_NAMED
    config = config_of(TOY) | {"decoder_start_token_id": sot, "eos_token_id": eot}
    arrays = {
        k: np.round(v * 4).astype(np.float32) / 4 for k, v in random_arrays().items()
    }
    write_checkpoint(folder, arrays, config=config, n_shards=2)
    generation = {
        "decoder_start_token_id": sot,
        "eos_token_id": eot,
        "is_multilingual": True,
        "lang_to_id": {"<|en|>": FIRST_NAMED + 2, "<|de|>": FIRST_NAMED + 3},
        "task_to_id": {"translate": FIRST_NAMED + 4, "transcribe": FIRST_NAMED + 5},
        "no_timestamps_token_id": FIRST_NAMED + 9,
        "prev_sot_token_id": FIRST_NAMED + 7,
        "suppress_tokens": [1, 2, 7],
        "begin_suppress_tokens": [3, eot],
        "alignment_heads": [[0, 1], [1, 0]],
    }
    (folder / "generation_config.json").write_text(
        json.dumps(generation), encoding="utf-8"
    )
    text = json.dumps(tokenizer_json(), separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return folder


def toy_checkpoint(base: Path) -> Path:
    """The checkpoint, made where it is not there yet."""
    folder = base / "toy" / "checkpoint"
    return folder if folder.is_dir() else write_toy_checkpoint(folder)


def toy_model(base: Path) -> Path:
    """The model directory, with forms for the chip."""
    folder = base / "toy" / "model"
    if not folder.is_dir():
        options = ConvertOptions(
            "int8", hailo=HailoOptions(window_s=2, decoder_length=16)
        )
        convert_checkpoint(toy_checkpoint(base), folder, options)
    return folder
