"""Figures of a constructed run, compared with arithmetic by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.tests.unit.small_run import OURS, OURS_FILES, RIVAL, RIVAL_FILES, RUN
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.report.tables import case_table
from whisper_hailo_lab.runs.records import FileResult
from whisper_hailo_lab.runs.summary import (
    Summary,
    case_figures,
    file_figures,
    is_repetitive,
    rtfx,
    summarise,
    summarise_case,
)


def ours() -> Summary:
    return summarise_case(OURS, OURS_FILES)


def rival() -> Summary:
    return summarise_case(RIVAL, RIVAL_FILES)


def test_summary_has_rates_in_both_forms() -> None:
    # The normaliser turns words into figures: 1234 and 56, then 5 and 9 for "five nine".
    assert ours().normalised.words.reference_count == 2
    # The study's form: "one two three four." equal; "five six." and "five nine": one of two.
    assert ours().simple.words == Score(substitutions=1, hits=5)
    assert ours().simple.mean_wer == pytest.approx((0 + 1 / 2) / 2)


def test_summary_rtfx_is_audio_by_time() -> None:
    assert ours().audio_s == 6.0
    assert ours().rtfx == pytest.approx(6.0 / 0.060)
    assert rival().rtfx == pytest.approx(6.0 / 0.600)
    assert rtfx(5.0, 0.0) == 0.0


def test_summary_times_have_mean_median_and_p95() -> None:
    times = rival().times
    assert times is not None
    assert times.total_ms == pytest.approx(200.0)
    assert times.median_ms == 100.0
    assert times.p95_ms == pytest.approx(np.percentile([100, 400, 100], 95))
    assert times.encoder_ms == pytest.approx(60.0)
    assert times.decoder_ms == pytest.approx(120.0)  # cross keys and values count
    assert times.mel_ms == pytest.approx(20.0)


def test_summary_median_of_four_is_between_the_middle_two() -> None:
    """100, 200, 400 and 1,000 ms; nearly all of them take less than 1,000 - 0.15 times 600."""
    files = [
        replace(RIVAL_FILES[0], total_ms=ms) for ms in (400.0, 100.0, 1000.0, 200.0)
    ]
    times = summarise_case(RIVAL, files).times
    assert times is not None
    assert times.median_ms == 300.0
    assert times.total_ms == 425.0
    assert times.p95_ms == pytest.approx(910.0)


def test_summary_unknown_stages_are_none() -> None:
    files = [replace(record, stages_ms={}) for record in RIVAL_FILES]
    # A mean of some files is no mean of all.
    for files_given in (files, [*files[:1], *RIVAL_FILES[1:]]):
        times = summarise_case(RIVAL, files_given).times
        assert times is not None
        assert times.encoder_ms is None
        assert times.decoder_ms is None
        assert times.mel_ms is None


def test_summary_has_cpu_seconds_per_audio_second() -> None:
    assert ours().cpu_per_audio_s == pytest.approx((10 + 20 + 30) / 500 / 6.0)


def test_summary_counts_hallucinations_and_runaways() -> None:
    assert ours().n_silent == 1
    assert ours().n_hallucinated == 0
    assert rival().n_silent == 1
    assert rival().n_hallucinated == 1
    assert ours().n_runaway == 0
    assert rival().n_runaway == 1
    assert ours().n_repetitive == 0
    assert rival().n_repetitive == 1
    marks = [
        replace(RIVAL_FILES[2], reference=text, hypothesis="[Music]")
        for text in ("", "!")
    ]
    assert summarise_case(RIVAL, marks).n_silent == 2, (
        "marks and text in brackets are no words"
    )
    assert summarise_case(RIVAL, marks).n_hallucinated == 0
    without_runaway = [replace(record, runaway=None) for record in RIVAL_FILES]
    assert summarise_case(RIVAL, without_runaway).n_runaway is None
    assert is_repetitive("no no no no no no no no no no no no no no no no")
    assert not is_repetitive("A sentence that says a thing once.")
    assert not is_repetitive("")


def test_summary_failed_file_is_counted_only() -> None:
    lost = FileResult(
        OURS.name, "c", reference="Seven apples.", error="broken", duration_s=60.0, total_ms=5.0,
        cpu_s=9.0,
    )  # fmt: skip
    summary = summarise_case(OURS, [*OURS_FILES, lost])
    assert summary.n_files == 4
    assert summary.n_failed == 1
    assert summary.n_heard == 3
    assert summary.normalised.words == ours().normalised.words
    assert summary.words_with_failed == ours().normalised.words + Score(deletions=2)
    for name in ("audio_s", "rtfx", "cpu_per_audio_s", "times"):
        assert getattr(summary, name) == getattr(ours(), name), "of readable files"
    assert file_figures(lost) == {"case": OURS.name, "id": "c", "error": "broken"}


def test_summary_of_emulated_case_has_no_times() -> None:
    """The emulator is slower than the encoder that it stands in for."""
    case = replace(OURS, settings={"encoder_backend": "emulator"})
    summary = summarise_case(case, OURS_FILES)
    assert summary.normalised.words == ours().normalised.words
    assert summary.times is None
    figures = case_figures(summary)
    assert figures["rtfx"] is None
    assert figures["cpu_s_per_audio_s"] is None
    (row,) = case_table([summary]).rows
    cells = dict(zip(case_table([summary]).columns, row, strict=True))
    assert cells["CPU s per s"] == cells["rtfx"] == "-"


def test_cpu_share_follows_the_clock() -> None:
    """A stage of three tenths of the clock's time has as much of the processor's."""
    times = ours().times
    assert times is not None
    assert times.cpu_ms == pytest.approx(40.0)
    assert times.cpu_share_ms(times.encoder_ms) == pytest.approx(12.0)
    assert times.cpu_share_ms(None) == 0.0


def test_summary_of_failed_case_has_no_times() -> None:
    lost = [
        FileResult(OURS.name, r.id, reference=r.reference, error="no")
        for r in OURS_FILES
    ]
    summary = summarise_case(replace(OURS, error="no"), lost)
    assert summary.n_failed == 3
    assert summary.times is None
    assert summary.rtfx == 0.0
    assert summary.cpu_per_audio_s == 0.0
    assert case_figures(summary)["times_ms"] is None


def test_summary_of_failed_files_has_no_rates() -> None:
    """Three unreadable files have no WER, rather than 0."""
    lost = [
        FileResult(OURS.name, r.id, reference=r.reference, error="no")
        for r in OURS_FILES
    ]
    summary = summarise_case(OURS, lost)
    figures = case_figures(summary)
    assert figures["normalised"] is figures["simple"] is None
    assert figures["words_with_failed"]["rate"] == 1.0
    row = dict(
        zip(case_table([summary]).columns, case_table([summary]).rows[0], strict=True)
    )
    for column in (
        "WER (corpus)",
        "WER (mean)",
        "CER",
        "simple WER / CER (mean)",
        "rtfx",
    ):
        assert row[column] == "-"
    assert row["files"] == "0/3"


def test_case_memory_adds_load_and_warm_up() -> None:
    memory = OURS.memory
    assert memory.total("encoder") == 25.0
    assert memory.total("decoder") == 41.0
    assert memory.components_total == 66.0
    assert memory.total("unknown") == 0.0


def test_summary_uses_the_normaliser_of_the_language() -> None:
    german = replace(
        OURS_FILES[0], language="de", reference="Grüße!", hypothesis="grüße"
    )
    summary = summarise_case(OURS, [german])
    assert summary.normalised.words.errors == 0
    assert summary.normalised.language == "de"
    assert summary.simple.language == "de"
    assert summarise_case(OURS, []).normalised.language == "en", (
        "the default without files"
    )


def test_summarise_keeps_the_order_of_cases() -> None:
    assert [summary.case.name for summary in summarise(RUN)] == [OURS.name, RIVAL.name]


def test_file_figures_without_reference_have_no_rate() -> None:
    invented = file_figures(RIVAL_FILES[2])
    assert invented["words"]["rate"] is None
    assert invented["words"]["insertions"] == 2
    figures = case_figures(rival())
    assert figures["memory_mib"]["components_total"] == 110.0
    assert figures["files"]["silent_with_text"] == 1


HOUSE = replace(
    OURS_FILES[0],
    reference="A red house stood here.",
    hypothesis="A red horse here",
    duration_s=2.5,
    cpu_s=0.75,
    runaway=True,
)
"""One word substituted, one deleted: `u` for `r`, and ` stood`. The point counts in one form."""
ANSWER = replace(OURS_FILES[1], reference="No.", hypothesis="Yes.")
"""One of one word wrong; two of two letters substituted, and one inserted."""
LOST = FileResult(OURS.name, "lost", reference="Seven apples.", error="broken")


def test_file_figures_have_counts_and_times() -> None:
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


def test_case_figures_have_rates_of_each_form() -> None:
    """2 of 5 and 1 of 1 words are wrong: draws of two files have one of them twice, or both."""
    figures = case_figures(summarise_case(OURS, [HOUSE, ANSWER, LOST]))
    rates = figures["normalised"]
    simple = figures["simple"]
    assert rates["words"] == {
        "substitutions": 2, "deletions": 1, "insertions": 0, "hits": 3, "errors": 3, "rate": 0.5,
    }  # fmt: skip
    assert rates["characters"]["rate"] == pytest.approx(10 / 24)
    assert (rates["mean_wer"], rates["mean_cer"]) == pytest.approx(
        (0.7, (7 / 22 + 1.5) / 2)
    )
    assert rates["wer_interval"] == [0.4, 1.0]
    assert simple["words"]["rate"] == pytest.approx(4 / 6)
    assert simple["mean_wer"] == pytest.approx(0.8)
    assert figures["words_with_failed"]["rate"] == pytest.approx(5 / 8)
    assert figures["files"] == {
        "tried": 3, "failed": 1, "silent": 0, "silent_with_text": 0, "runaway": 1, "repetitive": 0,
    }  # fmt: skip


def test_case_figures_have_settings_and_times() -> None:
    figures = case_figures(summarise_case(replace(OURS, error="late"), [HOUSE, ANSWER]))
    names = (
        "case",
        "system",
        "row",
        "model",
        "settings",
        "heard_as",
        "versions",
        "error",
    )
    assert [figures[name] for name in names] == [
        OURS.name, "ours", "matched", "micro", OURS.settings, OURS.heard_as, OURS.versions, "late",
    ]  # fmt: skip
    assert figures["load_ms"] == 120.0
    assert figures["warm_up_ms"] == [30.0, 21.0, 20.0]
    assert figures["audio_s"] == 4.5
    assert figures["rtfx"] == pytest.approx(4.5 / 0.03)
    assert figures["cpu_s_per_audio_s"] == pytest.approx((0.75 + 0.04) / 4.5)
    assert figures["times_ms"]["total_ms"] == 15.0
    memory = figures["memory_mib"]
    assert memory["before"] == 90.0
    assert memory["peak"] == 170.0
    assert memory["components_total"] == 66.0
