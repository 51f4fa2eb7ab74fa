"""Checkpoints with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import TOY, TOY_FFN
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.formats import random_weights
from whisper_hailo_lab.formats.random_weights import (
    make_arrays,
    write_random_checkpoint,
)


def test_random_arrays_have_no_control_tokens() -> None:
    arrays = make_arrays(TOY, TOY_FFN, 10)
    table = arrays["model.decoder.embed_tokens.weight"]
    assert not table[10:].any()
    assert table[:10].all(axis=1).any()
    again = make_arrays(TOY, TOY_FFN, 10)
    assert all(np.array_equal(array, again[name]) for name, array in arrays.items())


def test_random_checkpoint_of_unknown_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="huge"):
        write_random_checkpoint("huge", tmp_path / "huge")


def test_random_checkpoint_is_read_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_weights, "SIZES", {"toy": (64, 1, 1)})
    directory = write_random_checkpoint("toy", tmp_path / "toy")
    checkpoint = Checkpoint(directory)
    assert (checkpoint.config.dims.d_model, checkpoint.config.dims.n_vocab) == (
        64,
        51865,
    )
    assert "alignment_heads" not in json.loads(
        (directory / "generation_config.json").read_text()
    )
    before = (directory / "model.safetensors").stat().st_mtime_ns
    assert write_random_checkpoint("toy", directory) == directory
    assert (directory / "model.safetensors").stat().st_mtime_ns == before
