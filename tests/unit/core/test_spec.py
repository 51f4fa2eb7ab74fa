import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.shapes import TINY, toy_spec
from whisper_hailo.core.dimensions import AudioForm
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.hailo import HailoForm, HefRecord
from whisper_hailo.core.spec import SPEC_VERSION, FileRecord, ModelSpec

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


def test_a_spec_survives_its_file(tmp_path: Path) -> None:
    files = {"encoder.onnx": FileRecord(10, "ab")}
    spec = replace(toy_spec(), files=files, hailo=(DECODER_FORM,), half=True, pairs_fit=True)
    (tmp_path / "model.json").write_text(spec.to_json(), encoding="utf-8")
    assert ModelSpec.load(tmp_path) == spec
    assert ModelSpec.load(tmp_path).to_json() == spec.to_json()


@pytest.mark.parametrize(
    ("quantization", "half", "expected"),
    [
        ("none", True, AudioForm.FLOAT),
        ("int8", False, AudioForm.CODES),
        ("int4", True, AudioForm.HALF),
    ],
)
def test_how_audio_is_held_follows_from_the_weights(
    quantization: str, half: bool, expected: AudioForm
) -> None:
    spec = replace(toy_spec(), quantization=quantization, half=half)
    assert spec.audio_form is expected
    narrow = replace(spec, dims=replace(spec.dims, d_model=60, n_decoder_heads=10))
    assert narrow.audio_form is AudioForm.FLOAT  # heads of 6


VERSION = f'"version": {SPEC_VERSION}'
NOT_SPECS = ["", "[]", "{}", "{" + VERSION + "}", "{" + VERSION + ', "dims": 3}']


@pytest.mark.parametrize("text", NOT_SPECS)
def test_a_broken_spec_says_so(text: str) -> None:
    with pytest.raises(ModelError, match=r"here/model\.json is not a model description"):
        ModelSpec.from_json(text.encode(), "here/model.json")


def test_older_directories_lack_what_their_version_did_not_have() -> None:
    raw = json.loads(replace(toy_spec(), half=True, pairs_fit=True).to_json())
    fits = raw.pop("pairs_fit")
    seventh = ModelSpec.from_json(json.dumps(raw | {"version": 7}).encode(), "model.json")
    assert seventh == replace(toy_spec(), half=True)
    half = raw.pop("half")
    assert (
        ModelSpec.from_json(json.dumps(raw | {"version": 6}).encode(), "model.json") == toy_spec()
    )
    for broken in (
        raw | {"pairs_fit": fits},
        raw | {"half": half},
        raw | {"pairs_fit": fits, "half": "no"},
        raw | {"pairs_fit": 1, "half": half},
    ):
        with pytest.raises(ModelError, match=r"model\.json is not a model description"):
            ModelSpec.from_json(json.dumps(broken).encode(), "model.json")


def test_another_format_version_says_what_to_do() -> None:
    for version in (1, 3, 99):  # earlier programs wrote decoders with other inputs
        text = toy_spec().to_json().replace(f'"version": {SPEC_VERSION}', f'"version": {version}')
        with pytest.raises(
            ModelError, match=rf"version {version}, .* convert the checkpoint again"
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
        with pytest.raises(ModelError, match="outside the model directory"):
            replace(toy_spec(), hefs=(replace(HEF, file=file),))


def test_broken_hailo_forms_say_so() -> None:
    text = replace(toy_spec(), hailo=(DECODER_FORM,)).to_json()
    for broken in (text.replace('"end_nodes"', '"ends"'), text.replace('"part"', '"piece"')):
        with pytest.raises(ModelError, match="not a model description"):
            ModelSpec.from_json(broken.encode(), "model.json")


def test_a_directory_without_spec_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="whisper-hailo convert"):
        ModelSpec.load(tmp_path)


def test_a_model_without_languages_is_english_only() -> None:
    spec = toy_spec()
    assert spec.multilingual
    assert not replace(spec, tokens=replace(spec.tokens, languages={})).multilingual
