"""Live audio through the queue: the same text as without it, before all other work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.micro_service import DEMO, OPTIONS, MicroService, caller
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import SearchOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.recognizer import TOKENS_PER_SECOND
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError
from whisper_hailo.serve.request import Choices
from whisper_hailo.transcription.partials import PartialBuffer

pytestmark = pytest.mark.slow

LIMITS = replace(OPTIONS.limits, max_per_second=TOKENS_PER_SECOND)
CAPTIONS = replace(OPTIONS, search=SearchOptions(), limits=LIMITS)


def test_recognizer_partials_equal_the_transcriber_s(
    micro: MicroService, transcriber: Transcriber
) -> None:
    captions = micro.service.make_recognizer(Choices(), caller())
    audio = load_audio(DEMO)
    assert captions.content_s == transcriber.content_s
    draft = Draft()
    for seconds in (2, 4, 6):
        buffer = audio[: seconds * 16_000]
        heard = captions.transcribe(PartialBuffer(buffer, draft, True, 0.5), "en")
        options = replace(CAPTIONS, language="en")
        alone = transcriber.transcribe_running(
            PartialBuffer(buffer, draft, word_timestamps=True, hold_back_s=0.5), options
        )
        assert heard.words == alone.words
        assert heard.passes == alone.passes
        assert heard.language == "en"
        draft = Draft(heard.tokens)
    assert heard.text.strip()
    assert micro.model.queue.n_unfinished == 0


def test_recognizer_waits_for_at_most_three_windows() -> None:
    long = np.tile(load_audio(DEMO), 20)
    with MicroService(batch_size=8) as micro, micro.model.queue.count_live_stream():

        def ask(number: int) -> Any:
            client = caller(f"archive {number}")
            return micro.model.submit(long, Choices(), client, lambda _event: None)

        archive = [ask(number) for number in range(4)]
        captions = micro.service.make_recognizer(Choices(language="en"), caller("live"))
        for _ in range(3):
            before = sum(job.recording.share.n_windows for job in archive)
            captions.transcribe(PartialBuffer(load_audio(DEMO)[:48_000], Draft()))
            # One was being decoded, one lay encoded, and one was drawn when the look was over.
            assert sum(job.recording.share.n_windows for job in archive) - before <= 3
        assert not any(job.recording.done for job in archive)


def test_make_recognizer_unknown_language_raises(micro: MicroService) -> None:
    with pytest.raises(OptionError, match="xx"):
        micro.service.make_recognizer(Choices(language="xx"), caller())


def test_recognizer_under_way_survives_stop() -> None:
    audio = load_audio(DEMO)[:48_000]
    with MicroService() as ending:
        captions = ending.service.make_recognizer(Choices(), caller())
        with ending.model.queue.count_live_stream():
            ending.service.stop()
            with (
                pytest.raises(BusyError),
                ending.service.quota.hold_live_stream("another"),
            ):
                pass
            assert captions.transcribe(PartialBuffer(audio, Draft())).text
            assert not ending.model.queue.wait_until_empty(0)
        with pytest.raises(BusyError):
            captions.transcribe(PartialBuffer(audio, Draft()))
        assert ending.model.queue.wait_until_empty(0)


def test_recognizer_cancelled_raises(micro: MicroService) -> None:
    captions = micro.service.make_recognizer(Choices(), caller())
    captions.cancel()
    with pytest.raises(ClientDisconnectedError):
        captions.transcribe(PartialBuffer(load_audio(DEMO)[:48_000], Draft()))
    assert not micro.model.queue.unfinished
