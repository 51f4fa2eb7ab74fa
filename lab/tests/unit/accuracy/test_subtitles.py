"""Counts of cues that keep the limits of subtitling guides."""

from __future__ import annotations

from whisper_hailo_lab.accuracy.subtitles import (
    Conformity,
    Pause,
    compare_conformity,
    count_conformity,
    parse_srt,
)

GOOD = "1\n00:00:00,000 --> 00:00:02,000\nOne line,\nand another.\n\n"
WIDE = f"2\n00:00:01,500 --> 00:00:02,000\n{'x' * 50}\n\n"


def test_parse_srt_reads_times_and_lines() -> None:
    first, second = parse_srt(GOOD + WIDE)
    assert first.start_s == 0.0
    assert first.end_s == 2.0
    assert first.lines == ("One line,", "and another.")
    assert second.start_s == 1.5
    assert second.lines == ("x" * 50,)


def test_count_conformity_counts_each_limit() -> None:
    assert count_conformity("ours", [GOOD + WIDE]) == Conformity(
        "ours",
        cues=2,
        lines=3,
        narrow_lines=2,
        small_cues=2,
        calm_cues=1,
        timed_cues=1,
        whole_cues=2,
        overlaps=1,
    )


def test_count_conformity_pause_makes_a_cue_whole() -> None:
    """Without punctuation a cue is whole before a pause; the last cue always is."""
    bare = (GOOD + WIDE).replace("another.", "another")
    for pauses, n_whole in (((), 1), ((Pause(1.2, 1.4),), 2), ((Pause(2.5, 3.0),), 1)):
        assert count_conformity("a", [bare], [pauses]).whole_cues == n_whole


def test_compare_conformity_has_edit_rates_if_measured() -> None:
    counts = [count_conformity("a", [GOOD]), count_conformity("b", [GOOD])]
    rows = compare_conformity(counts, {"a": 12.34}).rows
    assert [row[-1] for row in rows] == ["12.3 %", "-"]


def test_compare_conformity_has_a_row_for_each_kind() -> None:
    table = compare_conformity(
        [count_conformity("a", [GOOD]), count_conformity("b", [WIDE])]
    )
    assert [row[0] for row in table.rows] == ["a", "b"]
