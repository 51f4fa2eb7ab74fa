"""Rules of captions: every run has the default, which the others are compared to."""

from __future__ import annotations

import pytest

from whisper_hailo_lab.captions.rules import (
    DEFAULT,
    RUNS,
    CaptionedRecording,
    pool_figures,
)


def test_runs_begin_with_the_default_and_have_no_rule_twice() -> None:
    for rules in RUNS.values():
        assert rules[0] == DEFAULT
        labels = [rule.label for rule in rules]
        assert len(set(labels)) == len(labels)


def test_pool_figures_adds_recordings_up() -> None:
    captions = [
        CaptionedRecording(
            seconds=10.0 * n,
            processor_s=2.0,
            words=2,
            rewritten=n,
            partials=9,
            skipped_partials=1,
            settle_s=(1.0, 3.0),
            reference="good day",
            text="good way",
            whole_text="good day",
        )
        for n in (1, 3)
    ]
    figures = pool_figures(captions, "en")
    assert (figures["recordings"], figures["words"], figures["seconds"]) == (2, 4, 40.0)
    assert figures["share"] == pytest.approx(0.1)
    assert figures["rewritten"] == 1.0
    assert (figures["wer"], figures["whole_wer"]) == (50.0, 0.0)
    assert figures["settle_s_median"] == 2.0
