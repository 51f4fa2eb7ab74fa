"""What is asked of a calibration set, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.core.errors import OptionError


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """What kind of set is wanted.

    Attributes:
        part: `encoder` or `decoder`.
        count: windows; `None` takes what the size's recipe works with.
        seed: of the sampling.
        language: what is spoken, for decoders.

    Raises:
        OptionError: no such part, or no windows.
    """

    part: str = "encoder"
    count: int | None = None
    seed: int = 0
    language: str = "en"

    def __post_init__(self) -> None:
        if self.part not in ("encoder", "decoder"):
            raise OptionError(f"--part is {self.part!r}, expected encoder or decoder")
        if self.count is not None and self.count < 1:
            raise OptionError(f"--count is {self.count}, expected 1 or more")


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
