"""The service: many clients, one model, the text of each as if it were alone."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

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
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Transcript
from whisper_hailo.decoding.options import PromptOptions
from whisper_hailo.serve.jobs import Job
from whisper_hailo.serve.request import Choices
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


def test_submit_unsupported_options_raise_at_once(micro: MicroService) -> None:
    with pytest.raises(OptionError, match="xx"):
        asyncio.run(micro.text(load_audio(DEMO), language="xx"))
    assert micro.model.queue.n_unfinished == 0


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

        def ask(client: str, callback: Any) -> Job:
            return micro.model.submit(
                load_audio(DEMO), Choices(), caller(client), callback
            )

        greedy = [ask("greedy", lambda _event: None) for _ in range(16)]
        modest = ask("modest", tell)
        assert done.wait(900)
    ((first_share, second_share),) = shares
    # It began where the other was, and they took turns from there; one window was drawn before the
    # schedule knew of it, and one is encoded ahead.
    assert second_share >= 2
    assert first_share <= second_share + 2


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
