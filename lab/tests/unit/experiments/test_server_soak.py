"""What hours of a server come to."""

from __future__ import annotations

import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

from whisper_hailo_lab.documents.server import describe_soak
from whisper_hailo_lab.experiments.server_soak import Sample, summarize


def sample(elapsed_s: float, rss_mib: float) -> Sample:
    return {
        "elapsed_s": elapsed_s,
        "rss_mib": rss_mib,
        "descriptors": 12,
        "threads": 10,
        "processor_s": 0.0,
    }


def test_summarize_growing_memory_has_a_slope() -> None:
    row = summarize([sample(60.0 * minute, 200.0 + minute) for minute in range(61)])
    assert row["mib_an_hour"] == pytest.approx(60.0)
    assert row["minutes"] == 60
    assert row["peak_mib"] == 260.0
    first, last = row["rss_mib"]
    assert first < last
    assert row["threads"] == [10, 10]


def test_summarize_leaves_out_the_warm_up() -> None:
    samples = [sample(float(second), 100.0) for second in range(10)]
    samples += [sample(float(second), 300.0) for second in range(10, 100)]
    row = summarize(samples)
    assert row["mib_an_hour"] == 0.0
    assert row["rss_mib"] == [300.0, 300.0]


def test_summarize_one_sample_has_no_slope() -> None:
    assert summarize([sample(0.0, 100.0)])["mib_an_hour"] == 0.0


def test_describe_soak_counts_outcomes_of_all_clients() -> None:
    row = summarize([sample(0.0, 100.0), sample(60.0, 100.0)])
    outcomes = {"openai": {"same": 2, "failed": 1}, "asr": {"same": 3}}
    part = row | {"outcomes": outcomes, "model": "m", "machine": "here"}
    last_line = describe_soak(part).splitlines()[-1]
    assert [cell.strip() for cell in last_line.split("|")][-5:-1] == [
        "5",
        "0",
        "1",
        "0",
    ]
