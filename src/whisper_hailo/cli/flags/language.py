"""Options of language and task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE, language_code

_LANGUAGE = "Language"


@dataclass(frozen=True, slots=True)
class LanguageFlags:
    """What is spoken, and what is written."""

    language: Annotated[
        str, typer.Option(help="Code or English name, or auto.", rich_help_panel=_LANGUAGE)
    ] = "en"
    task: Annotated[
        str,
        typer.Option(help="transcribe, or translate to English.", rich_help_panel=_LANGUAGE),
    ] = "transcribe"


@dataclass(frozen=True, slots=True)
class RecordingLanguageFlags(LanguageFlags):
    """The same of a recording, which has one language unless it is told otherwise.

    Raises:
        OptionError: languages to detect, and one that is given.
    """

    detect_each_window: Annotated[
        bool,
        typer.Option(
            "--detect-each-window",
            help="With --language auto: for speakers who change it.",
            rich_help_panel=_LANGUAGE,
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.detect_each_window and language_code(self.language) != AUTO_LANGUAGE:
            raise OptionError("--detect-each-window needs --language auto; give both")
