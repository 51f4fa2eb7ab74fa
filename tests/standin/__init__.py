"""Stand-ins for programs that cannot be installed here; tests put them on the path."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def with_compiler(env: dict[str, str] | None = None, **wishes: str) -> dict[str, str]:
    """An environment in which the stand-in for the Hailo compiler is installed.

    Args:
        env: what it starts from; `None` is this process's.
        wishes: `version`, `fail` (`stage:how`) of the stand-in.
    """
    named = {f"STANDIN_{name.upper()}": value for name, value in wishes.items()}
    return {**(dict(os.environ) if env is None else env), "PYTHONPATH": str(FOLDER), **named}
