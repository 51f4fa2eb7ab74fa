"""Waiting for what another thread or process does, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60.0


def wait_for(is_so: Callable[[], bool]) -> bool:
    """Whether the condition holds before patience ends."""
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True
