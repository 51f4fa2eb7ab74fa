"""Figures of live captions: sums, digits and percentiles."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.statistics import CaptionStatistics


def test_statistics_as_json_has_sums_and_ratios() -> None:
    figures = CaptionStatistics(
        n_calls=5,
        n_partials=4,
        n_full=1,
        n_heard_samples=80_000,
        n_segment_samples=32_000,
        n_stream_samples=48_000,
        compute_s=0.5,
        partial_passes=6,
        partial_decode_ms=100.0,
        n_skipped=2,
        words_in=Counter(en=10),
        n_corrected=4,
        n_lost_samples=8_000,
        n_faults=1,
        longest_backlog_s=0.7,
        n_engine_faults=2,
    )
    fields = figures.as_json()
    assert fields.pop("memory_mib") > 1
    assert fields == {
        "calls": 5,
        "partials": 4,
        "full_segments": 1,
        "frames": 80_000,
        "speech_s": 5.0,
        "compute_s": 0.5,
        "rtfx_recounted": 10.0,
        "rtfx": 4.0,
        "segment_s": 2.0,
        "stream_s": 3.0,
        "first_partial_latency_s_median": None,
        "first_partial_latency_s_p95": None,
        "final_latency_s_median": None,
        "final_latency_s_p95": None,
        "word_settle_s_median": None,
        "word_settle_s_p95": None,
        "passes_per_partial": 1.5,
        "decode_ms_per_partial": 25.0,
        "skipped_partials": 2,
        "corrections_per_word": 0.4,
        "words": 10,
        "longest_backlog_s": 0.7,
        "untranscribed_s": 0.0,
        "lost_s": 0.5,
        "absences": 0,
        "stalls": 0,
        "away_s": 0.0,
        "paused_s": 0.0,
        "source_faults": 1,
        "engine_faults": 2,
    }


def test_statistics_of_no_audio_are_zero_or_none() -> None:
    figures = CaptionStatistics()
    fields = figures.as_json()
    del fields["memory_mib"]
    assert {value for value in fields.values() if value} == set()
    assert figures.behind_s == 0.0
    assert fields["rtfx"] is None
    assert fields["compute_s"] == 0.0


def test_statistics_count_words_by_language() -> None:
    figures = CaptionStatistics()
    word = CaptionWord(" a")
    for language, n_samples, n_words, n_corrected in (
        ("de", 16_000, 5, 2),
        ("en", 8_000, 3, 1),
        ("de", 8_000, 2, 0),
    ):
        event = Completed(
            segment_id=0,
            start_s=0.0,
            end_s=1.0,
            words=(word,) * n_words,
            reason="silence",
            language=language,
            heard_s=1.0,
            at_s=1.0,
        )
        figures.note_completed(event, n_samples, n_corrected, None)
    assert figures.n_full == 3
    assert figures.n_segment_samples == 32_000
    assert figures.words_in.total() == 10
    assert figures.n_corrected == 3
    assert figures.words_in == {"de": 7, "en": 3}


def test_statistics_memory_is_in_mebibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    peak = SimpleNamespace(ru_maxrss=3 * 1024)
    monkeypatch.setattr("resource.getrusage", lambda _: peak)
    assert CaptionStatistics().as_json()["memory_mib"] == 3.0


def test_statistics_have_percentiles_and_rounded_digits() -> None:
    figures = CaptionStatistics(
        n_calls=1,
        n_partials=3,
        partial_passes=4,
        compute_s=0.123456,
        n_away=2,
        n_away_samples=24_000,
        n_paused_samples=40_000,
    )
    for latencies, scale in (
        (figures.first_latency_s, 1.0),
        (figures.final_latency_s, 2.0),
    ):
        for hundredth in range(101):
            latencies.append(scale * hundredth / 100)
    fields = figures.as_json()
    assert fields["first_partial_latency_s_median"] == 0.5
    assert fields["first_partial_latency_s_p95"] == 0.95
    assert fields["final_latency_s_median"] == 1.0
    assert fields["final_latency_s_p95"] == 1.9
    assert fields["compute_s"] == 0.1235
    assert fields["passes_per_partial"] == 1.3333
    assert fields["absences"] == 2
    assert fields["away_s"] == 1.5
    assert fields["paused_s"] == 2.5
    assert fields["rtfx"] == 0.0
    assert fields["corrections_per_word"] is None


def test_statistics_p95_is_interpolated() -> None:
    fields = CaptionStatistics(final_latency_s=[0.1, 0.2, 0.3, 0.4, 1.0]).as_json()
    assert fields["final_latency_s_median"] == 0.3
    assert fields["final_latency_s_p95"] == 0.88


def test_statistics_settle_times_have_percentiles() -> None:
    figures = CaptionStatistics()
    figures.settle_s.extend([1.0, 2.0, 3.0])
    fields = figures.as_json()
    assert fields["word_settle_s_median"] == 2.0
    assert fields["word_settle_s_p95"] == pytest.approx(2.9)
