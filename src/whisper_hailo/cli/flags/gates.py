"""Options of what is not believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.decoding.option_groups import Gates

_GATES = "Gates"


@dataclass(frozen=True, slots=True)
class GateFlags:
    """When a window's text is not believed."""

    no_speech_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Above it: silence.", rich_help_panel=_GATES),
    ] = 0.6
    logprob_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Below it: doubtful.", rich_help_panel=_GATES),
    ] = -1.0
    compression_ratio_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Above it: repetition.", rich_help_panel=_GATES),
    ] = 2.4

    def gates(self) -> Gates:
        """The gates.

        Raises:
            OptionError: no numbers.
        """
        return Gates(
            no_speech=self.no_speech_threshold,
            logprob=self.logprob_threshold,
            compression_ratio=self.compression_ratio_threshold,
        )
