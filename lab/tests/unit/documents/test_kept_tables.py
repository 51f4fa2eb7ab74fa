"""Tables of documents follow from kept results, which keep what they promise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from whisper_hailo_lab.documents import device_faults, emulation
from whisper_hailo_lab.documents.accuracy import ENGLISH, LONG, SILENT, windows_table
from whisper_hailo_lab.documents.archives import archive_tables, ray_overhead
from whisper_hailo_lab.documents.device_faults import add_run


def test_ray_overhead_leaves_the_start_out() -> None:
    pair = {
        "two workers": {"start_cpu_s": 3.0, "cpu_s": 23.0},
        "Ray, two workers": {"start_cpu_s": 10.0, "cpu_s": 31.0},
    }
    assert ray_overhead(pair) == pytest.approx(0.05)


def test_archive_tables_name_an_engine_with_other_bytes() -> None:
    run = {
        "start_clips": 32.0, "start_s": 3.0, "seconds": 23.0, "start_cpu_s": 2.0, "cpu_s": 22.0,
        "audio_s": 100.0,
    }  # fmt: skip
    result: dict[str, Any] = {
        "machine": "a box", "weights": "these", "clips": 20,
        "pairs": [{"two workers": run, "Ray, two workers": run}],
        "scheduling": {"tasks": 1000, "seconds": 12.0, "driver_cpu_s": 5.0},
        "long": {
            "hours": 10.0, "words": 200, "words_changed": 5, "transcribe": {"seconds": 50.0},
            "rows": [{"engine": "one", "seconds": 1.0, "worker_mib": 9.0, "same": False}],
        },
    }  # fmt: skip
    tables = archive_tables(result, "these")
    assert "| one | 1 | 9 | NO |" in tables["archive-long"]
    assert "has 2.5 % of them otherwise" in tables["archive-long"]
    assert "Ray takes +0 % of the local" in tables["archive-engines"]
    tasks = "1,000 tasks without anything to transcribe went through Ray in 12 s"
    assert tasks in tables["archive-engines"]


def read_fault_runs() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(
        device_faults.RESULT.read_text(encoding="utf-8")
    )
    return runs


def test_kept_fault_runs_account_for_every_file() -> None:
    runs = read_fault_runs()
    assert max(run["faults"] for run in runs) >= 1000
    assert max(run["streams"] for run in runs) >= 3
    for run in runs:
        assert run["verdict"] == "ok"
        assert run["violations"] == []
        assert run["wrong_text"] == 0
        assert run["right_text"] + sum(run["reported"].values()) == run["files"]


def test_add_run_replaces_the_run_of_the_same_arguments() -> None:
    first, other = read_fault_runs()[:2]
    again = first | {"files": 7}
    assert add_run([other, first], again) == [again, other]
    assert add_run([first], other) == [first, other]


@pytest.fixture(scope="module")
def emulated() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(emulation.RESULT.read_text(encoding="utf-8"))
    return result


def test_emulation_picture_is_one() -> None:
    picture = emulation.RESULT.with_suffix(".png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_emulation_tables_follow_the_result(emulated: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(emulated))
    changed["encoder"]["plans"][1]["snr_db"] += 1
    before = emulation.make_tables(emulated, "")
    after = emulation.make_tables(changed, "")
    assert [name for name in before if before[name] != after[name]] == [
        "emulation-plans"
    ]


def test_kept_emulation_is_better_with_more_bits(emulated: dict[str, Any]) -> None:
    for part in ("encoder", "decoder"):
        rows = {row["plan"]: row for row in emulated[part]["plans"]}
        assert set(rows) == {"float32", "all8", "adds16", "norms16", "script"}
        gain_db = rows["adds16"]["snr_db"] - rows["all8"]["snr_db"]
        assert gain_db > (0 if part == "encoder" else -0.5)
        kinds = emulated[part]["kinds"]
        assert kinds["none"] > max(
            value for name, value in kinds.items() if name != "none"
        )
        assert {row["words"] for row in rows.values()} == {rows["float32"]["words"]}
    adds = {row["plan"]: row.get("adds_snr_db") for row in emulated["encoder"]["plans"]}
    assert all(
        wide > narrow for wide, narrow in zip(adds["adds16"], adds["all8"], strict=True)
    )


def test_windows_table_is_sorted_by_length() -> None:
    def row(window: str, group: str, insertions: int, *, times: bool) -> dict[str, Any]:
        options = {"quantize": "none", "window": window, "timestamps": times}
        counts = {
            "substitutions": 1,
            "deletions": 2,
            "insertions": insertions,
            "hits": 97,
        }
        with_text = 3 if group == SILENT else 0
        row = {"model": "base", "options": options, "group": group}
        return row | counts | {"no_speech_with_text": with_text}

    rows = [row("30", ENGLISH, 7, times=False), row("30", SILENT, 0, times=True)]
    rows += [row("5", LONG, 2, times=True), row("default", ENGLISH, 0, times=True)]
    lines = [line.split(" | ") for line in windows_table(rows).splitlines()[2:]]
    assert [line[2] for line in lines] == ["default", "5 s", "30 s"]
    assert lines[2][1:5] == ["float32", "30 s", "10.0 % (7)", "-"]
    assert lines[1][6] == "5.0 % (2)"
    assert [line[7] for line in lines] == ["0 |", "0 |", "3 |"]
