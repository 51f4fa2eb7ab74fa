"""Checkpoints: arrays, shards, shapes, and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import TOY, Arrays, config_of, random_arrays, write_checkpoint
from tests.fakes.torch_file import write_pickle, write_state_dict
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.errors import ModelError

EMBEDDING = "decoder.embed_tokens.weight"


def _one_line(directory: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Checkpoint(directory)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("prefix", ["model.", ""])
def test_checkpoint_reads_arrays_by_name(
    tmp_path: Path, prefix: str, n_shards: int
) -> None:
    arrays = random_arrays()
    checkpoint = Checkpoint(
        write_checkpoint(tmp_path, prefix=prefix, n_shards=n_shards)
    )
    assert checkpoint.config.dims == TOY
    assert len(checkpoint.files) == n_shards
    for name in (
        "encoder.conv1.weight",
        EMBEDDING,
        "decoder.layers.1.encoder_attn.v_proj.bias",
    ):
        np.testing.assert_array_equal(checkpoint.read(name), arrays[name])
        assert checkpoint.weight(name).shape == arrays[name].shape


@pytest.mark.parametrize(
    ("strip_bytes", "n_rows"),
    [
        (64 * 4 * 200, [200]),  # as many as there are
        (64 * 4 * 199, [199, 1]),
        (64 * 4 * 80 + 63 * 4, [80, 80, 40]),
        (1, [1] * 200),
    ],
)
def test_checkpoint_reads_large_arrays_in_strips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strip_bytes: int, n_rows: list[int]
) -> None:
    monkeypatch.setattr("whisper_hailo.checkpoint.checkpoint.STRIP_BYTES", strip_bytes)
    for dtype in ("float32", "float16"):
        checkpoint = Checkpoint(write_checkpoint(tmp_path / dtype, dtype=dtype))
        pieces = list(checkpoint.weight(EMBEDDING).pieces())
        assert [len(piece) for piece in pieces] == n_rows
        np.testing.assert_array_equal(
            np.concatenate(pieces), checkpoint.read(EMBEDDING)
        )


@pytest.mark.parametrize("value", [1e12, -1e12, np.inf, -np.inf, np.nan])
def test_checkpoint_read_of_huge_or_nan_values_is_refused(
    tmp_path: Path, value: float
) -> None:
    arrays = random_arrays()
    checkpoint = Checkpoint(write_checkpoint(tmp_path / "whole", arrays))
    checkpoint.read("encoder.conv1.bias")
    arrays["encoder.conv1.bias"][3] = value
    checkpoint = Checkpoint(write_checkpoint(tmp_path / "broken", arrays))
    with pytest.raises(ModelError, match=r"conv1\.bias"):
        checkpoint.read("encoder.conv1.bias")


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 1e-3), ("bfloat16", 8e-3)]
)
def test_checkpoint_reads_half_precision_as_float32(
    tmp_path: Path, dtype: str, tolerance: float
) -> None:
    checkpoint = Checkpoint(write_checkpoint(tmp_path, dtype=dtype))
    got = checkpoint.read(EMBEDDING)
    assert got.dtype == np.float32
    np.testing.assert_allclose(
        got, random_arrays()[EMBEDDING], rtol=tolerance, atol=1e-6
    )


def test_checkpoint_is_tied_by_absence_and_by_value(tmp_path: Path) -> None:
    arrays = random_arrays()
    assert Checkpoint(write_checkpoint(tmp_path / "absent", arrays)).tied
    equal = {**arrays, "proj_out.weight": arrays[EMBEDDING]}
    assert Checkpoint(write_checkpoint(tmp_path / "equal", equal)).tied


def test_checkpoint_projection_untied_is_its_own(tmp_path: Path) -> None:
    arrays = random_arrays()
    untied = {**arrays, "proj_out.weight": arrays[EMBEDDING] + np.float32(1)}
    checkpoint = Checkpoint(write_checkpoint(tmp_path, untied))
    assert not checkpoint.tied
    np.testing.assert_array_equal(
        checkpoint.projection().load(), untied["proj_out.weight"]
    )


@pytest.mark.parametrize(
    ("n_missing", "expected"),
    [
        (1, "decoder.layers.0.fc1.bias of"),
        (3, "fc1.bias, decoder.layers.0.fc2.weight, decoder.layers.0.fc2.bias of"),
        (4, "decoder.layers.0.fc2.weight and 1 more of"),
    ],
)
def test_checkpoint_of_missing_arrays_names_them(
    tmp_path: Path, n_missing: int, expected: str
) -> None:
    arrays = random_arrays()
    for name in ("fc1.bias", "fc2.weight", "fc2.bias", "fc1.weight")[:n_missing]:
        del arrays[f"decoder.layers.0.{name}"]
    assert expected in _one_line(write_checkpoint(tmp_path, arrays))


def test_checkpoint_of_misshapen_projection_names_it(tmp_path: Path) -> None:
    arrays = {**random_arrays(), "proj_out.weight": np.ones((199, 64), np.float32)}
    message = _one_line(write_checkpoint(tmp_path, arrays))
    assert "proj_out.weight" in message
    assert "(199, 64)" in message


def test_checkpoint_of_misshapen_array_names_both_shapes(tmp_path: Path) -> None:
    arrays = random_arrays()
    arrays["encoder.conv1.bias"] = np.zeros(63, np.float32)
    message = _one_line(write_checkpoint(tmp_path, arrays))
    assert "encoder.conv1.bias" in message
    assert "(63,)" in message


def test_checkpoint_of_surplus_layers_is_refused(tmp_path: Path) -> None:
    arrays = random_arrays()
    arrays["encoder.layers.1.fc1.bias"] = arrays["encoder.layers.0.fc1.bias"]
    message = _one_line(write_checkpoint(tmp_path / "deep", arrays))
    assert "encoder.layers.1.fc1.bias" in message
    arrays = random_arrays()
    arrays["decoder.layers.0.fc1.lora_A.weight"] = np.ones((4, 64), np.float32)
    assert "lora_A" in _one_line(write_checkpoint(tmp_path / "adapted", arrays))


def test_checkpoint_with_key_bias_is_refused(tmp_path: Path) -> None:
    arrays = random_arrays()
    arrays["decoder.layers.0.self_attn.k_proj.bias"] = np.ones(64, np.float32)
    assert "k_proj.bias" in _one_line(write_checkpoint(tmp_path, arrays))


def test_checkpoint_of_integer_arrays_is_refused(tmp_path: Path) -> None:
    assert "I8" in _one_line(write_checkpoint(tmp_path, dtype="int8"))


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_checkpoint_of_truncated_safetensors_is_refused(
    tmp_path: Path, keep: int
) -> None:
    write_checkpoint(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert "model.safetensors" in _one_line(tmp_path)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_checkpoint_of_torch_files_equals_safetensors(
    tmp_path: Path, n_shards: int
) -> None:
    arrays = random_arrays()
    expected = Checkpoint(write_checkpoint(tmp_path / "safe", arrays))
    folder = write_checkpoint(tmp_path / "torch", arrays)
    (folder / "model.safetensors").unlink()
    names = ["pytorch_model.bin"]
    if n_shards > 1:
        names = [f"pytorch_model-{i}-of-{n_shards}.bin" for i in range(n_shards)]
    weight_map = {}
    for index, file in enumerate(names):
        stored = {
            f"model.{name}": arrays[name] for name in list(arrays)[index::n_shards]
        }
        write_state_dict(folder / file, stored)
        weight_map |= dict.fromkeys(stored, file)
    if n_shards > 1:
        text = json.dumps({"weight_map": weight_map})
        (folder / "pytorch_model.bin.index.json").write_text(text)
    checkpoint = Checkpoint(folder)
    assert [path.name for path in checkpoint.files] == names
    for name in arrays:
        np.testing.assert_array_equal(checkpoint.read(name), expected.read(name))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x80\x02}.", "before 1.6"),
        (b"PK\x03\x04", "truncated"),
        (b"{}", "not a PyTorch file"),
        (b"", "not a PyTorch file"),
    ],
)
def test_checkpoint_of_broken_torch_file_is_refused(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(content)
    assert expected in _one_line(tmp_path)


def test_checkpoint_of_torch_file_without_names_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    write_pickle(tmp_path / "pytorch_model.bin", b"\x80\x02].")
    assert "pytorch_model.bin" in _one_line(tmp_path)


def test_checkpoint_of_other_pickles_is_refused_unread(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "model.ckpt")
    assert "model.ckpt, expected" in _one_line(tmp_path)


def test_checkpoint_of_missing_shard_names_it(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, n_shards=3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    message = _one_line(tmp_path)
    assert "model-00002-of-00003.safetensors" in message
    assert "1 of 3" in message


def test_checkpoint_of_other_directories_is_refused(tmp_path: Path) -> None:
    assert "absent" in _one_line(tmp_path / "absent")
    assert "config.json" in _one_line(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert "JSON" in _one_line(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert "JSON object" in _one_line(tmp_path)


def test_checkpoint_without_arrays_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "model.safetensors" in _one_line(tmp_path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model_type": "wav2vec2"}, "model_type 'wav2vec2'"),
        ({"activation_function": "relu"}, "activation_function 'relu'"),
        ({"scale_embedding": True}, "scale_embedding"),
        ({"d_model": None}, "d_model"),
        ({"decoder_layers": True}, "decoder_layers"),
        ({"decoder_attention_heads": 3}, "3 heads"),
        ({"vocab_size": 201}, "(200, 64)"),
    ],
)
def test_checkpoint_of_unfit_config_is_refused(
    tmp_path: Path, change: dict[str, object], expected: str
) -> None:
    write_checkpoint(tmp_path, config={**config_of(TOY), **change})
    assert expected in _one_line(tmp_path)


SHARDED_EMBEDDING = "decoder.embed_tokens.weight"
PROJECTION = "proj_out.weight"
INDEX = "model.safetensors.index.json"


def test_checkpoint_files_are_in_order_of_names(tmp_path: Path) -> None:
    checkpoint = Checkpoint(write_checkpoint(tmp_path, n_shards=9))
    names = [f"model-0000{i}-of-00009.safetensors" for i in range(1, 10)]
    assert [path.name for path in checkpoint.files] == names
    for name in names[2:8]:
        (tmp_path / name).unlink()
    expected = rf"{names[2]}, {names[3]}, {names[4]} \(6 of 9"
    with pytest.raises(ModelError, match=expected):
        Checkpoint(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("../other.safetensors", "/other.safetensors", "part/other.safetensors"),
        *("pytorch_model.bin", "", "a\0b.safetensors", "x" * 300 + ".safetensors"),
    ],
)
def test_checkpoint_index_names_safetensors_beside_it_only(
    tmp_path: Path, name: str
) -> None:
    write_checkpoint(tmp_path / "model", n_shards=2)
    (tmp_path / "other.safetensors").touch()
    (tmp_path / "model" / "part").mkdir()
    for place in ("part/other.safetensors", "pytorch_model.bin"):
        (tmp_path / "model" / place).touch()
    index = tmp_path / "model" / INDEX
    known = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**known, "more": name}}))
    with pytest.raises(ModelError) as caught:
        Checkpoint(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_checkpoint_ignores_arrays_outside_layers(tmp_path: Path) -> None:
    """Such as the head of a classifier, or buffers of an early Transformers."""
    arrays = {**random_arrays(), "classifier.weight": np.ones((2, 64), np.float32)}
    checkpoint = Checkpoint(write_checkpoint(tmp_path, arrays))
    np.testing.assert_array_equal(
        checkpoint.read(SHARDED_EMBEDDING), arrays[SHARDED_EMBEDDING]
    )


@pytest.mark.parametrize("at_once", [200, 64])
@pytest.mark.parametrize("row", [0, 1, 63, 64, 199])
def test_checkpoint_is_untied_by_one_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int, at_once: int
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.checkpoint.checkpoint.STRIP_BYTES", at_once * 64 * 4
    )
    arrays: Arrays = random_arrays()
    arrays[PROJECTION] = arrays[SHARDED_EMBEDDING].copy()
    assert (
        Checkpoint(write_checkpoint(tmp_path / "tied", arrays)).projection_name
        == SHARDED_EMBEDDING
    )
    arrays[PROJECTION][row, 5] += 1
    assert (
        Checkpoint(write_checkpoint(tmp_path / "other", arrays)).projection_name
        == PROJECTION
    )


def test_checkpoint_header_size_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path)
    length = int.from_bytes((tmp_path / "model.safetensors").read_bytes()[:8], "little")
    bound = "whisper_hailo.checkpoint.weights.LARGEST_BYTES"
    monkeypatch.setattr(bound, length)
    assert Checkpoint(tmp_path).tied
    monkeypatch.setattr(bound, length - 1)
    with pytest.raises(ModelError, match=f"{length} bytes"):
        Checkpoint(tmp_path)
