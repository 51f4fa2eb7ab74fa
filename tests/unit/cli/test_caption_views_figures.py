"""The summary at the end of captions, and its JSON."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from whisper_hailo.cli.caption_views import print_statistics, summarise
from whisper_hailo.cli.messages import Verbosity, set_verbosity
from whisper_hailo.live.statistics import CaptionStatistics


def test_summarise_has_words_cost_and_delay() -> None:
    figures = CaptionStatistics(
        n_full=2,
        words_in=Counter(en=10),
        n_stream_samples=160_000,
        n_segment_samples=32_000,
        compute_s=0.5,
    )
    heard, cost, felt = summarise(
        {**figures.as_json(), "memory_mib": 150.4}, Counter({"en": 7, "de": 3})
    )
    assert (
        heard
        == "10 words (English, German) in 2 segments: 2.0 s of speech in 10.0 s of sound"
    )
    assert cost == "computed in 0.5 s, 4.0 times as fast as it was spoken, in 150 MiB"
    assert felt == "no audio was lost"


def test_summarise_live_has_latencies_and_losses() -> None:
    figures = CaptionStatistics(n_lost_samples=16_000, n_away=1, n_away_samples=80_000)
    figures.first_latency_s.append(0.7)
    figures.final_latency_s.append(0.25)
    *_, felt = summarise(figures.as_json(), Counter())
    assert felt == (
        "first text after 0.70 s, final text 0.25 s after the end of speech (medians); "
        "1.0 s were lost; the source was away 5.0 s"
    )


def test_summarise_has_untranscribed_and_stalls() -> None:
    figures = CaptionStatistics(untranscribed_s=4.25, n_stalls=2)
    figures.settle_s.extend([1.0, 2.0, 3.0])
    *_, felt = summarise(figures.as_json(), Counter())
    assert felt == (
        "half of the words were final within 2.0 s, 95 % within 2.9 s; "
        "4.2 s of speech gave no text; 2 times no audio arrived for two seconds or more"
    )


def test_summarise_without_words_has_three_lines() -> None:
    assert len(list(summarise(CaptionStatistics().as_json(), Counter()))) == 3


@pytest.mark.parametrize(("level", "n_lines"), [("", 3), ("verbose", 31), ("quiet", 0)])
def test_print_statistics_lines_follow_verbosity(
    level: str, n_lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    set_verbosity(Verbosity(verbose=level == "verbose", quiet=level == "quiet"))
    statistics = CaptionStatistics(n_full=2, words_in=Counter(de=10))
    print_statistics(statistics, as_json=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == n_lines
    if level == "verbose":
        figures = dict(line.split() for line in lines)
        assert (figures["words"], figures["full_segments"], figures["rtfx"]) == (
            "10",
            "2",
            "-",
        )
        assert {*figures} == {*statistics.as_json()}
    elif n_lines:
        assert "10 words" in lines[0]


def test_print_statistics_json_ignores_verbosity(
    capsys: pytest.CaptureFixture[str],
) -> None:
    statistics = CaptionStatistics(n_full=2, words_in=Counter(de=10))
    for loudness in (Verbosity(), Verbosity(quiet=True), Verbosity(verbose=True)):
        set_verbosity(loudness)
        print_statistics(statistics, as_json=True)
        captured = capsys.readouterr()
        figures = json.loads(captured.out)
        assert captured.err == ""
        assert (figures["event"], figures["words"]) == ("statistics", 10)
        assert {*figures} == {"event", *statistics.as_json()}


def test_summarise_has_pause_and_omits_missing_latency() -> None:
    figures = CaptionStatistics(n_paused_samples=24_000)
    figures.final_latency_s.append(0.5)
    *_, felt = summarise(figures.as_json(), Counter())
    assert felt == (
        "final text 0.50 s after the end of speech (medians); it was paused 1.5 s"
    )


def test_summarise_orders_languages_by_words() -> None:
    figures = CaptionStatistics(words_in=Counter(de=9)).as_json()
    heard, *_ = summarise(figures, Counter({"en": 2, "de": 7, "fr": 0, "": 3}))
    assert "German, English" in heard
