from __future__ import annotations

from typing import Any

from whisper_hailo_lab.documents.retries import make_tables

RATIOS = {"all": 1.5, "median": 1.0, "p90": 2.0, "p99": 3.0, "worst": 4.0}


def policy_row(*kinds: str) -> dict[str, Any]:
    counts = {"substitutions": 1, "deletions": 2, "insertions": 3, "hits": 97}
    work = {"windows": 9, "retried": 4, "rows": RATIOS, "time": RATIOS}
    return {
        "policy": "default",
        "machine": "A board",
        "recordings": 7,
        "work": work,
        "words": dict.fromkeys(kinds, counts),
    }


def test_make_tables_has_a_dash_for_kinds_without_words() -> None:
    models = {
        "base": [policy_row("English", "other languages")],
        "tiny.en": [policy_row("English")],
    }
    tables = make_tables({"models": models})
    lines = tables["retries-words"].splitlines()
    assert lines[0] == "A board."
    assert lines[-2:] == [
        "| base | default | 7 | 6.0 %, 6 of 100 | 6.0 %, 6 of 100 |",
        "| tiny.en | default | 7 | 6.0 %, 6 of 100 | - |",
    ]


def test_make_tables_has_rows_and_time_of_each_policy() -> None:
    tables = make_tables({"models": {"base": [policy_row("English")]}})
    lines = tables["retries-work"].splitlines()
    assert lines[-2:] == [
        "| base | default | 9 | 4 | rows | 1.50 | 1.00 | 3.00 | 4.0 |",
        "| base | default | 9 | 4 | processor time | 1.50 | 1.00 | 3.00 | 4.0 |",
    ]
