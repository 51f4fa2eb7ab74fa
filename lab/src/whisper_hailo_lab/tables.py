"""Tables: rows and column definitions in, text, Markdown and HTML out."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TypeAlias

from whisper_hailo_lab.rates import Score

DASH: Final = "-"
"""Cell without a value."""

Cell: TypeAlias = str | Callable[[Any], str]
"""Template of a cell, or a function from a row to its text.

A template is a format string whose fields are paths into the row: keys, attributes and indices
joined by dots, such as `{before.threads}` or `{1.pass_ms:.2f}`. A field that is missing from a
mapping, `None`, or no finite number gives a dash. A format that ends in `%` gives a rate as
`12.3 %`.
"""

Column: TypeAlias = tuple[str, Cell]
"""Heading and cell."""


class _CellFormatter(string.Formatter):
    """Formatter of cell templates; see `Cell`."""

    def get_field(
        self,
        field_name: str,
        args: Sequence[Any],
        _kwargs: Mapping[str, Any],
    ) -> tuple[Any, str]:
        """Return the value at a path, or `None` where the path ends early."""
        value = args[0]
        for part in field_name.split("."):
            if value is None:
                break
            value = _step_into(value, part)
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - any cell
        if value is None:
            return DASH
        if isinstance(value, float) and not math.isfinite(value):
            return DASH
        text = format(value, format_spec)
        return text.replace("%", " %") if format_spec.endswith("%") else text


def _step_into(value: Any, part: str) -> Any:  # noqa: ANN401 - any row
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, Sequence):
        return value[int(part)]
    return getattr(value, part)


_FORMATTER: Final = _CellFormatter()


def fill_template(template: str, row: object) -> str:
    """Return the text of a template; see `Cell`."""
    return _FORMATTER.vformat(template, (row,), {})


def make_table(rows: Iterable[Any], columns: Sequence[Column]) -> Table:
    """Return a table with one line per row."""
    headings = tuple(heading for heading, _ in columns)
    lines = []
    for row in rows:
        lines.append(tuple(fill_cell(cell, row) for _, cell in columns))
    return Table(headings, tuple(lines))


def fill_cell(cell: Cell, row: object) -> str:
    """Return the text of one cell."""
    return fill_template(cell, row) if isinstance(cell, str) else cell(row)


def format_percent(rate: float | None, digits: int = 1) -> str:
    """Return `12.3 %`, or a dash for what has no rate."""
    return fill_template(f"{{0:.{digits}%}}", (rate,))


def format_number(value: float | None, digits: int = 1) -> str:
    """Return a number, or a dash."""
    return fill_template(f"{{0:.{digits}f}}", (value,))


def format_share(count: int | None, total: int) -> str:
    """Return `3 of 40`, or a dash for an unknown count."""
    return DASH if count is None else f"{count} of {total}"


def format_difference(rate: float, interval: Sequence[float]) -> str:
    """Return the difference of two rates in points, with its interval: `-0.3 (-0.9 to +0.2)`."""
    low, high = (100 * bound for bound in interval)
    return f"{100 * rate:+.1f} ({low:+.1f} to {high:+.1f})"


def format_score(score: Score) -> str:
    """Return a rate with its counts: `5.0 % (2 S 1 D 0 I of 60)`."""
    return fill_template(
        "{rate:.1%} ({substitutions} S {deletions} D {insertions} I of {reference_count})",
        score,
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text.

    Attributes:
        columns: headings.
        rows: one tuple per row, as long as the headings.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def transpose(self) -> Table:
        """Return the table on its side; the first column becomes the headings."""
        first, *rest = zip(self.columns, *self.rows, strict=True)
        return Table(columns=first, rows=tuple(rest))

    def plain(self) -> str:
        """Return lines with aligned columns, for a terminal."""
        lines = [self.columns, *self.rows]
        widths = []
        for cells in zip(*lines, strict=True):
            widths.append(max(len(cell) for cell in cells))
        return "".join(f"{_align(line, widths)}\n" for line in lines)

    def markdown(self) -> str:
        """Return GitHub's Markdown; a bar in a cell is escaped."""
        rule = "".join("|---" for _ in self.columns)
        lines = [_markdown_line(self.columns), f"{rule}|"]
        lines += [_markdown_line(row) for row in self.rows]
        return "".join(f"{line}\n" for line in lines)

    def html(self) -> str:
        """Return an HTML table; the page's style sheet aligns numbers."""
        lines = ["<table>"]
        lines.append(f"<thead><tr>{_html_cells('th', self.columns)}</tr></thead>")
        lines.append("<tbody>")
        for row in self.rows:
            lines.append(f"<tr>{_html_cells('td', row)}</tr>")
        lines += ["</tbody>", "</table>"]
        return "".join(f"{line}\n" for line in lines)


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def _markdown_line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _html_cells(tag: str, cells: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
