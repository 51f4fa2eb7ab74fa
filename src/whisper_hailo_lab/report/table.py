"""A table that can be written as text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text.

    Attributes:
        columns: headings.
        rows: one tuple per row, as long as the headings.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def transposed(self) -> Table:
        """Rows and columns exchanged; the first column becomes the headings."""
        first, *rest = zip(self.columns, *self.rows, strict=True)
        return Table(columns=first, rows=tuple(rest))

    def plain(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        texts = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
        return "\n".join(texts) + "\n"

    def markdown(self) -> str:
        """GitHub's tables; a bar in a cell is escaped."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        texts = ("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)
        head, rule, *rest = texts
        return "\n".join([head, rule.replace(" ", ""), *rest]) + "\n"

    def html(self) -> str:
        """An HTML table; numbers are set right by the style sheet."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
            for row in self.rows
        )
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


Row = TypeVar("Row")


def table_of(rows: Iterable[Row], *columns: tuple[str, Callable[[Row], str]]) -> Table:
    """A table whose columns say what stands in them.

    Args:
        rows: one line each.
        columns: heading, and what gives the cell of a row.
    """
    heads, cells = zip(*columns, strict=True)
    return Table(heads, tuple(tuple(cell(row) for cell in cells) for row in rows))
