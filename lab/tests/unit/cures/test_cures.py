"""The comparison of cures: grid, rates, chart."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.cures.grid import BASELINE, Grid, first_difference
from whisper_hailo_lab.cures.run import CureRow, chart, repetition_rate, table


def test_grid_begins_with_baseline_and_combines_everything() -> None:
    grid = Grid((0, 700), (1.0, 1.1), (0.0,), ngrams=(3,), zero_rows=(700,), vad=True)
    settings = grid.settings()
    assert settings[0].name == BASELINE
    assert len({setting.name for setting in settings}) == len(settings) == 3 + 4 + 1 + 1 + 1
    zeros = next(setting for setting in settings if setting.zero_rows)
    assert zeros.options(DecodingOptions()).anti_repetition.pad_to == 0
    assert settings[-1].long().strategy == "vad"


def test_repetition_is_counted_within_each_text() -> None:
    assert repetition_rate(["a b c", "a b c"]) == 0.0
    assert repetition_rate(["a b c a b c"]) == pytest.approx(1 / 4)
    assert repetition_rate(["", "one"]) == 0.0


def test_first_difference() -> None:
    assert first_difference(["a", "b"], ["a", "c"]) == 1
    assert first_difference(["a"], ["a"]) is None


def row(name: str, wer: float | None) -> CureRow:
    return CureRow(
        name, 700, 1.0, 0.0, 0, zero_rows=False, vad=False, n_windows=2, n_runaway=1, tokens=9,
        audio_s=4.0, encode_ms=8.0, decode_ms=10.0, repetition_rate=0.25, wer=wer,
        differs_at="x-1", expected="a", got="b",
    )  # fmt: skip


def test_the_table_shows_every_row() -> None:
    shown = table([row("one", 12.5), row("two <&>", None)])
    assert shown.rows[0][1:6] == ("9", "2.50", "2.00", "25.0", "12.5")
    assert shown.rows[1][5:] == ("-", "1 of 2", "x-1")


@pytest.mark.slow
@pytest.mark.parametrize(("wer", "panel"), [(None, "tokens"), (12.5, "word error rate, %")])
def test_the_chart_shows_every_row(wer: float | None, panel: str) -> None:
    pytest.importorskip("matplotlib", reason="charts need the extra bench")
    svg = chart([row("one", wer), row("two <&>", wer)])
    ET.fromstring(svg)  # noqa: S314 - ours
    for text in ("one", "two &lt;&amp;&gt;", panel, "2.5"):
        assert f"<!-- {text} -->" in svg or f"<!--  {text} -->" in svg, text
