"""The comparison as a table and as a chart; both are made of the rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from whisper_hailo_lab.cures.run import Row
from whisper_hailo_lab.report.table import Table

_ROW_PX: Final = 18
_NAME_PX: Final = 260
_PANEL_PX: Final = 200
_GAP_PX: Final = 70
_TOP_PX: Final = 48


def table(rows: Sequence[Row]) -> Table:
    """One line per setting."""
    return Table(
        columns=(
            *("setting", "tokens", "decode ms/s", "encode ms/s", "repeated %", "WER %"),
            *("runaway", "first difference"),
        ),
        rows=tuple(
            (
                row.name,
                str(row.tokens),
                f"{row.decode_ms / row.audio_s:.2f}",
                f"{row.encode_ms / row.audio_s:.2f}",
                f"{100 * row.repetition_rate:.1f}",
                "-" if row.wer is None else f"{row.wer:.1f}",
                f"{row.n_runaway} of {row.n_windows}",
                "none" if row.differs_at is None else row.differs_at,
            )
            for row in rows
        ),
    )


def chart(rows: Sequence[Row]) -> str:
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
    width = _NAME_PX + len(panels) * (_PANEL_PX + _GAP_PX)
    height = _TOP_PX + _ROW_PX * len(rows) + 12
    names = "".join(
        f'<text x="{_NAME_PX - 8}" y="{_y(i) + 12}" text-anchor="end">{escape(row.name)}</text>\n'
        for i, row in enumerate(rows)
    )
    drawn = "".join(
        _panel(_NAME_PX + i * (_PANEL_PX + _GAP_PX), title, values)
        for i, (title, values) in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{names}{drawn}</svg>\n'
    )


def _y(index: int) -> int:
    return _TOP_PX + index * _ROW_PX


def _panel(left: int, title: str, values: Sequence[float]) -> str:
    largest = max([*values, 1e-9])
    head = f'<text x="{left}" y="{_TOP_PX - 14}" font-weight="bold">{escape(title)}</text>\n'
    bars = []
    for index, value in enumerate(values):
        length = _PANEL_PX * value / largest
        bars.append(
            f'<rect x="{left}" y="{_y(index) + 2}" width="{length:.1f}" height="{_ROW_PX - 5}" '
            f'fill="#4477aa"/>\n<text x="{left + length + 4:.1f}" y="{_y(index) + 12}">'
            f"{value:.1f}</text>\n"
        )
    return head + "".join(bars)
