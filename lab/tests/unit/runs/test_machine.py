"""The clock of a busy machine."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from whisper_hailo.core import timing
from whisper_hailo_lab.runs.machine import OTHER, by_processor_time, mark_of, remark, safetensors


def test_stages_are_timed_by_the_processor_only_meanwhile() -> None:
    before = vars(timing)["perf_counter"]
    with by_processor_time():
        assert vars(timing)["perf_counter"] is time.process_time
    assert vars(timing)["perf_counter"] is before is time.perf_counter


def test_the_mark_of_one_file_is_how_its_hash_begins(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    whole = hashlib.sha256(b"weights").hexdigest()
    assert mark_of(tmp_path) == whole[:12]
    assert remark([whole, whole[:12]], mark_of(tmp_path)) == ""
    (tmp_path / "config.json").write_text("{}")
    assert mark_of(tmp_path) == whole[:12]
    path.write_bytes(b"other weights")
    assert remark([whole], mark_of(tmp_path)) == OTHER


@pytest.mark.parametrize("measured", [[], [""], ["b" * 64], ["a" * 64, "b" * 64], ["a" * 64, ""]])
def test_what_is_not_known_to_be_present_is_of_others(measured: list[str]) -> None:
    assert remark(measured, "a" * 12) == OTHER


def test_what_rivals_load_has_no_mark() -> None:
    assert safetensors({"model.safetensors": "ab", "micro.bin": "cd"}) == {"ab"}
