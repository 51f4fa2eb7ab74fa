"""What is asked of a calibration set, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.core.flags import expect, expect_choices, flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.spec import PARTS


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """What kind of set is wanted.

    Attributes:
        part: `encoder` or `decoder`.
        count: windows; `None` takes what the size's recipe works with.
        seed: of the sampling.
        language: what is spoken, for decoders.
    """

    part: str = flag("encoder", "Of the model", choices=PARTS)
    count: int | None = flag(None, "Windows.", shown="as the size needs")
    seed: int = flag(0, "Seed for sampling.")
    language: str = flag("en", "What is spoken, for decoders.", short="-l", metavar="LANG")

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        expect_choices(self)
        expect(self, "count", self.count is None or self.count >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """A finished set.

    Attributes:
        path: the `.npy` or `.npz`.
        manifest: path of its manifest.
        n_windows: rows in it.
        n_wanted: rows that were asked for.
        n_files: recordings used.
        n_speakers: speakers that the folder's layout tells apart.
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
