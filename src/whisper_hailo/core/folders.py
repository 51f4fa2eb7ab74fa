"""What lies below a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def files_below(folder: Path, unreadable: Callable[[Path, str], None]) -> list[Path]:
    """All that is no folder, at any depth, in order of the names.

    Args:
        folder: where to look; links to other folders are not followed.
        unreadable: told a folder that cannot be looked into, and why.
    """

    def note(error: OSError) -> None:
        unreadable(Path(error.filename), error.strerror or str(error))

    found = os.walk(folder, onerror=note)
    return sorted(Path(place, name) for place, _, names in found for name in names)
