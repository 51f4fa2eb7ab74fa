"""Options of the temperatures that a window is tried with, as OpenAI Whisper's command has them."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, number_or_none
from whisper_hailo.decoding.option_groups import HOTTEST, SEARCH, rising_temperatures

_LEAST_STEP = 0.01


def _step(text: str) -> float:
    return number_or_none(text) or 0.0


@dataclass(frozen=True, slots=True)
class Fallback:
    """The first temperature, and by how much each try is hotter."""

    temperature: float = flag(0.0, "Sampling temperature; 0 is greedy or beam search.", SEARCH)
    fallback: float | None = flag(
        None,
        "Retry doubtful text at temperatures raised by this, up to 1; 0 is off.",
        SEARCH,
        also=("--temperature-increment-on-fallback",),
        metavar="STEP",
        shown="0.4; 0 for decoders without a cache or with a loop of their own",
        parse=_step,
    )

    def temperatures(self, step: float) -> tuple[float, ...]:
        """Return the temperatures in the order in which they are tried.

        Args:
            step: the decoder's default; 0 is off.

        Raises:
            OptionError: no such step.
        """
        step = step if self.fallback is None else self.fallback
        if step != 0 and not _LEAST_STEP <= step <= HOTTEST:
            raise OptionError(
                f"--fallback is {step:g}, expected 0 (off) or a step of {_LEAST_STEP:g} to 1"
            )
        return rising_temperatures(self.temperature, step)
