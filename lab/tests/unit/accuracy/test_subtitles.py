"""Counts of cues that keep the limits of subtitling guides."""

from __future__ import annotations

from whisper_hailo_lab.accuracy.subtitles import (
    Conformity,
    compare_conformity,
    count_conformity,
    parse_srt,
)

GOOD = "1\n00:00:00,000 --> 00:00:02,000\nOne line,\nand another.\n\n"
WIDE = f"2\n00:00:01,500 --> 00:00:02,000\n{'x' * 50}\n\n"


def test_parse_srt_reads_times_and_lines() -> None:
    first, second = parse_srt(GOOD + WIDE)
    assert (first.start_s, first.end_s) == (0.0, 2.0)
    assert first.lines == ("One line,", "and another.")
    assert (second.start_s, second.lines) == (1.5, ("x" * 50,))


def test_count_conformity_counts_what_keeps_each_limit() -> None:
    assert count_conformity("ours", [GOOD + WIDE]) == Conformity(
        "ours",
        cues=2,
        lines=3,
        narrow_lines=2,
        small_cues=2,
        calm_cues=1,
        timed_cues=1,
        whole_cues=1,
        overlaps=1,
    )


def test_compare_conformity_has_a_row_for_each_kind() -> None:
    table = compare_conformity(
        [count_conformity("a", [GOOD]), count_conformity("b", [WIDE])]
    )
    assert [row[0] for row in table.rows] == ["a", "b"]
