"""Directories of CTranslate2 as checkpoints: arrays, sizes, tokens, and broken files."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.checkpoints import (
    SETTINGS,
    TOY,
    model_bytes,
    random_arrays,
    variables_of,
    write_ctranslate2,
)
from tests.fuzz.targets.toy import tokenizer_json, write_toy_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.ctranslate2 import is_ctranslate2
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.model_cache import find_model, is_described
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError

ARRAYS = random_arrays()
LARGEST_ROUNDING = {"float32": 0.0, "float16": 1e-3, "bfloat16": 1e-2, "int8": 3e-2}
"""Of numbers of order one, the largest of which are about 4."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = write_ctranslate2(tmp_path / "model")
    (folder / "tokenizer.json").write_text(
        json.dumps(tokenizer_json()), encoding="utf-8"
    )
    return folder


@pytest.mark.parametrize(("dtype", "bound"), LARGEST_ROUNDING.items())
def test_ctranslate2_arrays_of_each_type_match_checkpoint(
    dtype: str, bound: float, tmp_path: Path
) -> None:
    write_ctranslate2(tmp_path, variables_of(ARRAYS, dtype=dtype))
    opened = Checkpoint(tmp_path)
    assert opened.config.dims == TOY
    assert opened.tied
    for name, expected in ARRAYS.items():
        got = opened.read(name)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound, err_msg=name)


def test_ctranslate2_int8_rows_equal_rows_of_the_whole(tmp_path: Path) -> None:
    opened = Checkpoint(write_ctranslate2(tmp_path, variables_of(ARRAYS, dtype="int8")))
    for name in (
        "decoder.embed_tokens.weight",
        "encoder.layers.0.self_attn.v_proj.weight",
    ):
        part = opened.rows(name, 5, 9).load()
        np.testing.assert_array_equal(part, opened.read(name)[5:9])


def test_ctranslate2_int16_is_refused(tmp_path: Path) -> None:
    write_ctranslate2(tmp_path, variables_of(ARRAYS, dtype="int16"))
    with pytest.raises(ModelError, match="float32, float16, bfloat16 or int8"):
        Checkpoint(tmp_path)


def test_ctranslate2_own_projection_is_untied(tmp_path: Path) -> None:
    variables = variables_of(ARRAYS)
    variables["decoder/projection/weight"] = -ARRAYS["decoder.embed_tokens.weight"]
    opened = Checkpoint(write_ctranslate2(tmp_path, variables))
    assert opened.projection_name == "proj_out.weight"


def test_ctranslate2_alias_has_the_scales(tmp_path: Path) -> None:
    arrays = {**ARRAYS, "encoder.layers.0.fc2.bias": ARRAYS["encoder.conv1.bias"]}
    variables = variables_of(arrays, dtype="int8")
    alias = "decoder/layer_1/ffn/linear_0/weight"
    name = "decoder/layer_0/ffn/linear_0/weight"
    del variables[alias], variables[f"{alias}_scale"]
    write_ctranslate2(tmp_path, variables)
    (tmp_path / "model.bin").write_bytes(model_bytes(variables, {alias: name}))
    opened = Checkpoint(tmp_path)
    first, second = (opened.read(f"decoder.layers.{i}.fc1.weight") for i in (0, 1))
    np.testing.assert_array_equal(first, second)


def test_ctranslate2_converts_as_the_checkpoint_does(tmp_path: Path) -> None:
    checkpoint = write_toy_checkpoint(tmp_path / "hf")
    original = Checkpoint(checkpoint)
    variables = variables_of(
        {name: original.read(name) for name in ARRAYS}, dtype="float16"
    )
    write_ctranslate2(tmp_path / "ct2", variables)
    shutil.copy(checkpoint / "tokenizer.json", tmp_path / "ct2")
    expected = convert_checkpoint(checkpoint, tmp_path / "a", ConvertOptions())
    got = convert_checkpoint(tmp_path / "ct2", tmp_path / "b", ConvertOptions())
    assert got.files == expected.files
    assert (got.dims, got.tokens) == (expected.dims, expected.tokens)
    assert got.alignment_heads == expected.alignment_heads
    assert set(got.source.sha256) == {"config.json", "model.bin"}


def test_is_ctranslate2_with_safetensors_is_false(
    directory: Path, tmp_path: Path
) -> None:
    both = shutil.copytree(directory, tmp_path / "both")
    (both / "model.safetensors").touch()
    assert not is_ctranslate2(both)


def test_find_model_takes_a_ctranslate2_directory(directory: Path) -> None:
    assert is_ctranslate2(directory)
    assert not is_described(directory)
    _, spec = find_model(str(directory))
    assert spec.dims == TOY
    assert spec.tokens.languages == {"en": 162, "de": 163}
    assert (spec.tokens.suppress, spec.tokens.begin_suppress) == ((1, 2, 7), (3, 160))
    assert spec.alignment_heads == ((0, 1), (1, 0))


def test_find_model_of_changed_ctranslate2_converts_again(directory: Path) -> None:
    first, _ = find_model(str(directory))
    before = (first / "decoder.onnx.data").read_bytes()
    arrays = random_arrays(seed=1)
    (directory / "model.bin").write_bytes(model_bytes(variables_of(arrays)))
    second, _ = find_model(str(directory))
    assert first == second
    assert (second / "decoder.onnx.data").read_bytes() != before


def test_ctranslate2_english_vocabulary_has_no_languages(directory: Path) -> None:
    """Those of faster-whisper list languages for `.en` models, too."""
    arrays = {
        **ARRAYS,
        "decoder.embed_tokens.weight": np.ones((51_864, TOY.d_model), np.float32),
    }
    write_ctranslate2(directory, variables_of(arrays, dtype="float16"))
    tokens = read_special_tokens(directory, directory / "tokenizer.json")
    assert (tokens.languages, tokens.transcribe) == ({}, None)
    assert tokens.sot == 161


def test_ctranslate2_without_vocabulary_names_the_option(tmp_path: Path) -> None:
    write_ctranslate2(tmp_path / "model")
    with pytest.raises(ModelError, match="--tokenizer"):
        convert_checkpoint(tmp_path / "model", tmp_path / "out", ConvertOptions())


def test_ctranslate2_without_config_is_refused(directory: Path) -> None:
    (directory / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json"):
        find_model(str(directory))


@pytest.mark.parametrize("entry", [{"lang_ids": "en"}, {"suppress_ids": 1}])
def test_ctranslate2_config_of_wrong_types_is_refused(
    entry: dict[str, Any], directory: Path
) -> None:
    (directory / "config.json").write_text(json.dumps(SETTINGS | entry))
    with pytest.raises(ModelError, match="list"):
        find_model(str(directory))


HEAD_FAULTS = {
    "version": ((5, "WhisperSpec", 3), "'5'.*6"),
    "spec": ((6, "TransformerSpec", 3), "'TransformerSpec'"),
    "revision": ((6, "WhisperSpec", 2), "'2'.*3"),
}


@pytest.mark.parametrize(("head", "message"), HEAD_FAULTS.values(), ids=HEAD_FAULTS)
def test_ctranslate2_of_other_formats_is_refused(
    head: tuple[int, str, int], message: str, directory: Path
) -> None:
    (directory / "model.bin").write_bytes(model_bytes(variables_of(ARRAYS), head=head))
    with pytest.raises(ModelError, match=message):
        Checkpoint(directory)


def test_ctranslate2_pickle_is_refused_by_first_bytes(directory: Path) -> None:
    (directory / "model.bin").write_bytes(b"\x80\x04\x95" + bytes(100))
    with pytest.raises(ModelError, match=r"model\.bin"):
        Checkpoint(directory)


def test_ctranslate2_file_cut_anywhere_is_refused(directory: Path) -> None:
    whole = (directory / "model.bin").read_bytes()
    for length in [*range(40), *np.linspace(40, len(whole) - 1, 60).astype(int)]:
        (directory / "model.bin").write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"model\.bin"):
            Checkpoint(directory)


def _fields(name: bytes, axes: bytes, dtype: int, n_bytes: int) -> bytes:
    head = model_bytes({}, head=(6, "WhisperSpec", 3))[: 4 + 2 + 12 + 4]
    return (
        head + struct.pack("<I", 1) + name + axes + struct.pack("<BI", dtype, n_bytes)
    )


NAME = struct.pack("<H", 2) + b"x\0"
ONE = struct.pack("<BI", 1, 2)
BROKEN = {
    "bytes beyond the end": (
        _fields(NAME, struct.pack("<BI", 1, 2**30 - 1), 0, 2**32 - 4),
        "incomplete",
    ),
    "shape and bytes differ": (_fields(NAME, ONE, 0, 4), " 4 bytes in x"),
    "huge shape": (
        _fields(NAME, struct.pack("<B3I", 3, *[2**32 - 1] * 3), 0, 4),
        " 4 bytes in x",
    ),
    "no such type": (_fields(NAME, ONE, 9, 8), " 9 "),
    "many axes": (_fields(NAME, b"\xff" + bytes(4 * 255), 0, 8), " 255 "),
    "name without end": (
        _fields(struct.pack("<H", 2) + b"xx", ONE, 0, 8),
        "name",
    ),
    "empty name": (_fields(struct.pack("<H", 0), ONE, 0, 8), "name"),
}


@pytest.mark.parametrize(("raw", "message"), BROKEN.values(), ids=BROKEN)
def test_ctranslate2_broken_variable_is_refused(
    raw: bytes, message: str, directory: Path
) -> None:
    (directory / "model.bin").write_bytes(raw)
    with pytest.raises(ModelError, match=message):
        Checkpoint(directory)


def test_ctranslate2_huge_variable_count_is_refused(directory: Path) -> None:
    raw = model_bytes({})
    (directory / "model.bin").write_bytes(raw[:22] + struct.pack("<I", 2**32 - 1))
    with pytest.raises(ModelError, match="4294967295"):
        Checkpoint(directory)


LINEAR = "encoder/layer_0/self_attention/linear_0"
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "key bias": (
        {f"{LINEAR}/bias": np.ones(3 * 64, np.float32)},
        "bias",
    ),
    "rows": ({f"{LINEAR}/weight": np.ones((7, 64), np.float32)}, " 7 "),
    "stranger": ({"encoder/layer_0/rotary": np.ones(3, np.float32)}, "rotary"),
    "zero points": (
        {f"{LINEAR}/weight_zero": np.ones(3, np.float32)},
        "does not belong",
    ),
    "another activation": ({"decoder/activation": np.int8(0)}, "activation"),
    "heads in a list": (
        {"encoder/num_heads": np.ones(2, np.float32)},
        "does not belong",
    ),
    "no heads": ({"encoder/num_heads": np.int16(0)}, "n_encoder_heads"),
    "odd heads": ({"encoder/num_heads": np.int16(7)}, "7 heads"),
    "flat": ({"encoder/conv1/weight": np.ones(9, np.float32)}, ".9,."),
    "not a number": (
        {"encoder/conv1/bias": np.full(64, np.nan, ml_dtypes.bfloat16)},
        "conv1.bias",
    ),
    "no scales": (
        {"encoder/conv1/weight": np.ones((64, 80, 3), np.int8)},
        "scale",
    ),
    "scale of another shape": (
        {
            "encoder/conv1/weight": np.ones((64, 80, 3), np.int8),
            "encoder/conv1/weight_scale": np.ones(63, np.float32),
        },
        "F32 .63,.",
    ),
    "scale of zero": (
        {
            "encoder/conv1/weight": np.ones((64, 80, 3), np.int8),
            "encoder/conv1/weight_scale": np.zeros(64, np.float32),
        },
        "scale",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_ctranslate2_other_content_is_refused(
    change: dict[str, Any], message: str, directory: Path
) -> None:
    write_ctranslate2(directory, variables_of(ARRAYS) | change)
    with pytest.raises(ModelError, match=message) as caught:
        convert_checkpoint(directory, directory.parent / "out", ConvertOptions())
    assert "\n" not in str(caught.value)


def test_ctranslate2_without_number_of_heads_is_refused(directory: Path) -> None:
    variables = variables_of(ARRAYS)
    del variables["decoder/num_heads"]
    write_ctranslate2(directory, variables)
    with pytest.raises(ModelError, match="decoder/num_heads"):
        Checkpoint(directory)


def test_ctranslate2_missing_layer_is_named(directory: Path) -> None:
    variables = variables_of(ARRAYS)
    del variables["decoder/layer_0/ffn/linear_1/weight"]
    write_ctranslate2(directory, variables)
    with pytest.raises(ModelError, match=r"decoder\.layers\.0\.fc2\.weight"):
        Checkpoint(directory)
