"""OpenAI's layout: names of arrays, sizes, control tokens and alignment heads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoints import TOY, TOY_FFN, random_arrays
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.openai_layout import (
    alignment_heads,
    control_tokens,
    derive_config,
    read_settings,
    rename_arrays,
)
from whisper_hailo.checkpoint.weights import StoredArray
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo_lab.formats.ggml import openai_name


@pytest.mark.parametrize(
    ("n_vocab", "sot", "last"),
    [(51_864, 50_257, "su"), (51_865, 50_258, "su"), (51_866, 50_258, "yue")],
)
def test_control_tokens_fill_the_vocabulary(n_vocab: int, sot: int, last: str) -> None:
    tokens = control_tokens(n_vocab)
    n_ordinary = n_vocab - len(tokens)
    assert n_ordinary + tokens.index("<|startoftranscript|>") == sot
    assert tokens[tokens.index("<|translate|>") - 1] == f"<|{last}|>"
    assert tokens[-1] == "<|30.00|>"
    with pytest.raises(ModelError):
        control_tokens(300)


def test_alignment_heads_lie_in_their_decoder() -> None:
    for n_layers, heads, n_text, n_mels in (
        (4, 6, 4, 80), (6, 8, 6, 80), (12, 12, 12, 80), (24, 16, 24, 80),
        (32, 20, 32, 80), (32, 20, 32, 128), (32, 20, 4, 128),
    ):  # fmt: skip
        for n_vocab in (51_864, 51_865):
            if n_layers == 32 and n_vocab == 51_864:
                continue
            dims = Dimensions(
                n_mels, 1500, 64 * heads, n_layers, heads, n_text, heads, 448, n_vocab
            )
            pairs = alignment_heads(dims)
            assert pairs
            assert all(layer < n_text and head < heads for layer, head in pairs)


def test_rename_arrays_uses_names_of_hugging_face(tmp_path: Path) -> None:
    shapes = {name: array.shape for name, array in random_arrays(TOY).items()}
    arrays = {
        openai_name(name): StoredArray(tmp_path, name, "F32", shape, 0)
        for name, shape in shapes.items()
    }
    foreign = {"decoder.mask": StoredArray(tmp_path, "mask", "F32", (4, 4), 0)}
    renamed = rename_arrays({**arrays, **foreign})
    assert {name: array.shape for name, array in renamed.items()} == shapes
    config = derive_config(renamed)
    assert config.encoder_ffn == config.decoder_ffn == TOY_FFN
    # Whisper's heads are 64 wide, those of the toy are not.
    heads = {
        "n_encoder_heads": TOY.n_encoder_heads,
        "n_decoder_heads": TOY.n_decoder_heads,
    }
    assert replace(config.dims, **heads) == TOY


def test_derive_config_without_an_array_names_it() -> None:
    with pytest.raises(ModelError, match=r"encoder\.conv1\.weight"):
        derive_config({})


@pytest.mark.parametrize(("n_vocab", "expected"), [(51_864, False), (51_865, True)])
def test_read_settings_follow_vocabulary_size(n_vocab: int, expected: bool) -> None:
    dims = Dimensions(80, 1500, 384, 4, 6, 4, 6, 448, n_vocab)
    config, generation = read_settings(Config(dims, 1536, 1536))
    assert config == {"vocab_size": n_vocab}
    assert generation["is_multilingual"] is expected
    assert len(generation["alignment_heads"]) == len(alignment_heads(dims)) > 0
