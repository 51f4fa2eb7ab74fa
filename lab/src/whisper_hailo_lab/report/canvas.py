"""How a picture is drawn and saved: colours, legend, axes, and the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whisper_hailo_lab.extras import require_extra

BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#999999"


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture.

    Attributes:
        name: file name without suffix.
        title: what it shows.
        svg: as text, without a declaration, fit to stand inside a page.
        png: as bytes.
    """

    name: str
    title: str
    svg: str
    png: bytes


def stacked(ax: Any, rows: Sequence[tuple[str, float, float, float]], hatch: str | None) -> None:  # noqa: ANN401
    """Bars of `(label, encoder, decoder, rest)`, the sum at their ends."""
    labels = [row[0] for row in rows]
    left = np.zeros(len(rows))
    parts = (("encoder", BLUE), ("decoder", ORANGE), ("rest, or not told apart", GREY))
    for index, (name, colour) in enumerate(parts, 1):
        widths = np.array([row[index] for row in rows])
        if not widths.any():
            continue
        ax.barh(labels, widths, left=left, color=colour, label=name, hatch=hatch, edgecolor="white")
        left += widths
    for y, total in enumerate(left):
        ax.text(total, y, f" {total:.0f}", va="center", fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, float(left.max()) * 1.15 or 1.0)


def bars(
    ax: Any,  # noqa: ANN401
    labels: Sequence[str],
    values: Sequence[float],
    title: str,
    *,
    colour: str | Sequence[str] = BLUE,
    digits: int = 1,
    labelled: bool = True,
) -> None:
    """Bars with their values at the ends; not `labelled` beside a panel that has the labels."""
    drawn = ax.barh(labels, values, color=colour)
    ax.bar_label(drawn, [f" {value:,.{digits}f}" for value in values], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, max([*values, 0.1]) * 1.2)
    ax.set_title(title)
    if not labelled:
        ax.set_yticklabels([])


def legend(ax: Any, columns: int) -> None:  # noqa: ANN401
    """What the colours of a panel stand for, below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    ax.figure.legend(handles, labels, loc="outside lower center", ncol=columns,
                     frameon=False, fontsize=8)  # fmt: skip


def logarithmic(ax: Any) -> None:  # noqa: ANN401
    """A logarithmic axis with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def draw_chart(
    name: str, title: str, draw: Callable[[Any], None], grid: tuple[int, int], n_rows: int
) -> Chart:
    """Draw once, save twice; nothing in the files depends on when or where."""
    require_extra("bench", "a chart", "matplotlib")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    look: dict[Any, Any] = {
        "svg.hashsalt": name, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
        "hatch.linewidth": 0.6, "axes.titlesize": 10, "figure.constrained_layout.use": True,
    }  # fmt: skip
    with mpl.rc_context(look):
        figure = Figure(figsize=(5.6 * grid[1] + 1, 1.6 + 0.3 * n_rows))
        axes = np.atleast_1d(figure.subplots(*grid))
        draw(axes)
        figure.suptitle(title, fontweight="bold")
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
    text = svg.getvalue()
    return Chart(name, title, text[text.index("<svg") :], png.getvalue())
