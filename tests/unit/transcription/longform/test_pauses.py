"""Pauses by loudness alone, and windows that end in them."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.transcription.longform.clips import WHOLE
from whisper_hailo.transcription.longform.feed import AudioFeed
from whisper_hailo.transcription.longform.overlap import OverlapPlan
from whisper_hailo.transcription.longform.pauses import find_pause

PLAN = WindowPlan(10.0, 1.0)
FROM = 6 * SAMPLE_RATE_HZ


def talk(*pauses_s: tuple[float, float], seconds: float = 9.0, floor: float = 0.001) -> FloatArray:
    """Noise as loud as speech but for the pauses, and for as much silence as any speech has."""
    samples = 0.1 * np.random.default_rng(1).standard_normal(round(seconds * SAMPLE_RATE_HZ))
    for start_s, end_s in ((1.0, 2.2), *pauses_s):
        samples[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)] *= floor / 0.1
    return samples.astype(np.float32)


def seconds(position: int | None) -> float:
    assert position is not None
    return position / SAMPLE_RATE_HZ


def test_the_longest_pause_of_the_last_part_is_taken_in_its_middle() -> None:
    audio = talk((3.0, 5.0), (6.5, 6.8), (7.5, 8.1))
    assert seconds(find_pause(audio, FROM)) == pytest.approx(7.8, abs=0.02)


def test_in_noise_as_in_silence() -> None:
    for floor in (0.0, 0.001, 0.03):
        assert seconds(find_pause(talk((7.0, 7.5), floor=floor), FROM)) == pytest.approx(
            7.25, abs=0.03
        )


@pytest.mark.parametrize(
    "audio",
    [
        talk((3.0, 5.0)),
        talk((7.0, 7.12)),
        np.zeros(9 * SAMPLE_RATE_HZ, np.float32),
        talk(floor=0.1),
        talk()[:100],
    ],
    ids=["too early", "a closure", "silence", "steady noise", "a blink"],
)
def test_no_pause(audio: FloatArray) -> None:
    assert find_pause(audio, min(FROM, audio.size)) is None


def test_windows_meet_in_a_pause_and_overlap_elsewhere() -> None:
    audio = talk((7.0, 7.6), (26.0, 26.1), seconds=30.0)
    feed = AudioFeed(iter(np.array_split(audio, 30)))
    windows = list(OverlapPlan(feed, WHOLE, PLAN, 2.0, keep_words=False).windows())
    first, second, third = windows[:3]
    assert first.end_s == pytest.approx(7.3, abs=0.02)
    assert second.start_s == pytest.approx(first.end_s)
    assert (first.needs_words, second.needs_words) == (False, True)
    assert third.start_s == pytest.approx(second.end_s - 2.0)
    assert windows[-1].end_s == pytest.approx(30.0)
    side_by_side = AudioFeed(iter(np.array_split(audio, 30)))
    plain = list(OverlapPlan(side_by_side, WHOLE, PLAN, 0.0, keep_words=False).windows())
    assert [window.start_s for window in plain] == [0.0, 9.0, 18.0, 27.0]
