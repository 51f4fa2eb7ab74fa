"""Captions of a stream by the clock of a core without other work: what was shown, and how late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, Speller, quick, silence, speech
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText
from whisper_hailo_lab.captions import playback
from whisper_hailo_lab.captions.latency import Utterance
from whisper_hailo_lab.captions.playback import figures_of, play_stream
from whisper_hailo_lab.captions.streams import SpokenStream


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> SpokenStream:
    """Two utterances of four words each, a second apart."""
    monkeypatch.setattr(playback, "make_detector", Loudness)
    said = speech(range(4))
    audio = np.concatenate([silence(1.0), said, silence(1.0), said, silence(1.0)])
    length_s = said.size / SAMPLE_RATE_HZ
    begins_s = (1.0, 2.0 + length_s)
    return SpokenStream(
        audio,
        tuple(Utterance("w0 w1 w2 w3", at_s, at_s + length_s) for at_s in begins_s),
    )


def test_play_stream_shows_words_soon(stream: SpokenStream) -> None:
    figures = figures_of(play_stream(Speller(), stream, quick()), stream)
    assert (figures["wer"], figures["words"]) == (0.0, 8)
    assert 0.05 < figures["first_s_median"] < 0.7
    assert 0.05 < figures["final_s_median"] < 0.5
    assert figures["behind_s"] < 0.2


def test_play_stream_on_a_slower_core_falls_behind(
    stream: SpokenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = {"s": 0.0}
    monkeypatch.setattr(playback.time, "thread_time", lambda: processor["s"])

    class Busy(Speller):
        def transcribe(self, *given: Any, **named: Any) -> BufferText:
            processor["s"] += 0.05
            return super().transcribe(*given, **named)

    fast, slow = (
        figures_of(play_stream(Busy(), stream, quick(), slower), stream)
        for slower in (1.0, 10.0)
    )
    assert (fast["behind_s"], slow["behind_s"]) == pytest.approx((0.03, 0.48), abs=0.04)
    assert slow["partials"] < fast["partials"]
    assert slow["final_s_median"] == pytest.approx(
        fast["final_s_median"] + 0.45, abs=0.1
    )
    assert slow["wer"] == fast["wer"] == 0.0
