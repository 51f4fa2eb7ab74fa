"""Sizes of a model, and those that none has."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_sizes import toy_spec
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import (
    SPEC_VERSION,
    Dimensions,
    FileRecord,
    HailoForm,
    HefRecord,
    ModelSource,
    ModelSpec,
    SpecialTokens,
)
from whisper_hailo.core.strict_json import MismatchError, decode

DECODER_FORM = HailoForm(
    part="decoder",
    file="hailo/decoder-10s-32.onnx",
    window_s=10,
    length=32,
    opset=13,
    inputs={"ids": (1, 32), "features": (1, 500, 64)},
    outputs={"logits": (1, 32, 30)},
    start_nodes=("features", "/Reshape"),
    end_nodes=("/MatMul",),
    chip_inputs=((1, 1, 500, 64), (1, 32, 1, 64)),
    assets={"position_rows": "rows.npy"},
)


def test_model_spec_file_round_trip_is_equal(tmp_path: Path) -> None:
    files = {"encoder.onnx": FileRecord(10, "ab")}
    spec = replace(
        toy_spec(),
        files=files,
        hailo=(DECODER_FORM,),
        hefs=(HEF,),
        half=True,
        int8_safe_without_vnni=True,
    )
    (tmp_path / "model.json").write_text(spec.to_json(), encoding="utf-8")
    assert ModelSpec.load(tmp_path) == spec
    assert ModelSpec.load(tmp_path).to_json() == spec.to_json()


@pytest.mark.parametrize(
    ("quantization", "in_codes"), [("none", False), ("int4", True)]
)
def test_has_int8_audio_follows_quantization(quantization: str, in_codes: bool) -> None:
    assert replace(toy_spec(), quantization=quantization).has_int8_audio is in_codes


VERSION = f'"version": {SPEC_VERSION}'
NOT_SPECS = ["", "[]", "{}", "{" + VERSION + "}", "{" + VERSION + ', "dims": 3}']


@pytest.mark.parametrize("text", NOT_SPECS)
def test_from_json_broken_spec_names_file(text: str) -> None:
    with pytest.raises(ModelError, match=r"here/model\.json"):
        ModelSpec.from_json(text.encode(), "here/model.json")


def test_from_json_other_version_asks_for_conversion() -> None:
    for version in (1, SPEC_VERSION - 1, SPEC_VERSION + 1, 99):
        text = (
            toy_spec()
            .to_json()
            .replace(f'"version": {SPEC_VERSION}', f'"version": {version}')
        )
        with pytest.raises(ModelError, match=rf"\b{version}\b.*\bconvert\b"):
            ModelSpec.from_json(text.encode(), "model.json")


HEF = HefRecord(
    part="encoder",
    arch="hailo8",
    file="hailo/hailo8/e.hef",
    bytes=3,
    sha256="a",
    graph_sha256="b",
    script_sha256="c",
    calibration_sha256="d",
    compiler_version="3.33.0",
    snr_db={"output_layer1": 9.2},
)


def test_from_json_broken_hailo_form_is_refused() -> None:
    text = replace(toy_spec(), hailo=(DECODER_FORM,)).to_json()
    for broken in (
        text.replace('"end_nodes"', '"ends"'),
        text.replace('"part"', '"piece"'),
    ):
        with pytest.raises(ModelError, match=r"model\.json"):
            ModelSpec.from_json(broken.encode(), "model.json")


def test_load_without_spec_names_convert_command(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="whisper-hailo convert"):
        ModelSpec.load(tmp_path)


def test_is_multilingual_without_languages_is_false() -> None:
    spec = toy_spec()
    assert spec.is_multilingual
    assert not replace(spec, tokens=replace(spec.tokens, languages={})).is_multilingual


def test_to_json_is_sorted_and_indented() -> None:
    text = toy_spec().to_json()
    assert text.startswith(
        '{\n  "alignment_heads": [\n    [\n      0,\n      0\n    ]\n  ],\n'
    )
    assert text.endswith("\n}\n")
    raw = json.loads(text)
    assert raw["version"] == SPEC_VERSION
    assert [*raw] == sorted(raw)
    assert [*raw["dims"]] == sorted(raw["dims"])


def test_model_spec_token_outside_vocabulary_is_refused() -> None:
    few = SpecialTokens(sot=0, eot=29)  # of 30
    assert toy_spec(few).tokens == few
    assert (few.languages, few.suppress, few.begin_suppress) == ({}, (), ())
    for name in (
        "sot", "eot", "transcribe", "translate", "sot_lm", "sot_prev", "no_speech",
        "no_timestamps", "timestamp_begin",
    ):  # fmt: skip
        for bad in (-1, 30):
            with pytest.raises(ModelError, match=rf" {bad}\b"):
                toy_spec(replace(few, **{name: bad}))
    for more in (
        {"languages": {"en": 30}},
        {"suppress": (-1,)},
        {"begin_suppress": (5, 30)},
    ):
        with pytest.raises(ModelError, match="token id"):
            toy_spec(replace(few, **more))  # type: ignore[arg-type]


def test_model_spec_unknown_alignment_head_is_refused() -> None:
    dims = replace(toy_spec().dims, n_decoder_layers=3, n_decoder_heads=2)
    for good in ((0, 0), (2, 1)):
        assert replace(
            toy_spec(), dims=dims, alignment_heads=(good,)
        ).alignment_heads == (good,)
    for bad in ((3, 0), (0, 2), (-1, 0), (0, -1), (1, 2)):
        with pytest.raises(ModelError, match=f"{bad[0]}, {bad[1]}"):
            replace(toy_spec(), dims=dims, alignment_heads=((0, 0), bad))


def test_model_spec_file_outside_directory_is_refused() -> None:
    form = replace(DECODER_FORM, assets={"position_rows": "../rows.npy"})
    for change in (
        {"files": {"../a": FileRecord(1, "a")}},
        {"hefs": (replace(HEF, file="../e.hef"),)},
        {"hefs": (replace(HEF, file="/e.hef"),)},
        {"hailo": (replace(DECODER_FORM, file="/a.onnx"),)},
        {"hailo": (form,)},
    ):
        with pytest.raises(ModelError, match="outside"):
            replace(toy_spec(), **change)  # type: ignore[arg-type]


def test_hailo_form_and_record_missing_entry_is_refused() -> None:
    encoder = replace(DECODER_FORM, part="encoder", file="hailo/e.onnx", length=None)
    spec = replace(
        toy_spec(), hailo=(DECODER_FORM, encoder), files={"a": FileRecord(1, "x")}
    )
    assert spec.hailo_form("encoder") is encoder
    assert spec.hailo_form("decoder") is DECODER_FORM
    assert spec.record("a") == FileRecord(1, "x")
    with pytest.raises(ModelError, match=r"\bb\b"):
        spec.record("b")
    with pytest.raises(ModelError, match="--hailo"):
        toy_spec().hailo_form("encoder")


def test_to_json_int8_safe_keeps_entry_of_format_9() -> None:
    entries = json.loads(replace(toy_spec(), int8_safe_without_vnni=True).to_json())
    assert entries["pairs_fit"] is True
    assert "int8_safe_without_vnni" not in entries
    del entries["pairs_fit"]
    spec = ModelSpec.from_json(json.dumps(entries).encode(), "it")
    assert spec.int8_safe_without_vnni is False


def test_model_spec_unknown_values_default_to_empty() -> None:
    spec = toy_spec()
    assert (
        spec.files,
        spec.hailo,
        spec.hefs,
        spec.half,
        spec.int8_safe_without_vnni,
    ) == (
        {},
        (),
        (),
        False,
        False,
    )
    assert ModelSource("toy") == ModelSource("toy", None, {})
    assert replace(DECODER_FORM, assets={}).assets == {}
    hef = HefRecord("encoder", "hailo8", "e.hef", 3, "a", "b", "c", "d", "3.33.0")
    assert (hef.snr_db, hef.contexts) == ({}, None)


SMALL = Dimensions(
    n_mels=80, n_audio_ctx=1500, d_model=60, n_encoder_layers=4, n_encoder_heads=6,
    n_decoder_layers=2, n_decoder_heads=5, n_text_ctx=448, n_vocab=51865,
)  # fmt: skip
FORM = HailoForm(
    "encoder", "hailo/e.onnx", 10, None, 13, {"mel": (1, 80, 1000)}, {"out": (1, 500, 60)},
    ("a",), ("b",), ((1, 1, 1000, 80),),
)  # fmt: skip
LARGEST = {
    "n_mels": 1024, "n_audio_ctx": 65_536, "n_encoder_layers": 256, "n_decoder_layers": 256,
    "n_text_ctx": 65_536, "n_vocab": 1_048_576,
}  # fmt: skip


def test_dimensions_derived_sizes_follow_heads() -> None:
    assert (SMALL.head_size, SMALL.cache_head_size) == (12, 16)
    # Of heads that are 1 wide.
    assert replace(SMALL, n_decoder_heads=60).cache_head_size == 8
    assert replace(SMALL, d_model=192, n_decoder_heads=3).cache_head_size == 64
    half = replace(SMALL, n_audio_ctx=750)
    assert (half.max_frames, half.max_window_s) == (1500, 15.0)


@pytest.mark.parametrize("name", LARGEST)
def test_dimensions_size_out_of_range_is_refused(name: str) -> None:
    for good in (1, LARGEST[name]):
        assert getattr(replace(SMALL, **{name: good}), name) == good
    for bad in (0, -1, LARGEST[name] + 1):
        with pytest.raises(ModelError, match=f"^{name} is"):
            replace(SMALL, **{name: bad})
    other: Any
    for other in (1.5, 2.0, True, "4", None):
        with pytest.raises(MismatchError, match=f"^{name} is"):
            decode(Dimensions, asdict(SMALL) | {name: other})


def test_dimensions_width_not_divisible_by_heads_is_refused() -> None:
    assert (
        replace(
            SMALL, d_model=16_384, n_encoder_heads=256, n_decoder_heads=256
        ).head_size
        == 64
    )
    for change in (
        {"d_model": 16_385},
        {"n_encoder_heads": 257},
        {"n_decoder_heads": 257},
    ):
        with pytest.raises(ModelError, match="whole number"):
            replace(SMALL, **change)
    for change in ({"n_encoder_heads": 7}, {"n_decoder_heads": 7}):
        with pytest.raises(ModelError, match=r"\b7\b"):
            replace(SMALL, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"part": "middle"}, {"window_s": 0}, {"opset": 0}, {"length": 0},
        {"inputs": {"mel": (1, 0)}}, {"outputs": {"out": (1, (1 << 20) + 1)}},
        {"chip_inputs": ((1, -1, 1, 1),)},
    ],
)  # fmt: skip
def test_hailo_form_invalid_shape_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"e\.onnx"):
        replace(FORM, **change)


def test_hailo_form_largest_shape_is_accepted() -> None:
    large = replace(FORM, outputs={"out": (1, 1 << 20)}, part="decoder", length=1)
    assert large.emulated_file == "hailo/e-emulated.onnx"
    assert (FORM.assets, FORM.length) == ({}, None)
