"""Sizes and alignment heads of a checkpoint's configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoints import TOY, config_of
from tests.fakes.model_sizes import TINY
from whisper_hailo.checkpoint.checkpoint import expected_shapes
from whisper_hailo.checkpoint.config import alignment_heads, read_config
from whisper_hailo.core.errors import (
    ModelError,
)
from whisper_hailo.core.spec import Dimensions

WIDTHS = ("encoder_ffn_dim", "decoder_ffn_dim")


def write(directory: Path, **changes: int) -> Path:
    (directory / "config.json").write_text(json.dumps({**config_of(TOY), **changes}))
    return directory


@pytest.mark.parametrize("width", [1, 2**18])
def test_read_config_accepts_extreme_widths(tmp_path: Path, width: int) -> None:
    config = read_config(write(tmp_path, encoder_ffn_dim=width, decoder_ffn_dim=7))
    assert (config.encoder_ffn, config.decoder_ffn) == (width, 7)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("width", [0, -1, 2**18 + 1])
def test_read_config_of_impossible_widths_is_refused(
    tmp_path: Path, name: str, width: int
) -> None:
    with pytest.raises(ModelError, match=rf"MLP .*{width}\b"):
        read_config(write(tmp_path, **{name: width}))


def test_expected_shapes_follow_the_config() -> None:
    """large-v3 has 128 mel bins; distilled and fine-tuned ones have fewer layers or positions."""
    dims = Dimensions(128, 1500, 64, 1, 4, 2, 8, 256, 51_866)
    shapes = expected_shapes(dims, 96, 160)
    assert shapes["encoder.conv1.weight"] == (64, 128, 3)
    assert shapes["encoder.embed_positions.weight"] == (1500, 64)
    assert shapes["decoder.embed_positions.weight"] == (256, 64)
    assert shapes["decoder.embed_tokens.weight"] == (51_866, 64)
    assert shapes["encoder.layers.0.fc1.weight"] == (96, 64)
    assert shapes["decoder.layers.1.fc2.weight"] == (64, 160)
    assert "encoder.layers.1.fc1.weight" not in shapes
    # Seven beside the layers, two last norms; an attention has nine with its norm, an MLP six.
    assert len(shapes) == 7 + 2 * 2 + 1 * (9 + 6) + 2 * (9 + 9 + 6)


UPPER_HALF = tuple((layer, head) for layer in (2, 3) for head in range(6))
"""Alignment heads of four layers with six heads."""


@pytest.mark.parametrize("pair", [[0, 0], [3, 5], [0, 5], [3, 0]])
def test_alignment_heads_accept_first_and_last(pair: list[int]) -> None:
    assert alignment_heads({"alignment_heads": [pair]}, TINY) == (tuple(pair),)


@pytest.mark.parametrize("pair", [[4, 0], [0, 6], [-1, 0], [0, -1]])
def test_alignment_heads_unknown_give_the_upper_half(
    pair: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    assert alignment_heads({}, TINY) == UPPER_HALF
    assert not caplog.records
    assert alignment_heads({"alignment_heads": [[1, 1], pair]}, TINY) == UPPER_HALF
    assert "alignment heads" in caplog.text


def test_alignment_heads_repeated_count_once() -> None:
    heads = [[3, 1], [2, 5], [3, 1]]
    assert alignment_heads({"alignment_heads": heads}, TINY) == ((2, 5), (3, 1))


def test_alignment_heads_are_the_decoders() -> None:
    dims = replace(TINY, n_encoder_heads=12, n_decoder_layers=2)
    assert alignment_heads({}, dims) == tuple((1, head) for head in range(6))
    assert alignment_heads({"alignment_heads": [[1, 5]]}, dims) == ((1, 5),)


def test_read_config_of_adapter_says_how_to_merge(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="merge_and_unload"):
        read_config(tmp_path)
