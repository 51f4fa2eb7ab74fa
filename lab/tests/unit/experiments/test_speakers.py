"""Figures of who spoke, from answers of programs to tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo_lab.documents.speakers import make_tables
from whisper_hailo_lab.experiments.speakers import count_wrong_words, score_answers
from whisper_hailo_lab.speakers.conversations import Turn, write_rttm

_TURNS = [Turn(0, 10, "anna"), Turn(10, 20, "ben")]


def _answer(name: str, *turns: tuple[float, float, str]) -> dict[str, object]:
    return {
        "name": name,
        "turns": [list(turn) for turn in turns],
        "audio_s": 20.0,
        "processor_s": 2.0,
        "peak_mib": 100.0,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("test-2-0", "test-1-anna", "real-sample"):
        (tmp_path / f"{name}.rttm").write_text(write_rttm(name, _TURNS))
    return tmp_path


def test_score_answers_counts_speakers_and_errors(folder: Path) -> None:
    answers = [_answer("test-2-0", (0, 20, "0")), _answer("unknown", (0, 20, "0"))]
    (row,) = score_answers(folder, answers)
    assert row["n_speakers"] == 2
    assert row["n_found"] == 1
    assert row["errors"] == [0, 0, 10, 20]


def test_score_answers_adds_words_of_the_same_recording(folder: Path) -> None:
    words = {"name": "test-2-0", "words": [[1, 2, "0"], [11, 12, "0"], [21, 22, "1"]]}
    turns = _answer("test-2-0", (0, 10, "0"), (10, 20, "1"))
    (row,) = score_answers(folder, [words, turns])
    assert row["n_words"] == 2
    assert row["n_wrong_words"] == 1


def test_count_wrong_words_in_overlap_allows_both_speakers() -> None:
    reference = [Turn(0, 10, "anna"), Turn(9, 20, "ben")]
    hypothesis = [Turn(0, 10, "0"), Turn(10, 20, "1")]
    words = [[9.2, 9.8, "0"], [9.2, 9.8, "1"], [5, 6, "1"]]
    assert count_wrong_words(reference, hypothesis, words) == {
        "n_words": 3,
        "n_wrong_words": 1,
    }


def test_make_tables_compares_common_recordings(folder: Path) -> None:
    right = [
        _answer(name, (0, 10, "0"), (10, 20, "1"))
        for name in ("test-2-0", "test-1-anna")
    ]
    wrong = [_answer("test-2-0", (0, 20, "0"))]
    systems = {
        "whisper-hailo": score_answers(folder, right),
        "other": score_answers(folder, wrong),
    }
    tables = make_tables({"machine": "a machine", "systems": systems})
    lines = tables["speakers"].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:]
    ]
    assert [row[1:4] for row in cells] == [
        ["whisper-hailo", "1 of 1", "0.0 %"],
        ["other", "0 of 1", "50.0 %"],
        ["whisper-hailo", "1 of 1", "-"],
    ]
    assert cells[0][7] == "0.050"
    assert "| 2 | 1 of 1 |" in tables["speakers-numbers"]
