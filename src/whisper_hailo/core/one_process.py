"""Being the only process that does something."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from whisper_hailo.core.files import unwritable


@contextmanager
def sole(path: Path, advice: str) -> Iterator[bool]:
    """Whether nobody else holds a file's lock, which this process then does until the block ends.

    The system gives it back when a process dies, however that happens.

    Args:
        path: only there to be locked; made when missing.
        advice: for the message: what to do if it cannot be made.

    Raises:
        OutputError: it cannot be made.
    """
    with unwritable(path, advice):
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield lock_descriptor(number, blocking=False)
    finally:
        os.close(number)
