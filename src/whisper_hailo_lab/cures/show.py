"""The comparison as a table and as a chart; both are made of the rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whisper_hailo_lab.cures.run import CureRow
from whisper_hailo_lab.report.canvas import bars, draw_chart
from whisper_hailo_lab.report.table import Table, table_of
from whisper_hailo_lab.report.text import number


def table(rows: Sequence[CureRow]) -> Table:
    """A line per setting; times are per second of audio."""
    return table_of(
        rows,
        ("setting", lambda row: row.name),
        ("tokens", lambda row: str(row.tokens)),
        ("decode ms/s", lambda row: f"{row.decode_ms / row.audio_s:.2f}"),
        ("encode ms/s", lambda row: f"{row.encode_ms / row.audio_s:.2f}"),
        ("repeated %", lambda row: f"{100 * row.repetition_rate:.1f}"),
        ("WER %", lambda row: number(row.wer)),
        ("runaway", lambda row: f"{row.n_runaway} of {row.n_windows}"),
        ("first difference", lambda row: row.differs_at or "none"),
    )


def chart(rows: Sequence[CureRow]) -> str:
    """Bars of decoding time, repetitions and errors per setting, as SVG."""
    panels: list[tuple[str, list[float]]] = [
        ("decoding, ms per second of audio", [row.decode_ms / row.audio_s for row in rows]),
        ("repeated runs of three words, %", [100 * row.repetition_rate for row in rows]),
    ]
    rates = [row.wer for row in rows if row.wer is not None]
    if len(rates) == len(rows):
        panels.append(("word error rate, %", rates))
    else:
        panels.append(("tokens", [float(row.tokens) for row in rows]))

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        for ax, (title, values) in zip(axes, panels, strict=True):
            bars(ax, [row.name for row in rows], values, title, labelled=ax is axes[0])

    return draw_chart("cures", "The cures compared", draw, (1, len(panels)), len(rows)).svg
