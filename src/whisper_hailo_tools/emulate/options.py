"""What is asked of an emulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect, expect_choices, flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.spec import ARCHES, PARTS
from whisper_hailo_tools.emulate.plan import PLANS, SCRIPT
from whisper_hailo_tools.emulate.scales import METHODS


@dataclass(frozen=True, slots=True)
class EmulateOptions:
    """What is emulated, and how.

    Attributes:
        part: `encoder` or `decoder`.
        plan: `all8`, `adds16`, `norms16`, or `script` for the generated model script.
        script: a model script of one's own, in the place of `plan`.
        arch: chip that the generated script is for.
        scales: `minmax`, `percentile` or `mse`.
        calibration: a set from `whisper-hailo calibrate`.
        audio: a folder of recordings to draw windows from instead.
        count: windows for the statistics.
        language: what is spoken, for decoders and `audio`.
        threads: threads per operator; 0 lets the runtime choose.

    Raises:
        OptionError: a value that is none of these, or not exactly one source of windows.
    """

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
        expect_choices(self)
        if self.script is not None and self.plan != SCRIPT:
            raise OptionError(f"--plan {self.plan} and --script exclude each other; give one")
        expect(self, "count", self.count >= 1, "1 or more")
        if (self.calibration is None) == (self.audio is None):
            raise OptionError(
                "give the speech that scales are chosen by: either --audio DIR or --calibration "
                "FILE, from whisper-hailo calibrate"
            )
