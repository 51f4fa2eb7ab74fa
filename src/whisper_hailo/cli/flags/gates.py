"""Options of what is not believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import Gates

_GATES = "Gates"


@dataclass(frozen=True, slots=True)
class GateFlags:
    """When a window's text is not believed."""

    no_speech_threshold: Annotated[
        str,
        typer.Option(metavar="X", help="Above it: silence; none is off.", rich_help_panel=_GATES),
    ] = "0.6"
    logprob_threshold: Annotated[
        str,
        typer.Option(metavar="X", help="Below it: doubtful.", rich_help_panel=_GATES),
    ] = "-1.0"
    compression_ratio_threshold: Annotated[
        str,
        typer.Option(metavar="X", help="Above it: repetition.", rich_help_panel=_GATES),
    ] = "2.4"

    def gates(self) -> Gates:
        """The gates.

        Raises:
            OptionError: no numbers.
        """
        return Gates(
            no_speech=_number("--no-speech-threshold", self.no_speech_threshold),
            logprob=_number("--logprob-threshold", self.logprob_threshold),
            compression_ratio=_number(
                "--compression-ratio-threshold", self.compression_ratio_threshold
            ),
        )


def _number(option: str, text: str) -> float | None:
    """A threshold, or `None` where it is off; `None` is how OpenAI Whisper's command spells it."""
    if text.strip().casefold() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{option} is {text!r}, expected a number, or none (off)") from None
