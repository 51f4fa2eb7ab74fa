"""What the Hailo compiler is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect, expect_choices, flag, needed
from whisper_hailo.core.spec import ARCHES, PARTS

MAX_LEVEL: Final = 4


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What is compiled, and how.

    Attributes:
        arch: `hailo8`, `hailo8l` or `hailo10h`.
        part: `encoder` or `decoder`.
        calibration: the set, from `whisper-hailo calibrate`.
        script: a model script of one's own; `None` generates one.
        optimization_level: 0 to 4; `None` takes the recipe's 2.
        out: folder of the results; `None` is `hailo/<arch>` in the model directory.
        python: interpreter that has the compiler; `None` is this one.

    Raises:
        OptionError: no such chip, part or level.
    """

    arch: str = needed("Chip", choices=ARCHES)
    part: str = needed("Of the model", choices=PARTS)
    calibration: Path = needed("From whisper-hailo calibrate.", metavar="FILE")
    script: Path | None = flag(None, "Model script to use instead of ours.", metavar="FILE")
    optimization_level: int | None = flag(None, "0 (minutes) to 4.", shown="2")
    out: Path | None = flag(
        None, "Folder of the results.", metavar="DIR", shown="MODEL_DIR/hailo/ARCH"
    )
    python: str | None = flag(None, "Interpreter that has the compiler.", metavar="PYTHON")

    def __post_init__(self) -> None:
        expect_choices(self)
        level = self.optimization_level
        fits = level is None or 0 <= level <= MAX_LEVEL
        expect(self, "optimization_level", fits, f"0 to {MAX_LEVEL}")
        if level is not None and self.script is not None:
            raise OptionError("--optimization-level belongs to generated scripts; edit --script")
