"""Models of a server: loaded, released, recovered."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    MicroService,
)
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.serve.served_model import ModelState

pytestmark = pytest.mark.slow


def _fail() -> Any:
    raise DeviceError("no chip; plug one in")


def test_model_released_when_idle_is_loaded_again() -> None:
    with MicroService(release_after_s=0.01) as micro:
        for _ in range(2):
            while micro.model.state is not ModelState.RELEASED:
                time.sleep(0.01)
            assert asyncio.run(micro.text(load_audio(DEMO))) == DEMO_TEXT


def test_model_broken_schedule_fails_jobs_then_recovers() -> None:
    class BrokenError(Exception):
        pass

    micro = MicroService()
    broken = []
    next_job = micro.model.queue.next

    def fall(**named: bool) -> Any:
        job = next_job(**named)
        if job is not None and not broken:
            broken.append(job)
            raise BrokenError
        return job

    micro.model.queue.next = fall  # type: ignore[method-assign]

    async def ask() -> None:
        with pytest.raises(BrokenError):
            await micro.text(load_audio(DEMO))
        assert await micro.text(load_audio(DEMO)) == DEMO_TEXT

    with micro:
        asyncio.run(ask())


def test_model_that_cannot_be_loaded_raises_at_open() -> None:
    micro = MicroService()
    transcriber = micro.model.transcriber
    transcriber.open = _fail  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="no chip"):
        micro.open()
