"""Sizes of a model, and those that none has."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_sizes import TINY, toy_spec
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


def test_sizes_that_follow_from_the_dimensions() -> None:
    assert (TINY.head_size, TINY.max_frames, TINY.max_window_s) == (64, 3000, 30.0)


def test_spec_survives_its_file(tmp_path: Path) -> None:
    files = {"encoder.onnx": FileRecord(10, "ab")}
    spec = replace(
        toy_spec(),
        files=files,
        hailo=(DECODER_FORM,),
        half=True,
        int8_safe_without_vnni=True,
    )
    (tmp_path / "model.json").write_text(spec.to_json(), encoding="utf-8")
    assert ModelSpec.load(tmp_path) == spec
    assert ModelSpec.load(tmp_path).to_json() == spec.to_json()


@pytest.mark.parametrize(
    ("quantization", "in_codes"), [("none", False), ("int4", True)]
)
def test_how_audio_is_held_follows_from_the_weights(
    quantization: str, in_codes: bool
) -> None:
    assert replace(toy_spec(), quantization=quantization).has_int8_audio is in_codes


VERSION = f'"version": {SPEC_VERSION}'
NOT_SPECS = ["", "[]", "{}", "{" + VERSION + "}", "{" + VERSION + ', "dims": 3}']


@pytest.mark.parametrize("text", NOT_SPECS)
def test_broken_spec_says_so(text: str) -> None:
    with pytest.raises(ModelError, match=r"here/model\.json"):
        ModelSpec.from_json(text.encode(), "here/model.json")


def test_another_format_version_says_what_to_do() -> None:
    for version in (1, SPEC_VERSION - 1, SPEC_VERSION + 1, 99):
        text = (
            toy_spec()
            .to_json()
            .replace(f'"version": {SPEC_VERSION}', f'"version": {version}')
        )
        with pytest.raises(
            ModelError, match=f"version {version}, .*convert the checkpoint"
        ):
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


def test_hefs_survive_the_file() -> None:
    spec = replace(toy_spec(), hefs=(HEF,))
    assert ModelSpec.from_json(spec.to_json().encode(), "model.json") == spec


def test_hefs_lie_in_the_model_directory() -> None:
    for file in ("../e.hef", "/e.hef"):
        with pytest.raises(ModelError, match="outside"):
            replace(toy_spec(), hefs=(replace(HEF, file=file),))


def test_broken_hailo_forms_say_so() -> None:
    text = replace(toy_spec(), hailo=(DECODER_FORM,)).to_json()
    for broken in (
        text.replace('"end_nodes"', '"ends"'),
        text.replace('"part"', '"piece"'),
    ):
        with pytest.raises(ModelError, match="description"):
            ModelSpec.from_json(broken.encode(), "model.json")


def test_directory_without_spec_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="whisper-hailo convert"):
        ModelSpec.load(tmp_path)


def test_model_without_languages_is_english_only() -> None:
    spec = toy_spec()
    assert spec.is_multilingual
    assert not replace(spec, tokens=replace(spec.tokens, languages={})).is_multilingual


def test_same_spec_is_the_same_text_which_people_can_read() -> None:
    text = toy_spec().to_json()
    assert text.startswith(
        '{\n  "alignment_heads": [\n    [\n      0,\n      0\n    ]\n  ],\n'
    )
    assert text.endswith("\n}\n")
    raw = json.loads(text)
    assert raw["version"] == SPEC_VERSION
    assert [*raw] == sorted(raw)
    assert [*raw["dims"]] == sorted(raw["dims"])


def test_checkpoint_may_lack_tokens_but_not_have_others() -> None:
    few = SpecialTokens(sot=0, eot=29)  # of 30
    assert toy_spec(few).tokens == few
    assert (few.languages, few.suppress, few.begin_suppress) == ({}, (), ())
    for name in (
        "sot", "eot", "transcribe", "translate", "sot_lm", "sot_prev", "no_speech",
        "no_timestamps", "timestamp_begin",
    ):  # fmt: skip
        for bad in (-1, 30):
            with pytest.raises(ModelError, match=f"id {bad}"):
                toy_spec(replace(few, **{name: bad}))
    for more in (
        {"languages": {"en": 30}},
        {"suppress": (-1,)},
        {"begin_suppress": (5, 30)},
    ):
        with pytest.raises(ModelError, match="token id"):
            toy_spec(replace(few, **more))  # type: ignore[arg-type]


def test_alignment_heads_are_the_decoder_s() -> None:
    dims = replace(toy_spec().dims, n_decoder_layers=3, n_decoder_heads=2)
    for good in ((0, 0), (2, 1)):
        assert replace(
            toy_spec(), dims=dims, alignment_heads=(good,)
        ).alignment_heads == (good,)
    for bad in ((3, 0), (0, 2), (-1, 0), (0, -1), (1, 2)):
        with pytest.raises(ModelError, match=f"head {bad[0]}, {bad[1]}"):
            replace(toy_spec(), dims=dims, alignment_heads=((0, 0), bad))


def test_all_files_that_are_named_lie_in_the_model_directory() -> None:
    form = replace(DECODER_FORM, assets={"position_rows": "../rows.npy"})
    for change in (
        {"files": {"../a": FileRecord(1, "a")}},
        {"hailo": (replace(DECODER_FORM, file="/a.onnx"),)},
        {"hailo": (form,)},
    ):
        with pytest.raises(ModelError, match="outside"):
            replace(toy_spec(), **change)  # type: ignore[arg-type]


def test_what_is_looked_for_is_found_or_it_is_said_how_to_get_it() -> None:
    encoder = replace(DECODER_FORM, part="encoder", file="hailo/e.onnx", length=None)
    spec = replace(
        toy_spec(), hailo=(DECODER_FORM, encoder), files={"a": FileRecord(1, "x")}
    )
    assert spec.hailo_form("encoder") is encoder
    assert spec.hailo_form("decoder") is DECODER_FORM
    assert spec.record("a") == FileRecord(1, "x")
    with pytest.raises(ModelError, match="list b"):
        spec.record("b")
    with pytest.raises(ModelError, match="--hailo"):
        toy_spec().hailo_form("encoder")


def test_int8_safe_keeps_its_entry_of_format_9() -> None:
    entries = json.loads(replace(toy_spec(), int8_safe_without_vnni=True).to_json())
    assert entries["pairs_fit"] is True
    assert "int8_safe_without_vnni" not in entries
    del entries["pairs_fit"]
    spec = ModelSpec.from_json(json.dumps(entries).encode(), "it")
    assert spec.int8_safe_without_vnni is False


def test_what_a_conversion_does_not_know_is_nothing() -> None:
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


def test_sizes_follow_from_the_others() -> None:
    assert (SMALL.head_size, SMALL.cache_head_size) == (12, 16)
    # Of heads that are 1 wide.
    assert replace(SMALL, n_decoder_heads=60).cache_head_size == 8
    assert replace(SMALL, d_model=192, n_decoder_heads=3).cache_head_size == 64
    half = replace(SMALL, n_audio_ctx=750)
    assert (half.max_frames, half.max_window_s) == (1500, 15.0)


@pytest.mark.parametrize("name", LARGEST)
def test_size_is_a_whole_number_up_to_its_largest(name: str) -> None:
    for good in (1, LARGEST[name]):
        assert getattr(replace(SMALL, **{name: good}), name) == good
    for bad in (0, -1, LARGEST[name] + 1):
        with pytest.raises(ModelError, match=f"^{name} is"):
            replace(SMALL, **{name: bad})
    other: Any
    for other in (1.5, 2.0, True, "4", None):
        with pytest.raises(MismatchError, match=f"^{name} is"):
            decode(Dimensions, asdict(SMALL) | {name: other})


def test_width_is_split_into_its_heads() -> None:
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
        with pytest.raises(ModelError, match="7 heads"):
            replace(SMALL, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"part": "middle"}, {"window_s": 0}, {"opset": 0}, {"length": 0},
        {"inputs": {"mel": (1, 0)}}, {"outputs": {"out": (1, (1 << 20) + 1)}},
        {"chip_inputs": ((1, -1, 1, 1),)},
    ],
)  # fmt: skip
def test_form_that_no_chip_takes_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"e\.onnx"):
        replace(FORM, **change)


def test_form_may_be_that_large_and_has_an_emulated_one() -> None:
    large = replace(FORM, outputs={"out": (1, 1 << 20)}, part="decoder", length=1)
    assert large.emulated_file == "hailo/e-emulated.onnx"
    assert (FORM.assets, FORM.length) == ({}, None)
