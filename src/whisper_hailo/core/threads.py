"""How many threads an operator may have."""

from __future__ import annotations

from typing import Final

from whisper_hailo.core.errors import OptionError

MOST_THREADS: Final = 256


def checked_threads(threads: int) -> int:
    """Threads per operator.

    Raises:
        OptionError: no such number.
    """
    if not isinstance(threads, int) or not 0 <= threads <= MOST_THREADS:
        raise OptionError(f"threads is {threads!r}, expected 0 (automatic) to {MOST_THREADS}")
    return threads
