"""What every unit test leaves as it found it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """A command that ran with --quiet would keep later tests from reading the log."""
    logger = logging.getLogger("whisper_hailo")
    before = logger.level
    yield
    logger.setLevel(before)
