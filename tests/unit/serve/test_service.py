"""The service: many clients, one model, the text of each as if it were alone."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    GERMAN,
    LONG,
    OPTIONS,
    PHRASES,
    MicroService,
    caller,
)
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.core.errors import DeviceError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Transcript
from whisper_hailo.decoding.options import PromptOptions
from whisper_hailo.serve.errors import ClientDisconnectedError, DeadlineExceededError
from whisper_hailo.serve.jobs import Job
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.request import Choices, RequestDefaults
from whisper_hailo.serve.served_model import ModelState, ServedModel
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.transcription.longform.options import LongOptions

pytestmark = pytest.mark.slow


def test_service_concurrent_clients_get_their_own_text(
    micro: MicroService, transcriber: Transcriber
) -> None:
    clips = [load_audio(path) for path in (DEMO, *GERMAN[:3], *PHRASES[:2], LONG[0])]
    prompts = ["Waffles.", None, "Guten Tag.", None, "Please.", None, None]

    async def ask() -> list[str]:
        asked = (
            micro.text(clip, client=f"client {number}", prompt=prompt)
            for number, (clip, prompt) in enumerate(zip(clips, prompts, strict=True))
        )
        return await asyncio.gather(*asked)

    texts = asyncio.run(ask())
    assert texts[0] == DEMO_TEXT
    for text, clip, prompt in zip(texts, clips, prompts, strict=True):
        options = replace(OPTIONS, prompts=PromptOptions(initial_prompt=prompt))
        assert text == transcriber.transcribe(clip, options).text


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
            assert [one.text for one in ticket.transcript.segments] == texts
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


def test_submit_unsupported_options_raise_at_once(micro: MicroService) -> None:
    with pytest.raises(OptionError, match="xx"):
        asyncio.run(micro.text(load_audio(DEMO), language="xx"))
    assert micro.model.queue.n_unfinished == 0


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


def _fail() -> Any:
    raise DeviceError("no chip; plug one in")


def test_metrics_chip_temperature_only_while_open() -> None:
    micro = MicroService()
    assert b"chip_celsius" not in micro.metrics.render_page()
    transcriber = micro.model.transcriber
    encoder = transcriber.encoder
    assert encoder is not None
    type(encoder).temperature_c = property(lambda _self: 41.5)  # type: ignore[attr-defined]
    try:
        metrics = Metrics()
        worker = ServedModel(
            transcriber, RequestDefaults(OPTIONS), metrics, ModelMemory()
        )
        assert b"chip_celsius NaN" in metrics.render_page()
        with worker:
            assert b"chip_celsius 41.5" in metrics.render_page()
    finally:
        del type(encoder).temperature_c  # type: ignore[attr-defined]


def test_service_clients_get_equal_shares() -> None:
    shares: list[tuple[int, int]] = []
    done = threading.Event()

    def tell(
        event: object,
    ) -> None:  # on the engine's thread, so that nothing goes on meanwhile
        if isinstance(event, Transcript):
            shares.append(
                (greedy[0].recording.share.n_windows, modest.recording.share.n_windows)
            )
            done.set()

    with MicroService(batch_size=1) as micro:

        def ask(client: str, told: Any) -> Job:
            return micro.model.submit(load_audio(DEMO), Choices(), caller(client), told)

        greedy = [ask("greedy", lambda _event: None) for _ in range(16)]
        modest = ask("modest", tell)
        assert done.wait(900)
    ((had, own),) = shares
    # It began where the other was, and they took turns from there; one window was drawn before the
    # schedule knew of it, and one is encoded ahead.
    assert own >= 2
    assert had <= own + 2


def test_service_trim_window_shortens_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes: list[tuple[int, ...]] = []
    encode = OnnxEncoder.encode

    def noted(encoder: OnnxEncoder, mel: FloatArray) -> FloatArray:
        shapes.append(mel.shape)
        return encode(encoder, mel)

    with MicroService(long=LongOptions(trim_window=True)) as micro:
        monkeypatch.setattr(OnnxEncoder, "encode", noted)
        asyncio.run(micro.text(load_audio(DEMO)[: 3 * SAMPLE_RATE_HZ]))
    assert shapes == [(1, 80, 500)]
