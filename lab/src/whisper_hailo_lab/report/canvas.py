"""Drawing of charts: colours, bars, legends, and files with the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.program import require_extra

BLUE: Final = "#0072b2"
ORANGE: Final = "#e69f00"
GREEN: Final = "#009e73"
RED: Final = "#d55e00"
GREY: Final = "#999999"


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes:
        name: file name without suffix.
        title: heading.
        svg: SVG without an XML declaration, fit for a page.
        png: PNG.
    """

    name: str
    title: str
    svg: str
    png: bytes


@dataclass(frozen=True, slots=True)
class StackedBar:
    """Milliseconds of encoder, decoder and the rest."""

    label: str
    encoder_ms: float
    decoder_ms: float
    rest_ms: float = 0.0


_PARTS: Final = (
    ("encoder", BLUE, "encoder_ms"),
    ("decoder", ORANGE, "decoder_ms"),
    ("rest, or not told apart", GREY, "rest_ms"),
)


def draw_stacked_bars(
    ax: Any,  # noqa: ANN401
    bars: Sequence[StackedBar],
    hatch: str | None = None,
) -> None:
    """Draw bars with their sums at the ends."""
    labels = [bar.label for bar in bars]
    left = np.zeros(len(bars))
    for name, colour, field in _PARTS:
        widths = np.array([getattr(bar, field) for bar in bars])
        if not widths.any():
            continue
        ax.barh(
            labels,
            widths,
            left=left,
            color=colour,
            label=name,
            hatch=hatch,
            edgecolor="white",
        )
        left += widths
    for y, total in enumerate(left):
        ax.text(total, y, f" {total:.0f}", va="center", fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, float(left.max()) * 1.15 or 1.0)


def draw_bars(
    ax: Any,  # noqa: ANN401
    labels: Sequence[str],
    values: Sequence[float],
    title: str,
    *,
    colour: str | Sequence[str] = BLUE,
    digits: int = 1,
    hatch: str | None = None,
    labelled: bool = True,
) -> None:
    """Draw bars with their values at the ends; a panel beside a labelled one needs no labels."""
    bars = ax.barh(labels, values, color=colour, hatch=hatch, edgecolor="white")
    ax.bar_label(bars, [f" {value:,.{digits}f}" for value in values], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, max([*values, 0.1]) * 1.2)
    ax.set_title(title)
    if not labelled:
        ax.set_yticklabels([])


def draw_legend(ax: Any, columns: int) -> None:  # noqa: ANN401
    """Draw the legend of a panel below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    ax.figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncol=columns,
        frameon=False,
        fontsize=8,
    )


def use_log_axis(ax: Any) -> None:  # noqa: ANN401
    """Make the horizontal axis logarithmic, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def draw_chart(
    name: str,
    title: str,
    draw: Callable[[Any], None],
    grid: tuple[int, int],
    n_rows: int,
) -> Chart:
    """Draw a chart as SVG and PNG; no byte depends on time or machine."""
    require_extra("bench", "a chart", "matplotlib")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.hashsalt": name,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": 0.6,
        "axes.titlesize": 10,
        "figure.constrained_layout.use": True,
    }
    svg = io.StringIO()
    png = io.BytesIO()
    with mpl.rc_context(style):
        # One panel alone is wider, since it has the same labels and nothing beside it.
        width = 9.0 if grid[1] == 1 else 5.6 * grid[1] + 1
        figure = Figure(figsize=(width, 1.6 + 0.3 * n_rows))
        draw(np.atleast_1d(figure.subplots(*grid)))
        figure.suptitle(title, fontweight="bold")
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
    text = svg.getvalue()
    return Chart(name, title, text[text.index("<svg") :], png.getvalue())
