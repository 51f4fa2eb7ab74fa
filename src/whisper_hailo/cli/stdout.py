"""Results go to standard output."""

from __future__ import annotations

import json
import sys
from typing import Any


def emit(text: str) -> None:
    """Write text to standard output, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def emit_json(value: dict[str, Any], *, indent: int | None = None) -> None:
    """Write one JSON object and a line end, in ASCII, which every reader takes."""
    emit(json.dumps(value, allow_nan=False, indent=indent) + "\n")
