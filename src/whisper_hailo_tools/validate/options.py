"""What `validate` runs: on what input, within which tolerances."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect, flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.spec import PARTS
from whisper_hailo_tools.validate.difference import Difference

FLOAT, QUANTIZED, HAILO, EMULATED, HEF = "float32", "quantised", "hailo-form", "emulated", "hef"
RUNGS: Final = (FLOAT, QUANTIZED, HAILO, EMULATED, HEF)


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
"""Weight-only blocks. Random weights, the harsh case, come to 34 and 13 dB."""

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


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """What to validate with.

    Attributes:
        audio: folder of recordings; `None` is the bundled one.
        checkpoint: directory, hub id or name of what the model was converted from; `None` finds
            only the bundled one by itself.
        windows: windows of audio to run.
        language: what is spoken.
        limits: `RUNG-PART=VALUE` words that replace limits.
    """

    audio: Path | None = flag(
        None, "Folder of speech.", metavar="DIR", shown="the bundled recording"
    )
    checkpoint: str | None = flag(None, "What the model was converted from.", metavar="NAME")
    windows: int = flag(4, "Windows of audio to run.")
    language: str = flag("en", "What is spoken.", short="-l", metavar="LANG")
    limits: tuple[str, ...] = flag(
        (), "Another limit; may be repeated.", name="--limit", metavar="RUNG-PART=X"
    )
    values: dict[tuple[str, str], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        expect(self, "windows", self.windows >= 1, "1 or more")
        self.values.update(parse_limits(self.limits))

    def limit(self, rung: str, part: str, quantization: str = "none") -> Limit:
        """What one part is held to at one rung."""
        default = default_limit(rung, part, quantization)
        value = self.values.get((rung, part))
        return default if value is None else replace(default, value=value)
