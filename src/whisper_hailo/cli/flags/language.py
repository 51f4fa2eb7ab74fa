"""Options of language and task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

_LANGUAGE = "Language"


@dataclass(frozen=True, slots=True)
class LanguageFlags:
    """What is spoken, and what is written."""

    language: Annotated[
        str, typer.Option(help="Language code, or auto.", rich_help_panel=_LANGUAGE)
    ] = "en"
    task: Annotated[
        str,
        typer.Option(help="transcribe, or translate to English.", rich_help_panel=_LANGUAGE),
    ] = "transcribe"
    detect_each_window: Annotated[
        bool,
        typer.Option(
            "--detect-each-window",
            help="With --language auto: for speakers who change it.",
            rich_help_panel=_LANGUAGE,
        ),
    ] = False
