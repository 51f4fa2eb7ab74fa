"""What a calibration set was made of, and how far an interrupted one came."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import replace_file
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

MANIFEST_VERSION = 1


@dataclass(slots=True)
class Manifest:
    """The state of one set.

    Attributes:
        settings: everything that decides what the rows are; another run continues this one only
            where all of it is the same.
        used: `{"file", "sha256", "windows"}` in the order of the rows.
        skipped: file to why it was not used.
        n_rows: rows written.
        turn: which turn through the files comes next, and `position` which file of it.
        complete: whether the set is finished; `files` then holds names, sizes and hashes.
    """

    settings: dict[str, Any]
    used: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    n_rows: int = 0
    turn: int = 0
    position: int = 0
    complete: bool = False
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, settings: dict[str, Any]) -> Manifest | None:
        """Read the manifest of a set with these settings; `None` where there is none."""
        try:
            raw = read_json_object(path)
            if raw.get("version") != MANIFEST_VERSION or raw.get("settings") != settings:
                return None
            return decode(cls, raw)
        except (ModelError, MismatchError):
            return None

    def save(self, path: Path) -> None:
        """Write it whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        text = json.dumps({"version": MANIFEST_VERSION, **asdict(self)}, indent=1) + "\n"
        replace_file(path, text.encode())
