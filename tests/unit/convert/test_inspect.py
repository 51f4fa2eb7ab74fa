"""Descriptions of model directories and HEFs, as `inspect` prints them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.hef_files import ENCODER
from tests.fakes.model_sizes import TOY_TOKENS, toy_spec
from tests.standin.hef_file import Wish, hef_bytes
from whisper_hailo.convert.inspect import describe, describe_hef
from whisper_hailo.core.errors import HefError, ModelError
from whisper_hailo.core.spec import SPEC_FILE, FileRecord, SpecialTokens


def write(directory: Path, tokens: SpecialTokens = TOY_TOKENS) -> None:
    """Write a model.json that lists three files; one is changed, one is missing."""
    record = FileRecord(bytes=5, sha256=hashlib.sha256(b"whole").hexdigest())
    spec = replace(toy_spec(tokens), files=dict.fromkeys(("c", "b", "a"), record))
    (directory / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    (directory / "b").write_bytes(b"whole")
    (directory / "c").write_bytes(b"whale")


def test_describe_gives_file_states_in_order(tmp_path: Path) -> None:
    write(tmp_path)
    files = describe(tmp_path)["files"]
    assert [(name, file["state"]) for name, file in files.items()] == [
        ("a", "missing"),
        ("b", "ok"),
        ("c", "changed"),
    ]
    assert files["b"]["bytes"] == 5


def test_describe_windows_are_20_ms_to_30_s(tmp_path: Path) -> None:
    write(tmp_path)
    assert describe(tmp_path)["windows_s"] == {
        "shortest": 0.02,
        "longest": 30.0,
        "step": 0.02,
    }


@pytest.mark.parametrize(
    ("languages", "expected"), [({"en": 12, "de": 13}, 2), ({}, 1)]
)
def test_describe_without_language_tokens_has_one_language(
    tmp_path: Path, languages: dict[str, int], expected: int
) -> None:
    write(tmp_path, replace(TOY_TOKENS, languages=languages))
    assert describe(tmp_path)["languages"] == expected


def test_describe_of_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="gone"):
        describe(tmp_path / "gone")


@pytest.mark.parametrize("name", ["model.hef", "MODEL.HEF", "model.bin"])
def test_describe_accepts_a_hef_of_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(hef_bytes(Wish([ENCODER])))
    assert describe(path) == describe_hef(path)


@pytest.mark.parametrize("name", ["model.hef", "model.onnx"])
def test_describe_of_other_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no such thing")
    with pytest.raises(HefError):
        describe(tmp_path / name)
