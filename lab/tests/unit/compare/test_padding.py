"""The comparison of settings against repetition: grid, rates, table and chart."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.compare.padding import (
    PaddingRow,
    find_difference,
    padding_chart,
    padding_table,
    repetition_rate,
)
from whisper_hailo_lab.compare.padding_grid import (
    BASELINE,
    PaddingGrid,
    parse_numbers,
    parse_whole_numbers,
)


def test_grid_begins_with_baseline_and_combines_all() -> None:
    grid = PaddingGrid(
        pad_to=(0, 700),
        repetition_penalty=(1.0, 1.1),
        eot_boost=(0.0,),
        no_repeat_ngram=(3,),
        zero_rows=(700,),
        vad=True,
    )
    settings = grid.settings()
    assert settings[0].name == BASELINE
    assert (
        len({setting.name for setting in settings})
        == len(settings)
        == 3 + 4 + 1 + 1 + 1
    )
    zeros = next(setting for setting in settings if setting.zero_rows)
    assert zeros.decoding_options(DecodingOptions()).anti_repetition.pad_to == 0
    assert settings[-1].long_options().strategy == "vad"


def test_parse_numbers_refuses_what_is_no_number() -> None:
    assert parse_numbers("1,1.1,") == (1.0, 1.1)
    assert parse_whole_numbers("0,500") == (0, 500)
    for text in ("inf", "1,nan", "1;2"):
        with pytest.raises(ValueError, match="numbers with commas"):
            parse_numbers(text)


def test_repetition_rate_counts_within_each_text() -> None:
    assert repetition_rate(["a b c", "a b c"]) == 0.0
    assert repetition_rate(["a b c a b c"]) == pytest.approx(1 / 4)
    assert repetition_rate(["", "one"]) == 0.0


def test_find_difference_gives_first_index_or_none() -> None:
    assert find_difference(["a", "b"], ["a", "c"]) == 1
    assert find_difference(["a"], ["a"]) is None


def make_row(name: str, wer: float | None) -> PaddingRow:
    return PaddingRow(
        name, 700, 1.0, 0.0, 0, zero_rows=False, vad=False, n_windows=2, n_runaway=1, tokens=9,
        audio_s=4.0, encode_ms=8.0, decode_ms=10.0, repetition_rate=0.25, wer=wer,
        differs_at="x-1", expected="a", got="b",
    )  # fmt: skip


def test_padding_table_has_a_line_for_each_row() -> None:
    table = padding_table([make_row("one", 12.5), make_row("two <&>", None)])
    assert table.rows[0][1:6] == ("9", "2.50", "2.00", "25.0", "12.5")
    assert table.rows[1][5:] == ("-", "1 of 2", "x-1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wer", "panel"), [(None, "tokens"), (12.5, "word error rate, %")]
)
def test_padding_chart_shows_every_row(wer: float | None, panel: str) -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra bench")
    svg = padding_chart([make_row("one", wer), make_row("two <&>", wer)])
    ET.fromstring(svg)  # noqa: S314 - ours
    for text in ("one", "two &lt;&amp;&gt;", panel, "2.5"):
        assert f"<!-- {text} -->" in svg or f"<!--  {text} -->" in svg, text
