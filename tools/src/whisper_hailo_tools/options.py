"""Options of calibration sets, emulations, builds and validations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag, require_choices, require_valid, required_flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.spec import ARCHES, PARTS

SCRIPT: Final = "script"
"""The plan of the model script that is generated for the compiler."""

PLANS: Final = ("all8", "adds16", "norms16", SCRIPT)
"""Bits of an emulation's layers: all at 8, residual adds at 16, layer norms too."""

MIN_CHIP_SNR_DB: Final = 6.0
"""Least signal-to-noise ratio of an encoder on the chip that keeps its words. The study's own build
had 9.2 dB and kept them; base with its norms reading 8 bits has 3 dB, and loses three of four."""

MAX_LEVEL: Final = 4


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """Options of a calibration set."""

    part: str = flag("encoder", "Of the model", choices=PARTS)
    count: int | None = flag(None, "Windows.", shown="as the size needs")
    seed: int = flag(0, "Seed for sampling.")
    language: str = flag(
        "en", "Spoken language, for decoders.", short="-l", metavar="LANG"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        require_choices(self)
        require_valid(self, "count", self.count is None or self.count >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """A finished set.

    Attributes:
        skipped: recordings that could not be used, with the reasons.
        resumed: it continues an interrupted run, or is a finished one.
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
    """Options of an emulation."""

    part: str = flag("encoder", "Of the model", choices=PARTS)
    plan: str = flag(
        SCRIPT, "Bits of its layers; script: the same as compile", choices=PLANS
    )
    script: Path | None = flag(None, "Model script to follow instead.", metavar="FILE")
    arch: str = flag("hailo8l", "Chip that the script is for", choices=ARCHES)
    calibration: Path | None = flag(
        None, "Set made by whisper-hailo calibrate, instead of --audio.", metavar="FILE"
    )
    audio: Path | None = flag(None, "Folder of recordings of speech.", metavar="DIR")
    count: int = flag(64, "Windows from which scales are chosen.")
    language: str = flag(
        "en", "Spoken language, for decoders.", short="-l", metavar="LANG"
    )
    threads: int = flag(0, "0 lets the runtime choose.", short="-t")

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        require_choices(self)
        if self.script is not None and self.plan != SCRIPT:
            raise OptionError(
                f"--plan {self.plan} and --script exclude each other; give one"
            )
        require_valid(self, "count", self.count >= 1, "1 or more")
        if (self.calibration is None) == (self.audio is None):
            raise OptionError(
                "no speech given to choose scales from; give --audio DIR, or --calibration FILE "
                "made by whisper-hailo calibrate"
            )


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of a compilation."""

    arch: str = required_flag("Chip", choices=ARCHES)
    part: str = required_flag("Of the model", choices=PARTS)
    calibration: Path = required_flag("From whisper-hailo calibrate.", metavar="FILE")
    script: Path | None = flag(
        None, "Model script to use instead of ours.", metavar="FILE"
    )
    optimization_level: int | None = flag(None, "0 (minutes) to 4.", shown="2")
    out: Path | None = flag(
        None, "Folder for the results.", metavar="DIR", shown="MODEL_DIR/hailo/ARCH"
    )
    python: str | None = flag(
        None, "Python interpreter that has the compiler.", metavar="PYTHON"
    )
    force: bool = flag(False, "Compile even if emulation predicts lost words.")

    def __post_init__(self) -> None:
        require_choices(self)
        level = self.optimization_level
        fits = level is None or 0 <= level <= MAX_LEVEL
        require_valid(self, "optimization_level", fits, f"0 to {MAX_LEVEL}")
        if level is not None and self.script is not None:
            raise OptionError(
                "--optimization-level belongs to generated scripts; edit --script"
            )


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """Options of a validation."""

    audio: Path | None = flag(
        None,
        "Folder of speech.",
        metavar="DIR",
        shown="two bundled recordings of people",
    )
    checkpoint: str | None = flag(
        None, "Checkpoint the model was converted from.", metavar="NAME"
    )
    windows: int = flag(4, "Windows of audio to run.")
    language: str = flag("en", "What is spoken.", short="-l", metavar="LANG")

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        require_valid(self, "windows", self.windows >= 1, "1 or more")
