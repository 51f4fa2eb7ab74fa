"""Kept results, and their remarks about weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from whisper_hailo_lab.runs.results import (
    OTHER_WEIGHTS,
    mark_weights,
    read_result,
    remark_weights,
    safetensors_hashes,
    update_result,
)


def test_update_result_keeps_the_other_parts(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert read_result(path) == {}
    update_result(path, one=1, other=2)
    update_result(path, other=3)
    assert read_result(path) == {"one": 1, "other": 3}


def test_mark_weights_is_the_start_of_the_hash(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    whole = hashlib.sha256(b"weights").hexdigest()
    assert mark_weights(tmp_path) == whole[:12]
    assert remark_weights([whole, whole[:12]], mark_weights(tmp_path)) == ""
    (tmp_path / "config.json").write_text("{}")
    assert mark_weights(tmp_path) == whole[:12]
    path.write_bytes(b"other weights")
    assert remark_weights([whole], mark_weights(tmp_path)) == OTHER_WEIGHTS


@pytest.mark.parametrize(
    "measured", [[], [""], ["b" * 64], ["a" * 64, "b" * 64], ["a" * 64, ""]]
)
def test_remark_without_present_weights_names_others(measured: list[str]) -> None:
    assert remark_weights(measured, "a" * 12) == OTHER_WEIGHTS


def test_safetensors_hashes_leave_other_formats_out() -> None:
    assert safetensors_hashes({"model.safetensors": "ab", "micro.bin": "cd"}) == {"ab"}
