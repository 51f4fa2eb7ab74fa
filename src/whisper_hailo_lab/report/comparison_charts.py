"""Pictures of the comparisons, one for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whisper_hailo_lab.report.canvas import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    Chart,
    bars,
    draw_chart,
    legend,
    stacked,
)
from whisper_hailo_lab.runs.records import ComparisonRecord


def comparison_chart(record: ComparisonRecord) -> Chart | None:
    """The picture of one comparison; `mel` has none but its table."""
    draw = {"cache": _draw_cache, "window": _draw_window, "precision": _draw_window,
            "padding": _draw_padding, "captions": _draw_captions}.get(record.name)  # fmt: skip
    if draw is None or not record.rows:
        return None
    titles = {
        "cache": "Decoding with and without a cache",
        "window": "Short and full windows",
        "precision": "Weights of encoder and decoder",
        "padding": "Padding before cross-attention",
        "captions": "Live captions of the same stream",
    }
    return draw_chart(
        record.name, titles[record.name], lambda axes: draw(axes, record.rows), (1, 2), 6
    )


def _draw_cache(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    first = rows[0].get("what", "")
    shown = [row for row in rows if row.get("what", "") == first]
    labels, colours = [row["decoder"] for row in shown], [RED, ORANGE, BLUE, GREEN][: len(shown)]
    title = f"attention rows computed, {first}".rstrip(", ")
    bars(axes[0], labels, [row["attention_rows"] for row in shown], title, colour=colours, digits=0)
    bars(
        axes[1],
        labels,
        [row["ms"] for row in shown],
        "median ms",
        colour=colours,
        digits=0,
        labelled=False,
    )


def _draw_window(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    labels = [str(row["value"]) for row in rows]
    parts = [
        (label, row["encoder_ms"] or 0.0, row["decoder_ms"] or 0.0, 0.0)
        for label, row in zip(labels, rows, strict=True)
    ]
    stacked(axes[0], parts, hatch=None)
    axes[0].set_title("mean ms per file")
    legend(axes[0], 2)
    _error_bars(axes[1], labels, rows)


def _draw_padding(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    labels = [str(row["value"]) for row in rows]
    y = np.arange(len(rows))
    ran, repeats = ([row[key] or 0 for row in rows] for key in ("runaway", "repetitive"))
    axes[0].barh(y - 0.2, ran, 0.4, color=RED, label="budget ran out")
    axes[0].barh(y + 0.2, repeats, 0.4, color=ORANGE, label="repeats itself")
    axes[0].set_yticks(y, labels)
    axes[0].set_xlim(0, max(1, *ran, *repeats) * 1.1)
    axes[0].invert_yaxis()
    axes[0].set_title(f"files, of {rows[0]['files']}")
    legend(axes[0], 2)
    _error_bars(axes[1], labels, rows)


def _draw_captions(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    labels = [str(row["way"]) for row in rows]
    for ax, key, title, colour, digits in (
        (axes[0], "decode_ms_per_partial", "decoder ms per partial", ORANGE, 1),
        (axes[1], "corrections_per_word", "words shown and then changed, per word", BLUE, 2),
    ):
        values = [row[key] or 0.0 for row in rows]
        bars(ax, labels, values, title, colour=colour, digits=digits, labelled=ax is axes[0])


def _error_bars(ax: Any, labels: list[str], rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    bars(ax, labels, [100 * (row["wer"] or 0.0) for row in rows], "corpus WER, %", labelled=False)
