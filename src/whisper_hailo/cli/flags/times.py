"""Options of the times of segments and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import APPENDED, PREPENDED, WordOptions

_TIMES = "Times"


@dataclass(frozen=True, slots=True)
class TimeFlags:
    """Times of segments and words."""

    timestamps: Annotated[
        bool | None,
        typer.Option(
            help="Let the model write times. [default: for srt, vtt, tsv]", rich_help_panel=_TIMES
        ),
    ] = None
    max_initial_timestamp: Annotated[
        float,
        typer.Option(
            metavar="S", help="Latest start of a window's first segment.", rich_help_panel=_TIMES
        ),
    ] = 1.0
    word_timestamps: Annotated[
        bool,
        typer.Option("--word-timestamps", help="Times of words.", rich_help_panel=_TIMES),
    ] = False
    hallucination_silence: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Drop odd words beside a longer silence.",
            rich_help_panel=_TIMES,
        ),
    ] = None
    prepend_punctuations: Annotated[str, typer.Option(metavar="MARKS", rich_help_panel=_TIMES)] = (
        PREPENDED
    )
    append_punctuations: Annotated[str, typer.Option(metavar="MARKS", rich_help_panel=_TIMES)] = (
        APPENDED
    )

    def words(self) -> WordOptions | None:
        """Times of words, where asked for.

        Raises:
            OptionError: values out of range.
        """
        if not self.word_timestamps:
            if self.hallucination_silence is not None:
                raise OptionError("--hallucination-silence needs --word-timestamps; give both")
            return None
        return WordOptions(
            prepended=self.prepend_punctuations,
            appended=self.append_punctuations,
            hallucination_silence_s=self.hallucination_silence,
        )
