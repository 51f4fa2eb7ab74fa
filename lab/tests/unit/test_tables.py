"""Tables of rows and columns, as Markdown, HTML and text."""

from __future__ import annotations

import pytest

from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.tables import (
    Table,
    format_difference,
    format_number,
    format_percent,
    format_score,
    format_share,
    make_table,
)


def test_table_escapes_markup_in_cells() -> None:
    table = Table(("<b>", "x"), (("a|b", "<i>&"),))
    assert "| a\\|b | <i>& |" in table.markdown()
    assert "<td>&lt;i&gt;&amp;</td>" in table.html()


def test_table_as_plain_text_is_aligned() -> None:
    table = Table(("case", "ms"), (("a", "1"), ("long name", "20")))
    assert table.plain() == "case       ms\na          1\nlong name  20\n"
    assert table.transpose().plain() == "case  a  long name\nms    1  20\n"


def test_make_table_fills_templates_and_calls_functions() -> None:
    table = make_table(
        [3, 4], (("n", str), ("square", lambda n: f"{n * n}"), ("half", "{real:g}"))
    )
    assert table == Table(("n", "square", "half"), (("3", "9", "3"), ("4", "16", "4")))
    assert make_table([], (("n", str),)).rows == ()


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{a.b:.1f}", "2.3"),
        ("{a.c:.1f}", "-"),
        ("{lost.b} of {n}", "- of 7"),
        ("{items.1}", "y"),
        ("{a.rate:.1%}", "12.3 %"),
        ("{a.endless:.1%}", "-"),
    ],
)
def test_make_table_template_gives_value_or_dash(template: str, text: str) -> None:
    row = {
        "a": {"b": 2.34, "rate": 0.1234, "endless": float("inf")},
        "n": 7,
        "items": ["x", "y"],
    }
    assert make_table([row], (("", template),)).rows == ((text,),)


def test_format_functions_of_none_give_dashes() -> None:
    unknown = (format_percent(None), format_percent(float("inf")), format_number(None))
    assert unknown == ("-", "-", "-")
    assert format_share(None, 3) == "-"


def test_format_functions_round_values() -> None:
    assert format_percent(0.1234) == "12.3 %"
    assert format_number(1.26) == "1.3"
    assert format_share(1, 3) == "1 of 3"
    assert format_difference(-0.003, (-0.009, 0.002)) == "-0.3 (-0.9 to +0.2)"
    assert format_score(Score(2, 1, 0, 57)) == "5.0 % (2 S 1 D 0 I of 60)"
