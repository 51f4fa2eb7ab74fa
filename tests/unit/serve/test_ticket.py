"""Tickets of submitted recordings."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    LONG,
    OPTIONS,
    MicroService,
    caller,
)
from tests.patience import wait_for
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.serve.errors import ClientDisconnectedError, DeadlineExceededError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.request import Choices
from whisper_hailo.serve.service import TranscriptionService

pytestmark = pytest.mark.slow


def test_ticket_segments_come_before_the_transcript(
    micro: MicroService, transcriber: Transcriber
) -> None:
    audio = load_audio(LONG[0])

    async def ask() -> list[str]:
        with micro.service.submit(audio, Choices(), caller()) as ticket:
            texts = []
            async for segment in ticket.segments():
                with pytest.raises(RuntimeError):
                    _ = ticket.transcript
                texts.append(segment.text)
            assert [segment.text for segment in ticket.transcript.segments] == texts
            return texts

    texts = asyncio.run(ask())
    alone = transcriber.transcribe(audio, OPTIONS)
    assert texts == [segment.text for segment in alone.segments]
    assert len(texts) > 1


def test_ticket_closed_frees_place_and_stops_decoding() -> None:
    endless = np.tile(load_audio(DEMO), 200)

    async def ask(micro: MicroService) -> None:
        with micro.service.submit(endless, Choices(), caller()) as ticket:
            async for _ in ticket.segments():
                (job,) = micro.model.queue.unfinished
                break
        assert micro.model.queue.n_unfinished == 0
        assert await micro.text(load_audio(DEMO)) == DEMO_TEXT
        # Its model's thread learns of it at its next step, at the latest.
        assert wait_for(lambda: job.recording.failure is not None)
        assert isinstance(job.recording.failure, ClientDisconnectedError)
        assert job.recording.share.n_windows < 100

    with MicroService(limits=LimitOptions(queue=1)) as micro:
        asyncio.run(ask(micro))


def test_ticket_past_deadline_raises(micro: MicroService) -> None:
    endless = np.tile(load_audio(DEMO), 200)

    async def ask() -> None:
        limits = LimitOptions(deadline_s=0.2)
        late = TranscriptionService(micro.service.models, micro.metrics, limits)
        with late.submit(endless, Choices(), caller()) as ticket:
            await ticket.result()

    with pytest.raises(DeadlineExceededError, match=r"0\.2 s"):
        asyncio.run(ask())
    assert micro.model.queue.n_unfinished == 0
