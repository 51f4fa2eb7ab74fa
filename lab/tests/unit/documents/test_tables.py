"""What the tables of archives say follows from what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile

from whisper_hailo_lab.documents.accuracy import GROUP_ORDER, SILENT, windows_table
from whisper_hailo_lab.documents.archives import LOCAL, RAY, overhead, scale_tables, tables
from whisper_hailo_lab.documents.device_faults import RESULT, with_run
from whisper_hailo_lab.documents.emulation import RESULT as EMULATION_RESULT
from whisper_hailo_lab.documents.emulation import tables as emulation_tables
from whisper_hailo_lab.documents.short_windows import table
from whisper_hailo_lab.documents.short_windows import tables as short_window_tables
from whisper_hailo_lab.emulation.part import PICTURE
from whisper_hailo_lab.experiments.archives import count_changed_words, write_recording


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
    assert count_changed_words(["a", "b", "c", "d"], ["a", "b", "c", "d"]) == 0
    assert count_changed_words(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]) == 2


def test_recording_is_as_long_as_wanted_and_same_for_seed(tmp_path: Path) -> None:
    for name in ("one.wav", "other.wav"):
        write_recording(tmp_path / name, 0.01, seed=3)
    assert (tmp_path / "one.wav").read_bytes() == (tmp_path / "other.wav").read_bytes()
    assert soundfile.info(tmp_path / "one.wav").duration == pytest.approx(36, abs=0.01)


def kept() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def test_a_thousand_faults_left_every_file_accounted_for() -> None:
    runs = kept()
    assert max(run["faults"] for run in runs) >= 1000
    assert max(run["streams"] for run in runs) >= 3
    for run in runs:
        assert run["verdict"] == "ok"
        assert run["violations"] == []
        assert run["wrong_text"] == 0
        assert run["right_text"] + sum(run["reported"].values()) == run["files"]


def test_run_with_same_arguments_takes_place_of_earlier_one() -> None:
    first, other = kept()[:2]
    again = first | {"files": 7}
    assert with_run([other, first], again) == [again, other]
    assert with_run([first], other) == [first, other]


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EMULATION_RESULT.read_text(encoding="utf-8"))
    return found


def test_the_picture_is_one() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")


def test_another_result_makes_other_tables(result: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(result))
    changed["encoder"]["plans"][1]["snr_db"] += 1
    before, after = emulation_tables(result, ""), emulation_tables(changed, "")
    assert [name for name in before if before[name] != after[name]] == ["emulation-plans"]


def test_the_result_says_what_it_should(result: dict[str, Any]) -> None:
    """Bounds that hold whatever the weights: wider is better, and nothing is lost at 16 bits."""
    for part in ("encoder", "decoder"):
        rows = {row["plan"]: row for row in result[part]["plans"]}
        assert set(rows) == {"float32", "all8", "adds16", "norms16", "script"}
        gain_db = rows["adds16"]["snr_db"] - rows["all8"]["snr_db"]
        assert gain_db > (0 if part == "encoder" else -0.5)
        found = result[part]["kinds"]
        assert found["none"] > max(value for name, value in found.items() if name != "none")
        assert {row["words"] for row in rows.values()} == {rows["float32"]["words"]}
    adds = {row["plan"]: row.get("adds_snr_db") for row in result["encoder"]["plans"]}
    assert all(wide > narrow for wide, narrow in zip(adds["adds16"], adds["all8"], strict=True))


CLIPS = [
    {"clip": "a", "counts": [[1, 0, 0, 3], [0, 0, 0, 4]], "cpu_ms": [10.0, 20.0]},
    {"clip": "b", "counts": [[0, 1, 0, 5], [0, 1, 0, 5]], "cpu_ms": [20.0, 30.0]},
]
SHORT_RESULT: dict[str, Any] = {
    "machine": "Test CPU",
    "limit": None,
    "words": [{"window_s": 2.0, "clips": CLIPS}],
    "times": [
        {"window_s": 2.0, "encoder_ms": [5.0, 7.0, 6.0], "all_ms": [50.0, 60.0, 40.0]},
        {"window_s": 10.0, "encoder_ms": [40.0, 41.0, 42.0], "all_ms": [100.0, 90.0, 80.0]},
    ],
}


def test_rates_are_of_same_audio_and_ratios_of_same_rounds() -> None:
    short, full = table(SHORT_RESULT).rows
    assert short[:4] == ("2 s", "6.0", "50.0", "2.00")  # of 2, 1.5, 2
    assert short[4:8] == ("15.0", "1.75", "2", "10")
    assert short[8:10] == ("20.0 %", "10.0 %")
    assert short[10].startswith("+10.0 (+0.0 to +25.0")
    assert full == ("10 s", "41.0", "90.0", "1.00", *("-",) * 7)


def test_the_table_says_what_it_was_measured_on() -> None:
    text = short_window_tables(SHORT_RESULT | {"weights": "m"}, "m")["short-windows"]
    assert text.startswith("Test CPU; processor time.\n\n| window |")
    some = short_window_tables(SHORT_RESULT | {"weights": "m", "limit": 4}, "m")["short-windows"]
    assert some.startswith("Test CPU; processor time. The first 4 clips of each set.\n")


def test_windows_are_a_row_each_by_length() -> None:
    def row(window: str, group: str, insertions: int, *, times: bool) -> dict[str, Any]:
        options = {"quantize": "none", "window": window, "timestamps": times}
        counts = {"substitutions": 1, "deletions": 2, "insertions": insertions, "hits": 97}
        return {"model": "base", "options": options, "group": group, **counts} | {
            "no_speech_with_text": 3 if group == SILENT else 0
        }

    rows = [row("30", GROUP_ORDER[0], 7, times=False), row("30", SILENT, 0, times=True)]
    rows += [row("5", GROUP_ORDER[2], 2, times=True), row("default", GROUP_ORDER[0], 0, times=True)]
    lines = [line.split(" | ") for line in windows_table(rows).splitlines()[2:]]
    assert [line[2] for line in lines] == ["default", "5 s", "30 s"]
    assert lines[2][1:5] == ["float32", "30 s", "10.0 % (7)", "-"]
    assert lines[1][6] == "5.0 % (2)"
    assert [line[7] for line in lines] == ["0 |", "0 |", "3 |"]
