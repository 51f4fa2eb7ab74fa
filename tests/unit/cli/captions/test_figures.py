"""What is told at the end of captions."""

from __future__ import annotations

from collections import Counter

from whisper_hailo.cli.captions.figures import summary
from whisper_hailo.live.statistics import CaptionStatistics


def test_three_lines_say_what_was_heard_what_it_cost_and_how_it_felt() -> None:
    figures = CaptionStatistics(
        n_full=2, n_words=10, n_stream_samples=160_000, n_segment_samples=32_000, compute_s=0.5
    )
    heard, cost, felt = summary(
        {**figures.as_json(), "memory_mib": 150.4}, Counter({"en": 7, "de": 3})
    )
    assert heard == "10 words (English, German) in 2 segments: 2.0 s of speech in 10.0 s of sound"
    assert cost == "computed in 0.5 s, 4.0 times as fast as it was said, in 150 MiB"
    assert felt == "no sound was lost"


def test_live_captions_tell_latencies_and_what_was_not_heard() -> None:
    figures = CaptionStatistics(n_lost_samples=16_000, n_away=1, n_away_samples=80_000)
    figures.first_latency_s.add(0.7)
    figures.final_latency_s.add(0.25)
    *_, felt = summary(figures.as_json(), Counter())
    assert felt == (
        "first text after 0.70 s, final text 0.25 s after the end of speech (medians); "
        "1.0 s were lost; the source was away 5.0 s"
    )


def test_a_run_without_a_word_has_its_three_lines() -> None:
    assert len(list(summary(CaptionStatistics().as_json(), Counter()))) == 3
