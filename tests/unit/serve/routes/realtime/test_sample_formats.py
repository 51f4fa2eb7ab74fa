"""Sample formats of realtime sessions."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from tests.fakes.micro_service import DEMO
from tests.fakes.speech_clients import (
    pcm,
)
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.stream import Resampler
from whisper_hailo.serve.routes.realtime.sample_formats import (
    PCM,
    PCMA,
    PCMU,
    make_sample_stream,
)


@pytest.mark.parametrize(("kind", "subtype"), [(PCMU, "ULAW"), (PCMA, "ALAW")])
def test_sample_stream_g711_equals_libsndfile(kind: str, subtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8).tobytes()
    file = io.BytesIO()
    soundfile.write(file, np.zeros(256), 8_000, subtype=subtype, format="WAV")
    raw = file.getvalue()[:-256] + codes
    expected, _ = soundfile.read(io.BytesIO(raw), dtype="float32")
    sound = make_sample_stream(kind, 8_000)
    resampler = Resampler(8_000)
    heard = np.concatenate([sound.push(codes), sound.finish()])
    reference = np.concatenate([resampler.push(expected), resampler.finish()])
    assert np.array_equal(heard, reference)
    assert sound.seconds_of(8_000) == 1.0


def test_sample_stream_cut_anywhere_gives_the_same() -> None:
    raw = pcm(load_audio(DEMO)[:16_000])
    whole = make_sample_stream(PCM, 24_000)
    torn = make_sample_stream(PCM, 24_000)
    expected = np.concatenate([whole.push(raw), whole.finish()])
    pieces = [torn.push(raw[start : start + 777]) for start in range(0, len(raw), 777)]
    assert np.allclose(np.concatenate([*pieces, torn.finish()]), expected, atol=1e-6)
    assert expected.size == pytest.approx(16_000, abs=1)


def test_sample_stream_16_khz_is_not_resampled() -> None:
    audio = load_audio(DEMO)[:16_000]
    sound = make_sample_stream(PCM, 16_000)
    received = np.concatenate([sound.push(pcm(audio, 16_000)), sound.finish()])
    assert np.allclose(received, audio, atol=2 / 32_768)
    assert sound.seconds_of(32_000) == 1.0
