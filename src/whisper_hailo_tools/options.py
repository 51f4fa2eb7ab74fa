"""What is asked of calibration sets, emulations, builds and validations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_choices, require_valid, required_flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.spec import ARCHES, PARTS
from whisper_hailo_tools.difference import Difference

SCRIPT: Final = "script"
"""The plan that the model script generated for the compiler describes."""

PLANS: Final = ("all8", "adds16", "norms16", SCRIPT)
"""Bits of an emulation's layers: all at 8, residual adds at 16, layer norms too."""

METHODS: Final = ("minmax", "percentile", "mse")
"""How an emulation's scales are chosen."""

MAX_LEVEL: Final = 4


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """What kind of set is wanted."""

    part: str = flag("encoder", "Of the model", choices=PARTS)
    count: int | None = flag(None, "Windows.", shown="as the size needs")
    seed: int = flag(0, "Seed for sampling.")
    language: str = flag("en", "What is spoken, for decoders.", short="-l", metavar="LANG")

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        require_choices(self)
        require_valid(self, "count", self.count is None or self.count >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """A finished set.

    Attributes:
        skipped: recordings that could not be used, and why.
        resumed: whether an interrupted or finished run was found.
    """

    path: Path
    manifest: Path
    n_windows: int
    n_wanted: int
    n_files: int
    n_speakers: int
    skipped: dict[str, str]
    resumed: bool


@dataclass(frozen=True, slots=True)
class EmulateOptions:
    """What is emulated, and how."""

    part: str = flag("encoder", "Of the model", choices=PARTS)
    plan: str = flag(SCRIPT, "Bits of its layers; script: as compile has them", choices=PLANS)
    script: Path | None = flag(None, "Model script to follow instead.", metavar="FILE")
    arch: str = flag("hailo8l", "Chip that the script is for", choices=ARCHES)
    scales: str = flag("mse", "How they are chosen", choices=METHODS)
    calibration: Path | None = flag(
        None, "Set of whisper-hailo calibrate, for --audio.", metavar="FILE"
    )
    audio: Path | None = flag(None, "Folder of recordings of speech.", metavar="DIR")
    count: int = flag(64, "Windows that scales are chosen by.")
    language: str = flag("en", "What is spoken, for decoders.", short="-l", metavar="LANG")
    threads: int = flag(0, "0 lets the runtime choose.", short="-t")

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        require_choices(self)
        if self.script is not None and self.plan != SCRIPT:
            raise OptionError(f"--plan {self.plan} and --script exclude each other; give one")
        require_valid(self, "count", self.count >= 1, "1 or more")
        if (self.calibration is None) == (self.audio is None):
            raise OptionError(
                "give the speech that scales are chosen by: either --audio DIR or --calibration "
                "FILE, from whisper-hailo calibrate"
            )


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What is compiled, and how."""

    arch: str = required_flag("Chip", choices=ARCHES)
    part: str = required_flag("Of the model", choices=PARTS)
    calibration: Path = required_flag("From whisper-hailo calibrate.", metavar="FILE")
    script: Path | None = flag(None, "Model script to use instead of ours.", metavar="FILE")
    optimization_level: int | None = flag(None, "0 (minutes) to 4.", shown="2")
    out: Path | None = flag(
        None, "Folder of the results.", metavar="DIR", shown="MODEL_DIR/hailo/ARCH"
    )
    python: str | None = flag(None, "Interpreter that has the compiler.", metavar="PYTHON")

    def __post_init__(self) -> None:
        require_choices(self)
        level = self.optimization_level
        fits = level is None or 0 <= level <= MAX_LEVEL
        require_valid(self, "optimization_level", fits, f"0 to {MAX_LEVEL}")
        if level is not None and self.script is not None:
            raise OptionError("--optimization-level belongs to generated scripts; edit --script")


FLOAT, QUANTIZED, HAILO, EMULATED, HEF = "float32", "quantised", "hailo-form", "emulated", "hef"
FORMS: Final = (FLOAT, QUANTIZED, HAILO, EMULATED, HEF)


@dataclass(frozen=True, slots=True)
class Limit:
    """What a difference may be at most: `relative` at most, or `snr_db` at least, the value."""

    measure: str
    value: float

    def holds(self, found: Difference) -> bool:
        """Return whether a difference is within it."""
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


def default_limit(kind: str, part: str, quantization: str) -> Limit:
    """Return the limit of one part in one form; `quantization` is that of its weights."""
    if kind in (EMULATED, HEF):
        return CHIP[part]
    return BLOCKS.get(quantization, EXACT) if kind == QUANTIZED else EXACT


def parse_limits(words: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Read `RUNG-PART=VALUE` words, such as `emulated-encoder=12`."""
    known = {f"{kind}-{part}": (kind, part) for kind in FORMS for part in PARTS}
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
    """What to validate with."""

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
        require_valid(self, "windows", self.windows >= 1, "1 or more")
        self.values.update(parse_limits(self.limits))

    def limit(self, kind: str, part: str, quantization: str = "none") -> Limit:
        """Return what one part is held to in one form."""
        default = default_limit(kind, part, quantization)
        value = self.values.get((kind, part))
        return default if value is None else replace(default, value=value)
