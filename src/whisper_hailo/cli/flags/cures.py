"""Options of what keeps the decoder from repeating itself, and of its tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import TokenLimits
from whisper_hailo.decoding.options import PRESETS, Cures, preset

_CURES = "Cures against hallucination"


@dataclass(frozen=True, slots=True)
class CureFlags:
    """What keeps the decoder from repeating itself."""

    preset_name: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help=f"Cures: {', '.join(PRESETS)}. [default: conservative]",
            rich_help_panel=_CURES,
        ),
    ] = None
    pad_to: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Padding target in positions, 0: none. [default: preset's]",
            rich_help_panel=_CURES,
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        typer.Option(metavar="X", help="1.0 is off. [default: preset's]", rich_help_panel=_CURES),
    ] = None
    eot_boost: Annotated[
        float | None,
        typer.Option(metavar="X", help="0.0 is off. [default: preset's]", rich_help_panel=_CURES),
    ] = None
    no_repeat_ngram: Annotated[
        int,
        typer.Option(
            metavar="N", help="No run of N tokens twice; 0 is off.", rich_help_panel=_CURES
        ),
    ] = 0
    max_tokens_per_second: Annotated[
        float | None,
        typer.Option(metavar="X", help="Of a window's audio.", rich_help_panel=_CURES),
    ] = None
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Per window. [default: half the context]", rich_help_panel=_CURES
        ),
    ] = None
    suppress_tokens: Annotated[
        str,
        typer.Option(
            metavar="IDS", help="Never taken; -1 is the model's own list.", rich_help_panel=_CURES
        ),
    ] = "-1"
    suppress_blank: Annotated[
        bool, typer.Option(help="No blank text first.", rich_help_panel=_CURES)
    ] = True

    def cures(self, start: Cures) -> Cures:
        """A preset, or the decoder's own default, with whatever was given explicitly.

        Raises:
            OptionError: values out of range.
        """
        given = {
            "pad_to": self.pad_to,
            "repetition_penalty": self.repetition_penalty,
            "eot_boost": self.eot_boost,
        }
        changes: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
        return replace(start if self.preset_name is None else preset(self.preset_name), **changes)

    def limits(self) -> TokenLimits:
        """Tokens never taken, and how many there may be.

        Raises:
            OptionError: values out of range.
        """
        return TokenLimits(
            suppress=self._suppressed(),
            suppress_blank=self.suppress_blank,
            no_repeat_ngram=self.no_repeat_ngram,
            max_per_second=self.max_tokens_per_second,
        )

    def _suppressed(self) -> tuple[int, ...] | None:
        text = self.suppress_tokens
        try:
            ids = tuple(int(part) for part in text.split(",") if part.strip())
        except ValueError:
            ids = (-2,)
        if any(token < -1 for token in ids):
            raise OptionError(
                f"--suppress-tokens is {text!r}, expected token ids with commas between, or -1"
            )
        return None if -1 in ids else ids
