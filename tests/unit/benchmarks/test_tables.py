"""Every kept result records its weights, and its table says when they are not the present ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from benchmarks import emulated_quantisation, fallback, short_windows, windows
from benchmarks.tables import AARCH64, AARCH64_WINDOWS, BACKENDS, FILLED, MICRO, Fill

from whisper_hailo_lab.marks import OTHER, mark_of

ON_ANY_WEIGHTS = {AARCH64, AARCH64_WINDOWS}
OF_WEIGHTS = [pytest.param(*one, id=one[1].stem) for one in FILLED if one[1] not in ON_ANY_WEIGHTS]


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


@pytest.mark.parametrize(("document", "path", "filled"), OF_WEIGHTS)
def test_a_table_of_other_weights_says_so(document: Path, path: Path, filled: Fill) -> None:
    page = document.read_text(encoding="utf-8")
    result = json.loads(path.read_text(encoding="utf-8"))
    mine = filled(page, stamped(result, "these"), "these").count(OTHER)
    others = filled(page, stamped(result, "these"), "those").count(OTHER)
    assert others > mine
    if path != BACKENDS:  # which never was without
        assert filled(page, unknown(result), "these").count(OTHER) == others


def test_one_part_measured_anew_does_not_vouch_for_the_other() -> None:
    document, path, filled = next(one for one in FILLED if "emulated" in one[1].stem)
    page = document.read_text(encoding="utf-8")
    result = stamped(json.loads(path.read_text(encoding="utf-8")), "these")
    assert OTHER not in filled(page, result, "these")
    result["decoder"]["weights"] = "those"
    assert OTHER in filled(page, result, "these")


def test_results_record_the_weights_that_they_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CASES", ())
    monkeypatch.setattr(fallback, "Transcriber", MagicMock())
    monkeypatch.setattr(fallback, "recordings", lambda _: ())
    monkeypatch.setattr(short_windows, "measure_words", lambda *_: {})
    monkeypatch.setattr(short_windows, "measure_time", list)
    found = [
        windows.run((), None),
        fallback.run(0),
        short_windows.run(None),
        emulated_quantisation.Bench.measure(MagicMock(), MagicMock()),
    ]
    assert [result["weights"] for result in found] == [mark_of(MICRO)] * 4
