"""Writes a trained run as a Hugging Face Whisper checkpoint with the whole vocabulary.

    python -m lab.training.export RUN OUT [--packed]

Untrained ids get a row of zeros but for the constant channel, whose entry is so low that their
logit lies below the mean of the trained ones for every possible input: `shut_out` computes it.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from lab.training import whisper_vocabulary as ids
from lab.training.checkpoint import count_layers
from lab.training.model import BIAS_CHANNEL, BIAS_VALUE, Dimensions, Whisper

EMBEDDING = "model.decoder.embed_tokens.weight"
MARGIN = 16.0
"""Logit distance, at least, between an untrained id and the mean of the trained ones."""
ALIGNMENT_HEAD = 0
"""Of the last decoder layer."""


def shut_out(rows: Tensor, gain: Tensor, bias: Tensor) -> float:
    """Returns the entry of the constant channel that keeps untrained ids from ever winning.

    With `e` the mean of the trained rows, the mean trained logit of a normed vector `n` (length
    at most sqrt(d)) is `(e * gain) @ n + e @ bias >= e @ bias - |e * gain| sqrt(d)`, and the
    largest trained logit is no lower. The bound holds for every audio and every text.

    Args:
        rows: `(n_kept, d_model)` trained rows of the embedding.
        gain: `(d_model,)` gain of the decoder's last norm.
        bias: `(d_model,)` its bias, `BIAS_VALUE` in the constant channel.
    """
    mean = rows.double().mean(0)
    lowest = mean @ bias.double() - (mean * gain.double()).norm() * rows.shape[1] ** 0.5
    return float((lowest - MARGIN) / BIAS_VALUE)


def whole_state(
    model: Whisper, kept: tuple[int, ...], sizes: Dimensions
) -> dict[str, Tensor]:
    """Returns the arrays by Hugging Face's names, float16, the embedding made whole."""
    state = {
        f"model.{name}": value.detach().half().contiguous()
        for name, value in model.state_dict().items()
        if not name.startswith("ctc_")
    }
    gain, bias = (value.detach().half() for value in model.decoder.last_norm())
    state["model.decoder.layer_norm.weight"] = gain.contiguous()
    state["model.decoder.layer_norm.bias"] = bias.contiguous()
    rows = state["model.decoder.embed_tokens.weight"]
    whole = torch.zeros(ids.N_VOCAB, sizes.d_model, dtype=torch.float16)
    whole[:, BIAS_CHANNEL] = shut_out(rows, gain, bias)
    whole[list(kept)] = rows
    state["model.decoder.embed_tokens.weight"] = whole
    state["model.encoder.embed_positions.weight"] = (
        model.encoder.positions.half().contiguous()
    )
    return state


def config(sizes: Dimensions) -> dict[str, Any]:
    """Returns the content of `config.json`."""
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "activation_function": "gelu",
        "activation_dropout": 0.0,
        "attention_dropout": 0.0,
        "dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "init_std": 0.02,
        "d_model": sizes.d_model,
        "encoder_layers": sizes.n_encoder_layers,
        "decoder_layers": sizes.n_decoder_layers,
        "num_hidden_layers": sizes.n_encoder_layers,
        "encoder_attention_heads": sizes.d_model // sizes.head_size,
        "decoder_attention_heads": sizes.d_model // sizes.head_size,
        "encoder_ffn_dim": sizes.ffn,
        "decoder_ffn_dim": sizes.ffn,
        "num_mel_bins": sizes.n_mels,
        "max_source_positions": sizes.n_audio_ctx,
        "max_target_positions": sizes.n_text_ctx,
        "vocab_size": ids.N_VOCAB,
        "is_encoder_decoder": True,
        "scale_embedding": False,
        "use_cache": True,
        "tie_word_embeddings": True,
        "bos_token_id": ids.EOT,
        "eos_token_id": ids.EOT,
        "pad_token_id": ids.EOT,
        "decoder_start_token_id": ids.SOT,
        "torch_dtype": "float16",
    }


def generation_config(tokenizer: Tokenizer, sizes: Dimensions) -> dict[str, Any]:
    """Returns the content of `generation_config.json`, its fields as in the published ones."""
    return {
        "alignment_heads": [[sizes.n_decoder_layers - 1, ALIGNMENT_HEAD]],
        "begin_suppress_tokens": [tokenizer.encode(" ").ids[0], ids.EOT],
        "bos_token_id": ids.EOT,
        "decoder_start_token_id": ids.SOT,
        "eos_token_id": ids.EOT,
        "is_multilingual": True,
        "lang_to_id": {
            f"<|{code}|>": ids.FIRST_LANGUAGE + k
            for k, code in enumerate(ids.LANGUAGES)
        },
        "max_initial_timestamp_index": 50,
        "max_length": sizes.n_text_ctx,
        "no_timestamps_token_id": ids.NO_TIMESTAMPS,
        "pad_token_id": ids.EOT,
        "prev_sot_token_id": ids.START_OF_PREV,
        "return_timestamps": False,
        "suppress_tokens": ids.non_speech_ids(tokenizer),
        "task_to_id": {"transcribe": ids.TRANSCRIBE, "translate": ids.TRANSLATE},
    }


def preprocessor_config(sizes: Dimensions) -> dict[str, Any]:
    """Returns the content of `preprocessor_config.json`."""
    return {
        "chunk_length": 30,
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": sizes.n_mels,
        "hop_length": 160,
        "n_fft": 400,
        "n_samples": 480_000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "processor_class": "WhisperProcessor",
        "return_attention_mask": False,
        "sampling_rate": 16_000,
    }


def write_settings(out: Path, tokenizer: Tokenizer, sizes: Dimensions) -> None:
    """Writes the files of a checkpoint directory that hold no weights."""
    contents = {
        "config.json": config(sizes),
        "generation_config.json": generation_config(tokenizer, sizes),
        "preprocessor_config.json": preprocessor_config(sizes),
    }
    for name, content in contents.items():
        _write_json(out / name, content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_packed(
    model: Whisper, kept: tuple[int, ...], sizes: Dimensions, out: Path
) -> None:
    """Writes a checkpoint without the rows of untrained ids, which are all the same.

    `tests/packed.py` makes it whole: `kept_ids` says whose rows there are, `other_row` is that of
    the rest; settings that no weights change are the bundled model's.
    """
    state = whole_state(model, kept, sizes)
    rows = state[EMBEDDING]
    known = torch.tensor(kept)
    other = next(row for row in range(ids.N_VOCAB) if row not in set(kept))
    packed = state | {
        EMBEDDING: rows[known].contiguous(),
        "kept_ids": known.int(),
        "other_row": rows[other].clone(),
    }
    out.mkdir(parents=True, exist_ok=True)
    save_file(packed, out / "packed.safetensors", {"format": "pt"})
    (out / "packed.safetensors").chmod(0o644)
    _write_json(out / "config.json", config(sizes))


def export(run: Path, out: Path, *, packed: bool) -> None:
    """Writes the checkpoint of `run` into the folder `out` (the data card is not touched).

    What helps training alone goes to `aids.safetensors` in `run`, for a run that starts from `out`.
    """
    kept = tuple(json.loads((run / "kept.json").read_text()))
    trained = torch.load(run / "state.pt")["model"]
    sizes = Dimensions(
        n_encoder_layers=count_layers(trained, "encoder"),
        n_decoder_layers=count_layers(trained, "decoder"),
    )
    model = Whisper(sizes, len(kept))
    aids = {
        name: trained.pop(name).half()
        for name in list(trained)
        if name.startswith("ctc_")
    }
    save_file(aids, run / "aids.safetensors", {"format": "pt"})
    model.load_state_dict(model.state_dict() | trained)
    tokenizer = Tokenizer.from_file(str(run / "tokenizer.json"))
    if packed:
        write_packed(model, kept, sizes, out)
        return
    out.mkdir(parents=True, exist_ok=True)
    save_file(
        whole_state(model, kept, sizes), out / "model.safetensors", {"format": "pt"}
    )
    (out / "model.safetensors").chmod(0o644)
    shutil.copyfile(run / "tokenizer.json", out / "tokenizer.json")
    write_settings(out, tokenizer, sizes)


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description="Writes a run as a Hugging Face checkpoint."
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--packed", action="store_true", help="for `tests/packed.py`")
    options = parser.parse_args()
    export(options.run, options.out, packed=options.packed)


if __name__ == "__main__":
    main()
