"""A report as sections, and their two spellings: Markdown and one self-contained HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from whisper_hailo_lab.report.canvas import Chart
from whisper_hailo_lab.report.table import Table

STYLE = """
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
        anchor: place of that run in the page.
    """

    text: str
    run: str
    anchor: str


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Text, tables and pictures under one heading.

    Attributes:
        anchor: name of its place.
        title: heading.
        text: paragraphs.
        tables: with their captions.
        charts: pictures.
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
        """Markdown whose pictures lie in `charts/`."""
        parts = [f"# {self.title}", f"**{self.headline}**"]
        if self.findings:
            lines = [f"- {f.text} ([{f.run}](#{f.anchor}))" for f in self.findings]
            parts.append("\n".join(lines))
        parts.append("![The data path](charts/data-path.svg)")
        for section in self.sections:
            parts.append(f'<a id="{section.anchor}"></a>\n\n## {section.title}')
            parts += section.text
            parts += [f"![{c.title}](charts/{c.name}.svg)" for c in section.charts]
            for caption, table in section.tables:
                parts.append(f"{caption}:\n\n{table.markdown().rstrip()}" if caption else
                             table.markdown().rstrip())  # fmt: skip
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """One page that needs nothing else: style and pictures are inside."""
        findings = "".join(
            f'<li>{escape(f.text)} (<a href="#{escape(f.anchor)}">{escape(f.run)}</a>)</li>\n'
            for f in self.findings
        )
        body = "".join(_section_html(section) for section in self.sections)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f'<h1>{escape(self.title)}</h1>\n<p class="headline">{escape(self.headline)}</p>\n'
            f"<ul>\n{findings}</ul>\n{self.data_path}\n{body}</body>\n</html>\n"
        )


def _section_html(section: ReportSection) -> str:
    text = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in section.text)
    charts = "".join(f"<figure>{_own_ids(chart)}</figure>\n" for chart in section.charts)
    tables = "".join(
        (f"<p>{escape(caption)}:</p>\n" if caption else "")
        + f'<div class="wide">{table.html()}</div>\n'
        for caption, table in section.tables
    )
    heading = f'<h2 id="{escape(section.anchor)}">{escape(section.title)}</h2>\n'
    return f"<section>\n{heading}{text}{charts}{tables}</section>\n"


def _own_ids(chart: Chart) -> str:
    """Pictures of one page must not share ids: each gets its name in front."""
    svg = chart.svg
    for before in ('id="', 'href="#', "url(#"):
        svg = svg.replace(before, f"{before}{chart.name}-")
    return svg
