"""Checkpoints in several files: which ones an index may name, and what is compared across them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import Arrays, random_arrays, write_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.errors import ModelError

EMBEDDING, PROJECTION = "decoder.embed_tokens.weight", "proj_out.weight"
INDEX = "model.safetensors.index.json"


def test_files_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    checkpoint = Checkpoint(write_checkpoint(tmp_path, n_shards=9))
    names = [f"model-0000{i}-of-00009.safetensors" for i in range(1, 10)]
    assert [path.name for path in checkpoint.files] == names
    for name in names[2:8]:
        (tmp_path / name).unlink()
    expected = rf"lacks {names[2]}, {names[3]}, {names[4]} \(6 of 9 files that"
    with pytest.raises(ModelError, match=expected):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("../other.safetensors", "/other.safetensors", "part/other.safetensors"),
        *("pytorch_model.bin", "", "a\0b.safetensors", "x" * 300 + ".safetensors"),
    ],
)
def test_an_index_names_safetensors_beside_it_and_nothing_else(tmp_path: Path, name: str) -> None:
    write_checkpoint(tmp_path / "model", n_shards=2)
    (tmp_path / "other.safetensors").touch()
    (tmp_path / "model" / "part").mkdir()
    for place in ("part/other.safetensors", "pytorch_model.bin"):
        (tmp_path / "model" / place).touch()
    index = tmp_path / "model" / INDEX
    known = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**known, "more": name}}))
    refused = "expected safetensors files of the same|lies outside|longer name than the system"
    with pytest.raises(ModelError, match=refused) as caught:
        Checkpoint(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_what_belongs_to_no_layer_is_left_alone(tmp_path: Path) -> None:
    """Such as the head of a classifier, or buffers of an early Transformers."""
    arrays = {**random_arrays(), "classifier.weight": np.ones((2, 64), np.float32)}
    checkpoint = Checkpoint(write_checkpoint(tmp_path, arrays))
    np.testing.assert_array_equal(checkpoint.read(EMBEDDING), arrays[EMBEDDING])


@pytest.mark.parametrize("at_once", [4096, 64])
@pytest.mark.parametrize("row", [0, 1, 63, 64, 199])
def test_one_number_unties_the_projection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int, at_once: int
) -> None:
    monkeypatch.setattr("whisper_hailo.checkpoint.checkpoint.COMPARED_ROWS", at_once)
    arrays: Arrays = random_arrays()
    arrays[PROJECTION] = arrays[EMBEDDING].copy()
    assert Checkpoint(write_checkpoint(tmp_path / "tied", arrays)).projection_name == EMBEDDING
    arrays[PROJECTION][row, 5] += 1
    assert Checkpoint(write_checkpoint(tmp_path / "other", arrays)).projection_name == PROJECTION


def test_a_header_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path)
    length = int.from_bytes((tmp_path / "model.safetensors").read_bytes()[:8], "little")
    bound = "whisper_hailo.checkpoint.weights.LARGEST_BYTES"
    monkeypatch.setattr(bound, length)
    assert Checkpoint(tmp_path).tied
    monkeypatch.setattr(bound, length - 1)
    with pytest.raises(ModelError, match=rf"its header has {length} bytes\); fetch the file"):
        Checkpoint(tmp_path)
