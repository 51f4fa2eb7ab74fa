"""Options of text that the decoder is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.decoding.option_groups import Prompts

_PROMPTS = "Prompts"


@dataclass(frozen=True, slots=True)
class PromptFlags:
    """Text that the decoder is shown."""

    initial_prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="As if said before the recording.", rich_help_panel=_PROMPTS
        ),
    ] = None
    carry_initial_prompt: Annotated[
        bool,
        typer.Option("--carry-initial-prompt", help="In every window.", rich_help_panel=_PROMPTS),
    ] = False
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Begins the first window's text.", rich_help_panel=_PROMPTS
        ),
    ] = None
    hotwords: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="To expect.", rich_help_panel=_PROMPTS),
    ] = None
    condition_on_previous_text: Annotated[
        bool,
        typer.Option(help="Show each window the text before it.", rich_help_panel=_PROMPTS),
    ] = False

    def prompts(self) -> Prompts:
        """The prompts.

        Raises:
            OptionError: blank text.
        """
        return Prompts(
            initial_prompt=self.initial_prompt,
            prefix=self.prefix,
            hotwords=self.hotwords,
            condition_on_previous_text=self.condition_on_previous_text,
            carry_initial_prompt=self.carry_initial_prompt,
        )
