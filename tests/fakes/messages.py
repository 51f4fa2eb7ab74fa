"""Data that a message must have: options, values, names and commands, not its words."""

from __future__ import annotations

import re
import shlex


def missing_data(message: str, data: str) -> list[str]:
    """Return the data, separated as by a shell, that a message does not have as whole words."""
    return [
        datum
        for datum in shlex.split(data)
        if not re.search(rf"(?<![\w-]){re.escape(datum)}(?!\w)", message)
    ]
