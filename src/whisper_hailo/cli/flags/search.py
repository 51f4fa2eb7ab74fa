"""Options of the search and of trying it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import Search

_SEARCH = "Search and fallback"
_TOP_TEMPERATURE = 1.0
_LEAST_STEP = 0.01


@dataclass(frozen=True, slots=True)
class SearchFlags:
    """How tokens are chosen, and when that is tried again."""

    beam_size: Annotated[
        int, typer.Option(metavar="N", help="1 is greedy.", rich_help_panel=_SEARCH)
    ] = 1
    patience: Annotated[
        float,
        typer.Option(metavar="X", help="Of the beam: ends later.", rich_help_panel=_SEARCH),
    ] = 1.0
    length_penalty: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="0 to 1. [default: mean log-probability]", rich_help_panel=_SEARCH
        ),
    ] = None
    temperature: Annotated[
        float, typer.Option(metavar="X", help="Above 0: sampling.", rich_help_panel=_SEARCH)
    ] = 0.0
    fallback: Annotated[
        float | None,
        typer.Option(
            metavar="STEP",
            help="Doubtful text is tried again, hotter by this up to 1; 0 is off. "
            "[default: 0.2; 0 for decoders without a cache or with a loop of their own]",
            rich_help_panel=_SEARCH,
        ),
    ] = None
    best_of: Annotated[
        int, typer.Option(metavar="N", help="Samples per window.", rich_help_panel=_SEARCH)
    ] = 5
    seed: Annotated[int, typer.Option(metavar="N", rich_help_panel=_SEARCH)] = 0

    def search(self, fallback: float) -> Search:
        """The search.

        Args:
            fallback: the decoder's default step; 0 is off.

        Raises:
            OptionError: values out of range.
        """
        step = fallback if self.fallback is None else self.fallback
        if step != 0 and not _LEAST_STEP <= step <= _TOP_TEMPERATURE:
            raise OptionError(
                f"--fallback is {step:g}, expected 0 (off) or a step of {_LEAST_STEP:g} to 1"
            )
        temperatures = [self.temperature]
        if step and 0.0 <= self.temperature <= _TOP_TEMPERATURE:
            steps = int((_TOP_TEMPERATURE - self.temperature) / step + 1e-6)
            temperatures += [round(self.temperature + (n + 1) * step, 3) for n in range(steps)]
        return Search(
            temperatures=tuple(temperatures),
            beam_size=self.beam_size,
            patience=self.patience,
            length_penalty=self.length_penalty,
            best_of=self.best_of,
            seed=self.seed,
        )
