"""The sound of `/v1/realtime`: samples cut anywhere, and the laws of telephones."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
import soxr

from tests.unit.serve.house import DEMO, DEMO_TEXT
from tests.unit.serve.realtime_client import BUFFER, TRANSCRIPTION, pcm, talk
from tests.unit.serve.running import Running
from whisper_hailo.audio import load_audio
from whisper_hailo.serve.routes.realtime.protocol import PCM, PCMA, PCMU, Sound

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "subtype"), [(PCMU, "ULAW"), (PCMA, "ALAW")])
def test_the_laws_of_telephones_are_those_of_libsndfile(kind: str, subtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8).tobytes()
    file = io.BytesIO()
    soundfile.write(file, np.zeros(256), 8_000, subtype=subtype, format="WAV")
    raw = file.getvalue()[:-256] + codes
    expected, _ = soundfile.read(io.BytesIO(raw), dtype="float32")
    sound = Sound(kind)
    assert sound._table is not None
    assert np.array_equal(sound._table, expected)
    assert sound.seconds(8_000) == 1.0


def test_pieces_may_be_cut_anywhere() -> None:
    raw = pcm(load_audio(DEMO)[:16_000])
    whole, torn = Sound(PCM), Sound(PCM)
    expected = np.concatenate([whole.push(raw), whole.finish()])
    pieces = [torn.push(raw[at : at + 777]) for at in range(0, len(raw), 777)]
    assert np.allclose(np.concatenate([*pieces, torn.finish()]), expected, atol=1e-6)
    assert expected.size == pytest.approx(16_000, abs=1)


def test_a_telephone_is_understood(web: Running) -> None:
    audio = soxr.resample(load_audio(DEMO), 16_000, 8_000)
    file = io.BytesIO()
    soundfile.write(file, audio, 8_000, subtype="ULAW", format="RAW")
    with talk(web) as said:
        form = said.update(format={"type": PCMU})["session"]["audio"]["input"]["format"]
        assert form["type"] == PCMU
        said.append(file.getvalue())
        said.say(BUFFER + "commit")
        text = said.until(TRANSCRIPTION + "completed")["transcript"]
    heard, expected = set(text.lower().split()), set(DEMO_TEXT.lower().split())
    assert len(heard & expected) >= len(expected) // 2
