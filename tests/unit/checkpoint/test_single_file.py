"""OpenAI's and whisper.cpp's files are the same checkpoint as a directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import TOY, random_arrays, write_checkpoint
from tests.fakes.torch_file import write_pt
from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.checkpoint.openai_layout import alignment_heads, control_tokens
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import Dimensions
from whisper_hailo_lab.formats.ggml import openai_name


@pytest.fixture
def directory(tmp_path: Path) -> Checkpoint:
    folder = tmp_path / "toy"
    write_checkpoint(folder, random_arrays(TOY))
    return Checkpoint(folder)


def openai_arrays(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    config = checkpoint.config
    shapes = expected_shapes(config.dims, config.encoder_ffn, config.decoder_ffn)
    return {openai_name(name): checkpoint.read(name) for name in shapes}


def test_pt_file_is_the_checkpoint_of_its_arrays(
    directory: Checkpoint, tmp_path: Path
) -> None:
    dims = directory.config.dims
    heads = {"n_audio_head": dims.n_encoder_heads, "n_text_head": dims.n_decoder_heads}
    write_pt(tmp_path / "toy.pt", openai_arrays(directory), heads)
    file = Checkpoint(tmp_path / "toy.pt")
    assert file.config == directory.config
    assert file.files == (tmp_path / "toy.pt",)
    for name in ("encoder.conv1.weight", "decoder.layers.0.encoder_attn.k_proj.weight"):
        np.testing.assert_array_equal(file.read(name), directory.read(name))


@pytest.mark.parametrize(
    ("content", "advice"),
    [(b"GGUF", "GGUF"), (b"\x80\x02", "before 1.6"), (b"text", "expected|give")],
)
def test_other_files_are_refused_with_advice(
    tmp_path: Path, content: bytes, advice: str
) -> None:
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(ModelError, match=advice):
        Checkpoint(tmp_path / "m.bin")


def test_pt_file_of_another_model_is_refused(tmp_path: Path) -> None:
    write_pt(tmp_path / "m.pt", {"layer.weight": np.zeros((2, 2), "<f4")}, {})
    with pytest.raises(ModelError, match="not a Whisper model in OpenAI's layout"):
        Checkpoint(tmp_path / "m.pt")


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


def test_alignment_heads_are_in_their_decoder() -> None:
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
