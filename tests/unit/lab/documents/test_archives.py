"""What the tables of archives say follows from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import soundfile

from whisper_hailo_lab.documents.archives import LOCAL, RAY, overhead, scale_tables, tables
from whisper_hailo_lab.experiments.archives import _changed, write_recording


def test_the_start_is_no_overhead() -> None:
    pair = {
        LOCAL: {"start_cpu_s": 3.0, "cpu_s": 23.0}, RAY: {"start_cpu_s": 10.0, "cpu_s": 31.0}
    }  # fmt: skip
    assert overhead(pair) == pytest.approx(0.05)


def test_an_engine_with_other_bytes_is_seen() -> None:
    ran = {
        "start_clips": 32.0,
        "start_s": 3.0,
        "seconds": 23.0,
        "start_cpu_s": 2.0,
        "cpu_s": 22.0,
        "audio_s": 100.0,
    }
    result: dict[str, Any] = {
        "machine": "a box", "weights": "these", "clips": 20, "pairs": [{LOCAL: ran, RAY: ran}],
        "scheduling": {"tasks": 1000, "seconds": 12.0, "driver_cpu_s": 5.0},
        "long": {
            "hours": 10.0, "words": 200, "words_changed": 5, "transcribe": {"seconds": 50.0},
            "rows": [{"engine": "one", "seconds": 1.0, "worker_mib": 9.0, "same": False}],
        },
    }  # fmt: skip
    made = tables(result, "these")
    assert "| one | 1 | 9 | NO |" in made["archive-long"]
    assert "has 2.5 % of them otherwise" in made["archive-long"]
    assert "Ray takes +0 % of the local" in made["archive-engines"]
    assert (
        "1,000 tasks without anything to transcribe went through Ray in 12 s"
        in (made["archive-engines"])
    )


def test_the_narrowest_place_is_named() -> None:
    names = ("dispatch_s", "note_s", "speed", "reading", "item_bytes", "ledger_bytes")
    costs = dict.fromkeys((*names, "result_bytes"), 1.0)
    row = {
        "n_nodes": 1000, "hours": 1e6, "speed": 15.0, "n_tasks": 12_000_000, "seconds": 36_000.0,
        "busy": {"driver": 0.99, "workers": 0.5}, "again": 7, "driver_bytes": 2**31,
        "restart_s": 117.0,
    }  # fmt: skip
    made = scale_tables({"machine": "a box", "costs": costs, "rows": [row]}, "")
    line, _, limits = made["archive-scale"].splitlines()[-3:]
    assert "hands out 0 tasks a second: 150 x real time" in limits  # two seconds a task
    assert line == (
        "| 1,000 | 1,000,000 | 15 | 12,000,000 | 10.0 | 50 % | driver, 99 % | 7 | 2.0 | 117 |"
    )


def test_words_that_two_texts_have_otherwise_are_counted() -> None:
    assert _changed(["a", "b", "c", "d"], ["a", "b", "c", "d"]) == 0
    assert _changed(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]) == 2


def test_a_recording_is_as_long_as_wanted_and_the_same_for_a_seed(tmp_path: Path) -> None:
    for name in ("one.wav", "other.wav"):
        write_recording(tmp_path / name, 0.01, seed=3)
    assert (tmp_path / "one.wav").read_bytes() == (tmp_path / "other.wav").read_bytes()
    assert soundfile.info(tmp_path / "one.wav").duration == pytest.approx(36, abs=0.01)
