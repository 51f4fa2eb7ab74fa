"""A report as sections, written as Markdown and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from whisper_hailo_lab.report.canvas import Chart
from whisper_hailo_lab.tables import Table

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto;
  padding: 0 1em; }
h1 { margin-bottom: 0; } h2 { border-bottom: 1px solid #ccc; margin-top: 2em; }
.headline { font-size: 1.25em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0; }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { border-bottom: 2px solid #999; vertical-align: bottom; }
svg { max-width: 100%; height: auto; }
"""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One sentence with the run it comes from.

    Attributes:
        text: the sentence.
        run: name of the run file.
        anchor: anchor of that run in the page.
    """

    text: str
    run: str
    anchor: str


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Text, tables and charts under one heading.

    Attributes:
        anchor: anchor in the page.
        title: heading.
        text: paragraphs.
        tables: captions, which may be empty, and tables.
        charts: charts.
    """

    anchor: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A report as one page, from headline and findings to its sections."""

    title: str
    headline: str
    findings: tuple[Conclusion, ...]
    data_path: str
    sections: tuple[ReportSection, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(chart for section in self.sections for chart in section.charts)

    def markdown(self) -> str:
        """Return Markdown whose charts lie in `charts/`."""
        parts = [f"# {self.title}", f"**{self.headline}**"]
        if self.findings:
            lines = [
                f"- {finding.text} ([{finding.run}](#{finding.anchor}))"
                for finding in self.findings
            ]
            parts.append("\n".join(lines))
        parts.append("![The data path](charts/data-path.svg)")
        for section in self.sections:
            parts += _section_markdown(section)
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return one page that needs no other file."""
        findings = "".join(_finding_html(finding) for finding in self.findings)
        body = "".join(_section_html(section) for section in self.sections)
        title = escape(self.title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f'<h1>{title}</h1>\n<p class="headline">{escape(self.headline)}</p>\n'
            f"<ul>\n{findings}</ul>\n{self.data_path}\n{body}</body>\n</html>\n"
        )


def _section_markdown(section: ReportSection) -> Iterator[str]:
    yield f'<a id="{section.anchor}"></a>\n\n## {section.title}'
    yield from section.text
    for chart in section.charts:
        yield f"![{chart.title}](charts/{chart.name}.svg)"
    for caption, table in section.tables:
        if caption:
            yield f"{caption}:"
        yield table.markdown().rstrip()


def _finding_html(finding: Conclusion) -> str:
    link = f'<a href="#{escape(finding.anchor)}">{escape(finding.run)}</a>'
    return f"<li>{escape(finding.text)} ({link})</li>\n"


def _section_html(section: ReportSection) -> str:
    text = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in section.text)
    charts = "".join(
        f"<figure>{_prefix_ids(chart)}</figure>\n" for chart in section.charts
    )
    tables = "".join(_table_html(caption, table) for caption, table in section.tables)
    heading = f'<h2 id="{escape(section.anchor)}">{escape(section.title)}</h2>\n'
    return f"<section>\n{heading}{text}{charts}{tables}</section>\n"


def _table_html(caption: str, table: Table) -> str:
    heading = f"<p>{escape(caption)}:</p>\n" if caption else ""
    return f'{heading}<div class="wide">{table.html()}</div>\n'


def _prefix_ids(chart: Chart) -> str:
    """Return the SVG with the chart's name before every id, which charts may not share."""
    svg = chart.svg
    for prefix in ('id="', 'href="#', "url(#"):
        svg = svg.replace(prefix, f"{prefix}{chart.name}-")
    return svg
