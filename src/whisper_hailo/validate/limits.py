"""How far each rung may be from the reference, and why so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.validate.difference import Difference

FLOAT, QUANTIZED, HAILO, EMULATED, HEF = "float32", "quantised", "hailo-form", "emulated", "hef"
AGAINST = "against"
RUNGS: Final = (FLOAT, QUANTIZED, HAILO, EMULATED, HEF, AGAINST)
PARTS: Final = ("encoder", "decoder")


@dataclass(frozen=True, slots=True)
class Limit:
    """What a difference may be at most: `relative` at most, or `snr_db` at least, the value."""

    measure: str
    value: float

    def holds(self, found: Difference) -> bool:
        """Whether a difference is within it."""
        if self.measure == "snr_db":
            return found.snr_db >= self.value
        return found.relative <= self.value

    @property
    def text(self) -> str:
        """As a table shows it."""
        if self.measure == "snr_db":
            return f"SNR >= {self.value:g} dB"
        return f"relative <= {self.value:g}"


EXACT: Final = Limit("relative", 1e-4)
"""Float32 graphs that compute the same in another order: SPEC's tolerance for the Hailo forms."""

BLOCKS: Final = {"int8": Limit("snr_db", 25.0), "int4": Limit("snr_db", 10.0)}
"""Weight-only blocks. Random weights, the harsh case, come to 34 and 13 dB (docs/conversion.md)."""

CHIP: Final = {"encoder": Limit("snr_db", 15.0), "decoder": Limit("snr_db", 15.0)}
"""The vendor ships its encoder under the name 15dB; the study's own build came to 9.2 dB."""


def default_limit(rung: str, part: str, quantization: str) -> Limit:
    """The limit of one part at one rung; `quantization` is that of its weights."""
    if rung in (EMULATED, HEF):
        return CHIP[part]
    return BLOCKS.get(quantization, EXACT) if rung == QUANTIZED else EXACT


def parse_limits(words: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Read `RUNG-PART=VALUE` words, such as `emulated-encoder=12`.

    Raises:
        OptionError: no such rung or part, or no number.
    """
    known = {f"{rung}-{part}": (rung, part) for rung in RUNGS for part in PARTS}
    limits = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if name not in known or not value > 0:
            raise OptionError(
                f"--limit is {word!r}, expected RUNG-PART=NUMBER with one of: {', '.join(known)}"
            )
        limits[known[name]] = value
    return limits
