"""What is told of a case and its files, against counts by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.lab.small_run import OURS, OURS_FILES
from whisper_hailo_lab.runs.records import FileResult
from whisper_hailo_lab.runs.summary import case_figures, file_figures, summarise_case

HOUSE = replace(
    OURS_FILES[0],
    reference="A red house stood here.",
    hypothesis="A red horse here",
    duration_s=2.5,
    cpu_s=0.75,
    runaway=True,
)
"""A word exchanged, one left out: `u` for `r`, and ` stood`. The point counts in one form."""
ANSWER = replace(OURS_FILES[1], reference="No.", hypothesis="Yes.")
"""One word of one; two letters of two exchanged and one more than there were."""
LOST = FileResult(OURS.name, "lost", reference="Seven apples.", error="broken")


def test_a_file_s_figures_are_its_own() -> None:
    assert file_figures(HOUSE) == {
        "case": OURS.name, "id": "a", "duration_s": 2.5,
        "reference": "A red house stood here.", "hypothesis": "A red horse here",
        "words": {
            "substitutions": 1, "deletions": 1, "insertions": 0, "hits": 3, "errors": 2,
            "rate": 0.4,
        },
        "characters": {
            "substitutions": 1, "deletions": 6, "insertions": 0, "hits": 15, "errors": 7,
            "rate": 7 / 22,
        },
        "simple_wer": 0.6,
        "stages_ms": HOUSE.stages_ms, "total_ms": 10.0, "cpu_s": 0.75, "runaway": True,
    }  # fmt: skip


def test_a_case_s_rates_are_those_of_its_form_and_unit() -> None:
    """2 of 5 and 1 of 1 words are wrong: draws of two files have one of them twice, or both."""
    figures = case_figures(summarise_case(OURS, [HOUSE, ANSWER, LOST]))
    rates, simple = figures["normalised"], figures["simple"]
    assert rates["words"] == {
        "substitutions": 2, "deletions": 1, "insertions": 0, "hits": 3, "errors": 3, "rate": 0.5,
    }  # fmt: skip
    assert rates["characters"]["rate"] == pytest.approx(10 / 24)
    assert (rates["mean_wer"], rates["mean_cer"]) == pytest.approx((0.7, (7 / 22 + 1.5) / 2))
    assert rates["wer_interval"] == [0.4, 1.0]
    assert simple["words"]["rate"] == pytest.approx(4 / 6)
    assert simple["mean_wer"] == pytest.approx(0.8)
    assert figures["words_with_failed"]["rate"] == pytest.approx(5 / 8)
    assert figures["files"] == {
        "tried": 3, "failed": 1, "silent": 0, "silent_with_text": 0, "runaway": 1, "repetitive": 0,
    }  # fmt: skip


def test_a_case_s_figures_say_how_it_was_run_and_how_long_that_took() -> None:
    figures = case_figures(summarise_case(replace(OURS, error="late"), [HOUSE, ANSWER]))
    told = ("case", "system", "row", "model", "settings", "heard_as", "versions", "error")
    assert [figures[name] for name in told] == [
        OURS.name, "ours", "matched", "micro", OURS.settings, OURS.heard_as, OURS.versions, "late",
    ]  # fmt: skip
    assert (figures["load_ms"], figures["warm_up_ms"]) == (120.0, [30.0, 21.0, 20.0])
    assert figures["audio_s"] == 4.5
    assert figures["rtfx"] == pytest.approx(4.5 / 0.03)
    assert figures["cpu_s_per_audio_s"] == pytest.approx((0.75 + 0.04) / 4.5)
    assert figures["times_ms"]["total_ms"] == 15.0
    memory = figures["memory_mib"]
    assert (memory["before"], memory["peak"], memory["components_total"]) == (90.0, 170.0, 66.0)
