"""Tables of documents made of kept results, and the promises of these results."""

from __future__ import annotations

import json
from typing import Any

from whisper_hailo_lab.documents import device_faults, finished
from whisper_hailo_lab.documents.accuracy import (
    ENGLISH,
    LONG,
    describe_origin,
    windows_table,
)
from whisper_hailo_lab.documents.device_faults import add_run


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


def test_windows_table_is_sorted_by_length() -> None:
    def row(window: str, group: str, insertions: int, *, times: bool) -> dict[str, Any]:
        options = {"quantize": "none", "window": window, "timestamps": times}
        counts = {
            "substitutions": 1,
            "deletions": 2,
            "insertions": insertions,
            "hits": 97,
        }
        return {"model": "base", "options": options, "group": group} | counts

    rows = [row("30", ENGLISH, 7, times=False), row("5", LONG, 2, times=True)]
    rows.append(row("default", ENGLISH, 0, times=True))
    lines = [line.split(" | ") for line in windows_table(rows).splitlines()[2:]]
    assert [line[2] for line in lines] == ["default", "5 s", "30 s"]
    assert lines[2][1:5] == ["float32", "30 s", "10.0 % (7)", "-"]
    assert lines[1][6] == "5.0 % (2) |"


def test_finished_table_stands_between_its_texts() -> None:
    entry = {
        "about": "A box.",
        "columns": ["a", "b"],
        "rows": [["1", "x|y"]],
        "note": "End.",
    }
    text = finished.make_tables({"old": entry, "bare": {"columns": ["a"], "rows": []}})
    assert text["old"] == "A box.\n\n| a | b |\n|---|---|\n| 1 | x\\|y |\n\nEnd.\n"
    assert text["bare"] == "| a |\n|---|\n"


def row_from(system: str, version: str, machine: str) -> dict[str, Any]:
    return {"system": system, "version": version, "machine": machine}


def test_describe_origin_names_each_machine() -> None:
    ours = row_from("whisper-hailo", "python 3.11.7, whisper-hailo 0.3.0, numpy 2", "A")
    peer = row_from("faster-whisper", "faster-whisper 1.2.1", "B")
    origin = describe_origin([ours, peer, peer])
    assert origin == "whisper-hailo 0.3.0: A; other programs: B."
    assert describe_origin([ours, ours]) == "whisper-hailo 0.3.0: A."
