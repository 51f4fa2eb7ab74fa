"""Limits of scripts: the width of lines and the speed of reading."""

# ruff: noqa: RUF001 - Chinese has full-width commas
from __future__ import annotations

import pytest

from whisper_hailo.text.break_points import CLAUSE, NEUTRAL, SENTENCE, Unit
from whisper_hailo.text.cue_layout import (
    CHINESE,
    JAPANESE,
    KOREAN,
    LATIN,
    CueLimits,
    find_cues,
    find_limits,
    set_lines,
    split_wide_units,
)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("Good morning.", LATIN),
        ("Доброе утро.", LATIN),
        ("สวัสดี", LATIN),
        ("你好，世界", CHINESE),
        ("こんにちは世界", JAPANESE),
        ("안녕하세요", KOREAN),
        ("你好 whisper and other English words", LATIN),
        ("", LATIN),
    ],
)
def test_find_limits_follows_the_script(text: str, limits: CueLimits) -> None:
    assert find_limits(text) == limits


def make_units(*parts: tuple[str, float]) -> list[Unit]:
    """Return units of a second each, with the cost of a break after them."""
    return [
        Unit(text, float(index), index + 1.0, cost)
        for index, (text, cost) in enumerate(parts)
    ]


def test_set_lines_splits_at_the_cheapest_break() -> None:
    units = make_units(
        ("aaaa", NEUTRAL), (" bbbb,", CLAUSE), (" cccc", NEUTRAL), (" dddd", SENTENCE)
    )
    assert set_lines(units, CueLimits(16, 20.0)) == ["aaaa bbbb,", "cccc dddd"]
    assert set_lines(units, CueLimits(40, 20.0)) == ["aaaa bbbb, cccc dddd"]


def test_split_wide_units_gives_parts_of_the_line_width() -> None:
    (unit,) = make_units(("好" * 40, SENTENCE))
    parts = split_wide_units([unit], CHINESE)
    assert [len(part.text) for part in parts] == [16, 16, 8]
    assert [part.start_s for part in parts] == pytest.approx([0.0, 0.4, 0.8])
    assert parts[-1].break_cost == SENTENCE


def test_split_wide_units_keeps_a_long_latin_word() -> None:
    units = make_units(("x" * 60, SENTENCE))
    assert split_wide_units(units, LATIN) == units


def test_find_cues_ends_cues_with_sentences() -> None:
    units = make_units(
        ("One sentence ends.", SENTENCE),
        (" Another sentence", NEUTRAL),
        (" of two units ends.", SENTENCE),
    )
    assert find_cues(units, CueLimits(20, 20.0)) == [(0, 1), (1, 3)]


def test_find_cues_of_a_long_unit_is_that_unit() -> None:
    units = [Unit("Well", 0.0, 30.0, NEUTRAL)]
    assert find_cues(units, LATIN) == [(0, 1)]


def test_find_cues_lasts_seven_seconds_at_most() -> None:
    units = make_units(*[(" a", NEUTRAL)] * 20)
    ranges = find_cues(units, LATIN)
    assert max(end - first for first, end in ranges) <= 7
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 20
