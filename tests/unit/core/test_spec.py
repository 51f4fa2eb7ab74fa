from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.shapes import TINY, toy_spec
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import FileRecord, ModelSpec


def test_sizes_that_follow_from_the_dimensions() -> None:
    assert (TINY.head_size, TINY.max_frames, TINY.max_window_s) == (64, 3000, 30.0)


def test_a_spec_survives_its_file(tmp_path: Path) -> None:
    spec = replace(toy_spec(), files={"encoder.onnx": FileRecord(10, "ab")})
    (tmp_path / "model.json").write_text(spec.to_json(), encoding="utf-8")
    assert ModelSpec.load(tmp_path) == spec
    assert ModelSpec.load(tmp_path).to_json() == spec.to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "dims": 3}'])
def test_a_broken_spec_says_so(text: str) -> None:
    with pytest.raises(ModelError, match=r"here/model\.json is not a model description"):
        ModelSpec.from_json(text, "here/model.json")


def test_another_format_version_says_what_to_do() -> None:
    text = toy_spec().to_json().replace('"version": 1', '"version": 99')
    with pytest.raises(ModelError, match=r"version 99, .* convert the checkpoint again"):
        ModelSpec.from_json(text, "model.json")


def test_a_directory_without_spec_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="whisper-hailo convert"):
        ModelSpec.load(tmp_path)


def test_a_model_without_languages_is_english_only() -> None:
    spec = toy_spec()
    assert spec.multilingual
    assert not replace(spec, tokens=replace(spec.tokens, languages={})).multilingual
