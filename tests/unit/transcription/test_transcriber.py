"""Segments as they come, and options that are refused before anything is read."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.unit.sounds import DATA
from whisper_hailo.audio import load_audio
from whisper_hailo.backends.state import Binding
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber

OPTIONS = DecodingOptions(anti_repetition=PRESETS["conservative"])


@pytest.fixture(scope="module")
def long() -> FloatArray:
    """Four sentences with three seconds between them."""
    pause = np.zeros(3 * SAMPLE_RATE_HZ, np.float32)
    clips = [load_audio(DATA / "micro" / "seen" / f"seen-00{index}.ogg") for index in range(4)]
    return np.concatenate([part for clip in clips for part in (clip, pause)])


@pytest.mark.parametrize("strategy", ["seek", "overlap", "consecutive"])
def test_segments_come_one_by_one_and_are_those_of_the_whole(
    micro_of_10_s: Transcriber, long: FloatArray, strategy: str
) -> None:
    micro, options = micro_of_10_s, LongOptions(strategy=strategy)
    told: list[float] = []
    at: list[float] = []
    segments = []
    for segment in micro.segments(
        long, OPTIONS, lambda done_s, _: told.append(done_s), long=options, batch_size=1
    ):
        segments.append(segment)
        at.append(told[-1])
    assert tuple(segments) == micro.transcribe(long, OPTIONS, long=options, batch_size=1).segments
    assert len(segments) >= 3
    assert at[0] < at[-1], "the first came before the last window was transcribed"


def test_whoever_stops_asking_ends_the_work(micro_of_10_s: Transcriber, long: FloatArray) -> None:
    told: list[float] = []
    options = LongOptions(strategy="consecutive")
    segments = micro_of_10_s.segments(
        long, OPTIONS, lambda done_s, _: told.append(done_s), long=options, batch_size=1
    )
    assert next(segments).text
    n_windows = len(told)
    segments.close()
    assert len(told) == n_windows < len(long) / SAMPLE_RATE_HZ / 9


def test_what_cannot_be_read_is_told_when_it_is_asked_for(micro: Transcriber) -> None:
    segments = micro.segments("nowhere.wav", OPTIONS)
    with pytest.raises(AudioError, match=r"nowhere\.wav"):
        next(segments)


def test_wrong_options_are_refused_at_once(micro: Transcriber) -> None:
    wrong = DecodingOptions(language="klingon")
    with pytest.raises(OptionError, match="klingon"):
        micro.segments("nowhere.wav", wrong)
    with pytest.raises(OptionError, match="klingon"):
        micro.transcribe_many(["nowhere.wav"], wrong)
    with pytest.raises(OptionError, match="--batch-size is 0"):
        micro.transcribe_many(["nowhere.wav"], OPTIONS, batch_size=0)


def test_of_many_recordings_each_tells_how_far_it_is(micro: Transcriber) -> None:
    told: list[tuple[float, float | None]] = []
    silence = np.zeros(SAMPLE_RATE_HZ * 12, np.float32)
    everything = LongOptions(skip_silence=False)
    list(
        micro.transcribe_many([silence], OPTIONS, lambda *done: told.append(done), long=everything)
    )
    assert told[-1] == (12.0, 12.0)


def test_eight_calls_lead_from_transcribe_to_the_run_of_a_graph(
    micro: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, ways = Binding.run, set()

    def run(self: Binding, *arguments: Any) -> Any:
        way, frame = ["Binding.run"], sys._getframe(1)
        while frame.f_code is not Transcriber.transcribe.__code__:
            way.append(frame.f_code.co_qualname)
            assert frame.f_back is not None
            frame = frame.f_back
        ways.add(tuple(way))
        return ran(self, *arguments)

    monkeypatch.setattr(Binding, "run", run)
    assert micro.transcribe(DATA / "micro" / "seen" / "seen-000.ogg", OPTIONS).text
    aligning = {way for way in ways if "align_words" in way}
    assert {len(way) for way in ways - aligning} == {8}, ways
    assert max(len(way) for way in aligning) <= 11, ways
