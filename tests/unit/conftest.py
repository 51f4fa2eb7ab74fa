"""What every unit test leaves as it found it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Neither the machine's speed nor chance decides whether a property holds.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """What a test writes need not outlive a power cut: thousands of waits of some milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command writes its log to a stream that ends with its test, at a level of its own."""
    names = (None, "whisper_hailo", "whisper_hailo_lab")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, [*logger.handlers]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        for handler in [*logger.handlers]:
            # Exactly this type: pytest's own, which come and go with the phases, are of others.
            if type(handler) is logging.StreamHandler and handler not in handlers:
                logger.removeHandler(handler)
