"""Options of results: formats, places, subtitles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.text.outputs import ALL_FORMATS, FORMATS
from whisper_hailo.text.subtitles import Layout

_PANEL, _SUBTITLES = "Output", "Subtitles"
_TIMED = ("srt", "vtt", "tsv", ALL_FORMATS)


@dataclass(frozen=True, slots=True)
class OutputFlags:
    """What is written, and where."""

    fmt: Annotated[
        str,
        typer.Option(
            "--format", help=f"{', '.join(FORMATS)}, or {ALL_FORMATS}.", rich_help_panel=_PANEL
        ),
    ] = "txt"
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="D",
            help="Write files there, not to standard output.",
            readable=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    skip_existing: Annotated[
        bool,
        typer.Option(
            "--skip-existing",
            help="Leave out inputs whose files are there: goes on where a run ended.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per input.", rich_help_panel=_PANEL),
    ] = False
    max_line_width: Annotated[
        int | None,
        typer.Option(metavar="N", help="Characters.", rich_help_panel=_SUBTITLES),
    ] = None
    max_line_count: Annotated[
        int | None,
        typer.Option(metavar="N", help="Lines per cue.", rich_help_panel=_SUBTITLES),
    ] = None
    max_words_per_line: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=_SUBTITLES)
    ] = None
    highlight_words: Annotated[
        bool,
        typer.Option(
            "--highlight-words",
            help="Underline each word in its time.",
            rich_help_panel=_SUBTITLES,
        ),
    ] = False

    @property
    def wants_times(self) -> bool:
        """Whether the format is of use only with times of segments."""
        return self.fmt in _TIMED

    def formats(self) -> tuple[str, ...]:
        """The formats to write.

        Raises:
            OptionError: no such format, or several of them on standard output.
        """
        if self.fmt == ALL_FORMATS:
            if self.output_dir is None:
                raise OptionError("--format all writes several files; give --output-dir")
            return FORMATS
        if self.fmt not in FORMATS:
            known = ", ".join((*FORMATS, ALL_FORMATS))
            raise OptionError(f"--format is {self.fmt!r}, expected one of: {known}")
        return (self.fmt,)

    def layout(self, *, has_words: bool) -> Layout:
        """How subtitles are set.

        Raises:
            OptionError: numbers below 1, or highlighting without times of words.
        """
        if self.highlight_words and not has_words:
            raise OptionError("--highlight-words needs --word-timestamps; give both")
        if self.skip_existing and self.output_dir is None:
            raise OptionError("--skip-existing needs --output-dir; give both")
        return Layout(
            max_line_width=self.max_line_width,
            max_line_count=self.max_line_count,
            max_words_per_line=self.max_words_per_line,
            highlight_words=self.highlight_words,
        )
