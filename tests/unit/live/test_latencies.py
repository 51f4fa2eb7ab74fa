"""How long readers wait."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.scripted_speech import (
    Loudness,
    Speller,
    quick,
    silence,
    speech,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner


def test_latency_counts_lost_audio() -> None:
    captioner = Captioner(Speller(), Loudness(), quick(), now=lambda: 109.0)
    list(captioner.feed(silence(1.024), captured_s=101.024))
    list(captioner.skip_lost(5 * SAMPLE_RATE_HZ))
    list(captioner.feed(np.concatenate([speech(range(4)), silence(0.5)])))
    (latency_s,) = captioner.statistics.final_latency_s
    end_s = 100 + 1.024 + 5 + speech(range(4)).size / SAMPLE_RATE_HZ
    assert latency_s == pytest.approx(109.0 - end_s, abs=0.1)


def test_latency_is_measured_from_capture() -> None:
    clock = {"now": 100.0}
    captioner = Captioner(Speller(), Loudness(), quick(), now=lambda: clock["now"])
    audio = np.concatenate([silence(0.5), speech(range(4)), silence(0.5)])
    for end in range(1600, audio.size + 1600, 1600):
        clock["now"] = 100.0 + end / SAMPLE_RATE_HZ + 0.05
        list(captioner.feed(audio[end - 1600 : end], captured_s=clock["now"] - 0.05))
    list(captioner.finish())
    figures = captioner.statistics.as_json()
    # 100 ms of pre-roll, 200 ms to a partial; 100 ms of silence; up to 100 ms per block.
    assert 0.2 <= figures["first_partial_latency_s_median"] <= 0.5
    assert 0.1 <= figures["final_latency_s_median"] <= 0.35
