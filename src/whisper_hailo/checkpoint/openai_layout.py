"""OpenAI's own layout of Whisper: names of arrays, sizes, and what its checkpoints do not say.

Files of OpenAI and of whisper.cpp name their arrays so. They hold no ids of control tokens and no
alignment heads: the programs know them. Source: openai/whisper, `tokenizer.py` and `__init__.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from whisper_hailo.checkpoint.config import ENGLISH_N_VOCAB, Config
from whisper_hailo.checkpoint.weights import StoredArray
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import Dimensions

_LAYER: Final = re.compile(r"(encoder|decoder)\.blocks\.(\d{1,3})\.(.+)\.(weight|bias)")
_IN_LAYER: Final = {
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.out_proj",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn.query": "encoder_attn.q_proj",
    "cross_attn.key": "encoder_attn.k_proj",
    "cross_attn.value": "encoder_attn.v_proj",
    "cross_attn.out": "encoder_attn.out_proj",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp.0": "fc1",
    "mlp.2": "fc2",
    "mlp_ln": "final_layer_norm",
}
_OUTSIDE_LAYERS: Final = {
    "encoder.conv1.weight": "encoder.conv1.weight",
    "encoder.conv1.bias": "encoder.conv1.bias",
    "encoder.conv2.weight": "encoder.conv2.weight",
    "encoder.conv2.bias": "encoder.conv2.bias",
    "encoder.positional_embedding": "encoder.embed_positions.weight",
    "encoder.ln_post.weight": "encoder.layer_norm.weight",
    "encoder.ln_post.bias": "encoder.layer_norm.bias",
    "decoder.positional_embedding": "decoder.embed_positions.weight",
    "decoder.token_embedding.weight": "decoder.embed_tokens.weight",
    "decoder.ln.weight": "decoder.layer_norm.weight",
    "decoder.ln.bias": "decoder.layer_norm.bias",
}

HEAD_WIDTH: Final = 64
"""Of each attention head of every Whisper."""

LANGUAGES: Final = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta "
    "no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk "
    "sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb "
    "my bo tl mg as tt haw ln ha ba jw su yue"
)
"""Codes in the order of their tokens."""

_N_OTHER_TOKENS: Final = 51_765
"""Tokens of an English vocabulary besides those of languages; a multilingual one has one more."""

_TIMESTAMPS: Final = 1501
"""From 0 to 30 s, in steps of 20 ms."""

Heads = tuple[tuple[int, int], ...]

_ALIGNMENT_HEADS: Final[Mapping[tuple[int, int, int, bool], Heads]] = {
    (4, 4, 6, False): ((1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)),
    (4, 4, 6, True): ((2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)),
    (6, 6, 8, False): ((3, 3), (4, 7), (5, 1), (5, 5), (5, 7)),
    (6, 6, 8, True): (
        (3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6),
    ),
    (12, 12, 12, False): (
        (6, 6), (7, 0), (7, 3), (7, 8), (8, 2), (8, 5), (8, 7), (9, 0), (9, 4), (9, 8), (9, 10),
        (10, 0), (10, 1), (10, 2), (10, 3), (10, 6), (10, 11), (11, 2), (11, 4),
    ),
    (12, 12, 12, True): (
        (5, 3), (5, 9), (8, 0), (8, 4), (8, 7), (8, 8), (9, 0), (9, 7), (9, 9), (10, 5),
    ),
    (24, 24, 16, False): (
        (11, 4), (14, 1), (14, 12), (14, 14), (15, 4), (16, 0), (16, 4), (16, 9), (17, 12),
        (17, 14), (18, 7), (18, 10), (18, 15), (20, 0), (20, 3), (20, 9), (20, 14), (21, 12),
    ),
    (24, 24, 16, True): ((13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4)),
    (32, 4, 20, True): ((2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14)),
}  # fmt: skip
"""By layers of the encoder and the decoder, heads, and whether it knows several languages."""

_LARGE_V2: Final[Heads] = (
    (10, 12), (13, 17), (16, 11), (16, 12), (16, 13), (17, 15), (17, 16), (18, 4), (18, 11),
    (18, 19), (19, 11), (21, 2), (21, 3), (22, 3), (22, 9), (22, 12), (23, 5), (23, 7), (23, 13),
    (25, 5), (26, 1), (26, 12), (27, 15),
)  # fmt: skip
_LARGE_V3: Final[Heads] = (
    (7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6),
)  # fmt: skip
_LARGE_V3_MELS: Final = 128


def rename_arrays(arrays: Mapping[str, StoredArray]) -> dict[str, StoredArray]:
    """Return arrays by Hugging Face's names without `model.`; masks and others are left out."""
    renamed = {}
    for name, array in arrays.items():
        if name in _OUTSIDE_LAYERS:
            renamed[_OUTSIDE_LAYERS[name]] = array
            continue
        match = _LAYER.fullmatch(name)
        if match is not None and match[3] in _IN_LAYER:
            part, layer, module, kind = match.groups()
            renamed[f"{part}.layers.{layer}.{_IN_LAYER[module]}.{kind}"] = array
    return renamed


def derive_config(arrays: Mapping[str, StoredArray]) -> Config:
    """Return the sizes of renamed arrays; heads have the width of all Whispers.

    Raises:
        ModelError: an array is missing, or the sizes are those of no Whisper.
    """

    def size(name: str, axis: int) -> int:
        array = arrays.get(name)
        if array is None or len(array.shape) <= axis:
            raise ModelError(f"missing array {name} of OpenAI's layout")
        return array.shape[axis]

    def n_layers(part: str) -> int:
        prefix = f"{part}.layers."
        return len({name.split(".")[2] for name in arrays if name.startswith(prefix)})

    d_model = size("encoder.conv1.weight", 0)
    n_heads = max(1, d_model // HEAD_WIDTH)
    dims = Dimensions(
        n_mels=size("encoder.conv1.weight", 1),
        n_audio_ctx=size("encoder.embed_positions.weight", 0),
        d_model=d_model,
        n_encoder_layers=n_layers("encoder"),
        n_encoder_heads=n_heads,
        n_decoder_layers=n_layers("decoder"),
        n_decoder_heads=n_heads,
        n_text_ctx=size("decoder.embed_positions.weight", 0),
        n_vocab=size("decoder.embed_tokens.weight", 0),
    )
    encoder_ffn = size("encoder.layers.0.fc1.weight", 0)
    decoder_ffn = size("decoder.layers.0.fc1.weight", 0)
    return Config(dims, encoder_ffn, decoder_ffn)


def is_multilingual(n_vocab: int) -> bool:
    """Return whether a vocabulary of OpenAI's has several languages, by its size."""
    return n_vocab > ENGLISH_N_VOCAB


def control_tokens(n_vocab: int) -> list[str]:
    """Return the control tokens behind the ordinary ones, in the order of their ids."""
    n_languages = n_vocab - _N_OTHER_TOKENS - int(is_multilingual(n_vocab))
    languages = LANGUAGES.split()
    if not 0 < n_languages <= len(languages):
        raise ModelError(
            f"the vocabulary has {n_vocab} tokens, expected OpenAI's {ENGLISH_N_VOCAB} (English) "
            f"or {ENGLISH_N_VOCAB + 1} and {ENGLISH_N_VOCAB + 2} (multilingual)"
        )
    tokens = ["<|endoftext|>", "<|startoftranscript|>"]
    tokens += [f"<|{code}|>" for code in languages[:n_languages]]
    tokens += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"]
    tokens += ["<|nospeech|>", "<|notimestamps|>"]
    tokens += [f"<|{step * 0.02:.2f}|>" for step in range(_TIMESTAMPS)]
    return tokens


def alignment_heads(dims: Dimensions) -> Heads:
    """Return the heads of OpenAI's model of these sizes, whose fine-tuned copies share them.

    Large models of the first version have the sizes of the second. None: another model.
    """
    has_languages = is_multilingual(dims.n_vocab)
    sizes = (dims.n_encoder_layers, dims.n_decoder_layers, dims.n_decoder_heads)
    if sizes == (32, 32, 20):
        return _LARGE_V3 if dims.n_mels == _LARGE_V3_MELS else _LARGE_V2
    return _ALIGNMENT_HEADS.get((*sizes, has_languages), ())


def read_settings(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries of `config.json` and `generation_config.json` that sizes imply."""
    generation = {
        "is_multilingual": is_multilingual(config.dims.n_vocab),
        "alignment_heads": [[*pair] for pair in alignment_heads(config.dims)],
    }
    return {"vocab_size": config.dims.n_vocab}, generation
