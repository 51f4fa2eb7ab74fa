"""Tables of the report's page follow from the kept run file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.tests.unit.small_run import HEADER, OURS, RUN
from whisper_hailo_lab.documents import systems
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.runs.run_file import RunWriter

ROW = {
    "value": "none", "encoder_ms": 10.0, "decoder_ms": 5.0, "median_ms": 16.0, "ratio": 1.0,
    "wer": 0.05, "substitutions": 1, "deletions": 0, "insertions": 0, "words": 20,
    "simple_mean_wer": 0.06, "runaway": 2, "repetitive": 1, "files": 10, "silent": 2,
    "silent_with_text": 1, "components_mib": 50.0,
}  # fmt: skip


def test_make_tables_has_systems_and_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "systems.jsonl"
    padding = ComparisonRecord("padding", {"model": "base"}, (ROW,))
    with RunWriter(path, replace(HEADER, note="A busy machine.")) as writer:
        for record in (*RUN.files, *RUN.cases, padding):
            writer.write(record)
    monkeypatch.setattr(systems, "RESULT", path)
    tables = systems.make_tables()
    assert tables.keys() == {"systems", "systems-padding"}
    assert OURS.name in tables["systems"]
    assert "A busy machine." in tables["systems"]
    assert "Model base." in tables["systems-padding"]


def test_make_tables_without_a_run_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "RESULT", tmp_path / "systems.jsonl")
    assert systems.make_tables() == {}
