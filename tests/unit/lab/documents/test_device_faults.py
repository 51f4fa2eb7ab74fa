"""The kept runs of device faults went well, and a new one takes the place of its like."""

from __future__ import annotations

import json
from typing import Any

from whisper_hailo_lab.documents.device_faults import RESULT, with_run


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


def test_a_run_with_the_same_arguments_takes_the_place_of_the_earlier_one() -> None:
    first, other = kept()[:2]
    again = first | {"files": 7}
    assert with_run([other, first], again) == [again, other]
    assert with_run([first], other) == [first, other]
