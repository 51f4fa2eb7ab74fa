"""Tables of captions."""

from __future__ import annotations

from whisper_hailo_lab.documents.captions import PARTS

FIGURES = {
    "settle_s_median": 2.04,
    "settle_s_p95": 4.9,
    "rewritten": 0.5,
    "partials": 90,
    "skipped_partials": 3,
    "share": 0.3,
    "wer": 9.0,
}


def test_rules_table_has_a_row_for_each_rule() -> None:
    about = {"model": "base", "language": "de", "whole_wer": 8.5}
    rows = [
        FIGURES | about | {"rule": "default", "times_slower": 1.0},
        FIGURES | about | {"rule": "slow core", "times_slower": 2.0},
    ]
    table = PARTS["rules"]({"models": ["base"], "rows": rows})
    assert list(table.rows[0]) == [
        "base", "de", "default", "2.0, 4.9", "0.50", "90, 3", "0.30", "9.0", "8.5",
    ]  # fmt: skip
    assert table.rows[1][6] == "0.60"


def test_programs_table_has_a_row_for_each_program() -> None:
    rows = [FIGURES | {"program": "another"}]
    table = PARTS["programs"]({"models": ["base"], "rows": rows})
    assert list(table.rows[0]) == ["another", "2.0, 4.9", "0.50", "0.30", "9.0"]
