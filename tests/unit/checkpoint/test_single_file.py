"""OpenAI's and whisper.cpp's files are the same checkpoint as a directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import TOY, random_arrays, write_checkpoint
from tests.fakes.torch_file import write_pt
from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.core.errors import ModelError
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


def test_single_file_pt_matches_the_directory(
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
    ("content", "datum"),
    [(b"GGUF", "GGUF"), (b"\x80\x02", "1.6"), (b"text", "m.bin")],
)
def test_single_file_of_other_format_is_refused(
    tmp_path: Path, content: bytes, datum: str
) -> None:
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(ModelError, match=datum):
        Checkpoint(tmp_path / "m.bin")


def test_single_file_pt_of_other_model_is_refused(tmp_path: Path) -> None:
    write_pt(tmp_path / "m.pt", {"layer.weight": np.zeros((2, 2), "<f4")}, {})
    with pytest.raises(ModelError, match="OpenAI"):
        Checkpoint(tmp_path / "m.pt")
