"""Every kept result records its weights, and its table says when they are not the present ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from whisper_hailo_lab.documents import (
    accuracy,
    device_faults,
    emulation,
    processors,
    server,
)
from whisper_hailo_lab.documents.tables import KEPT, Maker
from whisper_hailo_lab.emulation.__main__ import EmulationBench
from whisper_hailo_lab.experiments import fallback, short_windows, windows
from whisper_hailo_lab.repository import MICRO
from whisper_hailo_lab.runs.machine import OTHER, mark_of

ON_ANY_WEIGHTS = {
    processors.STEPS,
    processors.PASSES,
    processors.WINDOWS,
    accuracy.RESULT,
    device_faults.RESULT,
    server.RESULT,
}
OF_WEIGHTS = [pytest.param(*one, id=one[0].stem) for one in KEPT if one[0] not in ON_ANY_WEIGHTS]


def stamped(result: dict[str, Any], weights: str) -> dict[str, Any]:
    """The result, and each of its parts, as of these weights."""
    mark = {"weights": weights}
    parts = {k: part | mark if isinstance(part, dict) else part for k, part in result.items()}
    return parts | mark


def unknown(result: dict[str, Any]) -> dict[str, Any]:
    """The result as of a program that did not record weights."""
    return {
        k: {key: v for key, v in part.items() if key != "weights"}
        if isinstance(part, dict)
        else part
        for k, part in result.items()
        if k != "weights"
    }


@pytest.mark.parametrize(("path", "make"), OF_WEIGHTS)
def test_a_table_of_other_weights_says_so(path: Path, make: Maker) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    for text in make(stamped(result, "these"), "these").values():
        assert OTHER not in text
    assert all(OTHER in text for text in make(stamped(result, "these"), "those").values())
    assert all(OTHER in text for text in make(unknown(result), "these").values())


def test_one_part_measured_anew_does_not_vouch_for_the_other() -> None:
    result = stamped(json.loads(emulation.RESULT.read_text(encoding="utf-8")), "these")
    result["decoder"]["weights"] = "those"
    assert all(OTHER in text for text in emulation.tables(result, "these").values())


def test_results_record_the_weights_that_they_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CASES", ())
    monkeypatch.setattr(fallback, "Transcriber", MagicMock())
    monkeypatch.setattr(fallback, "sets", lambda _: ())
    monkeypatch.setattr(short_windows, "measure_words", lambda *_: {})
    monkeypatch.setattr(short_windows, "measure_time", list)
    found = [
        windows.measure_all((), None),
        fallback.measure_all(0),
        short_windows.measure_all(None),
        EmulationBench.measure(MagicMock(), MagicMock()),
    ]
    assert [result["weights"] for result in found] == [mark_of(MICRO)] * 4
