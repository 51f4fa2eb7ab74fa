"""Rules of captions: every run has the default, which the others are compared to."""

from __future__ import annotations

from whisper_hailo_lab.captions.rules import DEFAULT, RUNS


def test_runs_begin_with_the_default_and_have_no_rule_twice() -> None:
    for rules in RUNS.values():
        assert rules[0] == DEFAULT
        labels = [rule.label for rule in rules]
        assert len(set(labels)) == len(labels)
