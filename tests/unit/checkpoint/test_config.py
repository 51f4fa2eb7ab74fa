"""Sizes that a `config.json` may name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checkpoints import TOY, config_of
from whisper_hailo.checkpoint.config import read_config
from whisper_hailo.core.errors import ModelError

WIDTHS = ("encoder_ffn_dim", "decoder_ffn_dim")


def write(directory: Path, **changes: int) -> Path:
    (directory / "config.json").write_text(json.dumps({**config_of(TOY), **changes}))
    return directory


@pytest.mark.parametrize("width", [1, 2**18])
def test_the_narrowest_and_the_widest_layers_are_taken(tmp_path: Path, width: int) -> None:
    config = read_config(write(tmp_path, encoder_ffn_dim=width, decoder_ffn_dim=7))
    assert (config.encoder_ffn, config.decoder_ffn) == (width, 7)


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("width", [0, -1, 2**18 + 1])
def test_others_are_refused_in_one_line(tmp_path: Path, name: str, width: int) -> None:
    expected = rf"config\.json: an MLP is {width} wide, expected a whole number from 1 to 262144$"
    with pytest.raises(ModelError, match=expected):
        read_config(write(tmp_path, **{name: width}))
