"""The engine: many clients, one model, the text of each as if it were alone."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.serve.house import DEMO, DEMO_TEXT, GERMAN, LONG, OPTIONS, PHRASES, House, caller
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


def test_clients_are_decoded_together_and_each_is_told_its_own(
    house: House, transcriber: Transcriber
) -> None:
    clips = [load_audio(path) for path in (DEMO, *GERMAN[:3], *PHRASES[:2], LONG[0])]
    prompts = ["Waffles.", None, "Guten Tag.", None, "Please.", None, None]

    async def ask() -> list[str]:
        asked = (
            house.text(clip, client=f"client {number}", prompt=prompt)
            for number, (clip, prompt) in enumerate(zip(clips, prompts, strict=True))
        )
        return await asyncio.gather(*asked)

    texts = asyncio.run(ask())
    assert texts[0] == DEMO_TEXT
    for text, clip, prompt in zip(texts, clips, prompts, strict=True):
        options = replace(OPTIONS, prompts=PromptOptions(initial_prompt=prompt))
        assert text == transcriber.transcribe(clip, options).text


def test_segments_come_before_the_end(house: House, transcriber: Transcriber) -> None:
    audio = load_audio(LONG[0])

    async def ask() -> list[str]:
        with house.service.submit(audio, Choices(), caller()) as ticket:
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


def test_who_leaves_frees_the_place_and_stops_the_work() -> None:
    endless = np.tile(load_audio(DEMO), 200)

    async def ask(house: House) -> None:
        with house.service.submit(endless, Choices(), caller()) as ticket:
            async for _ in ticket.segments():
                (job,) = house.model.queue.unfinished
                break
        assert house.model.queue.n_unfinished == 0
        assert await house.text(load_audio(DEMO)) == DEMO_TEXT
        assert isinstance(job.recording.failure, ClientDisconnectedError)
        assert job.recording.share.n_windows < 100

    with House(limits=LimitOptions(queue=1)) as house:
        asyncio.run(ask(house))


def test_a_request_that_is_late_is_given_up(house: House) -> None:
    endless = np.tile(load_audio(DEMO), 200)

    async def ask() -> None:
        limits = LimitOptions(deadline_s=0.2)
        late = TranscriptionService(house.service.models, house.metrics, limits)
        with late.submit(endless, Choices(), caller()) as ticket:
            await ticket.result()

    with pytest.raises(DeadlineExceededError, match=r"0\.2 s deadline"):
        asyncio.run(ask())
    assert house.model.queue.n_unfinished == 0


def test_unsupported_options_are_refused_before_they_wait(house: House) -> None:
    with pytest.raises(OptionError, match="xx"):
        asyncio.run(house.text(load_audio(DEMO), language="xx"))
    assert house.model.queue.n_unfinished == 0


def test_a_model_that_rests_is_there_again_for_the_next() -> None:
    with House(release_after_s=0.01) as house:
        for _ in range(2):
            while house.model.state is not ModelState.RELEASED:
                time.sleep(0.01)
            assert asyncio.run(house.text(load_audio(DEMO))) == DEMO_TEXT


def test_what_breaks_the_schedule_is_told_and_the_next_is_served() -> None:
    class BrokenError(Exception):
        pass

    house, broken = House(), []
    next_job = house.model.queue.next

    def fall(**named: bool) -> Any:
        job = next_job(**named)
        if job is not None and not broken:
            broken.append(job)
            raise BrokenError
        return job

    house.model.queue.next = fall  # type: ignore[method-assign]

    async def ask() -> None:
        with pytest.raises(BrokenError):
            await house.text(load_audio(DEMO))
        assert await house.text(load_audio(DEMO)) == DEMO_TEXT

    with house:
        asyncio.run(ask())


def test_a_model_that_cannot_be_loaded_is_told_at_once() -> None:
    house = House()
    transcriber = house.model.transcriber
    transcriber.open = _fail  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="no chip"):
        house.open()


def _fail() -> Any:
    raise DeviceError("no chip; plug one in")


def test_the_temperature_of_a_chip_is_told_while_it_is_open() -> None:
    house = House()
    assert b"chip_celsius" not in house.metrics.render_page()
    transcriber = house.model.transcriber
    encoder = transcriber.encoder
    assert encoder is not None
    type(encoder).temperature_c = property(lambda _self: 41.5)  # type: ignore[attr-defined]
    try:
        metrics = Metrics()
        worker = ServedModel(transcriber, RequestDefaults(OPTIONS), metrics, ModelMemory())
        assert b"chip_celsius NaN" in metrics.render_page()
        with worker:
            assert b"chip_celsius 41.5" in metrics.render_page()
    finally:
        del type(encoder).temperature_c  # type: ignore[attr-defined]


def test_clients_have_equal_shares() -> None:
    shares: list[tuple[int, int]] = []
    done = threading.Event()

    def tell(event: object) -> None:  # on the engine's thread, so that nothing goes on meanwhile
        if isinstance(event, Transcript):
            shares.append((greedy[0].recording.share.n_windows, modest.recording.share.n_windows))
            done.set()

    with House(batch_size=1) as house:

        def ask(client: str, told: Any) -> Job:
            return house.model.submit(load_audio(DEMO), Choices(), caller(client), told)

        greedy = [ask("greedy", lambda _event: None) for _ in range(16)]
        modest = ask("modest", tell)
        assert done.wait(900)
    ((had, own),) = shares
    # It began where the other was, and they took turns from there; one window was drawn before the
    # schedule knew of it, and one is encoded ahead.
    assert own >= 2
    assert had <= own + 2


def test_short_command_is_short_window_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes: list[tuple[int, ...]] = []
    encode = OnnxEncoder.encode

    def noted(encoder: OnnxEncoder, mel: FloatArray) -> FloatArray:
        shapes.append(mel.shape)
        return encode(encoder, mel)

    with House(long=LongOptions(trim_window=True)) as house:
        monkeypatch.setattr(OnnxEncoder, "encode", noted)
        asyncio.run(house.text(load_audio(DEMO)[: 3 * SAMPLE_RATE_HZ]))
    assert shapes == [(1, 80, 500)]
