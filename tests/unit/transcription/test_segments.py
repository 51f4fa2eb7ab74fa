"""Segments one by one, and the file of a recording, which is given back."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from tests.unit.transcription.made_up_engine import Encoder, Interpreter
from tests.unit.transcription.test_recording import PLAN, recording
from whisper_hailo.core.errors import AudioError, DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.run import Segments
from whisper_hailo.transcription.schedule import RecordingList, Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Context


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(48_000, np.float32), SAMPLE_RATE_HZ)
    return path


class Noted(Recording):
    """Notes whether its file was given back."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1
        super().close()


def test_whoever_stops_listening_gives_all_files_back(file: Path) -> None:
    """Two are under way, a window of each in a batch, when nobody wants more of them."""
    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    long = LongOptions("consecutive", skip_silence=False)
    own = [Noted(file, Context("en"), PLAN, DecodingOptions(), long) for _ in range(2)]
    steps = Schedule(RecordingList(own), stages, 2).steps()
    assert next(steps) == []
    assert [one.n_closed for one in own] == [0, 0]
    steps.close()  # type: ignore[attr-defined]
    assert [one.n_closed for one in own] == [1, 1]


@pytest.mark.parametrize("closes", [True, False])
def test_whoever_stops_asking_for_segments_ends_the_work_at_once(
    file: Path, *, closes: bool
) -> None:
    """By a word or without one: the file is given back, and the thread that encodes ahead ends."""
    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    own = Noted(
        file, Context("en"), PLAN, DecodingOptions(), LongOptions("consecutive", skip_silence=False)
    )
    run = SimpleNamespace(schedule=lambda source: Schedule(source, stages))
    before = set(threading.enumerate())
    segments = Segments(run, own)  # type: ignore[arg-type]
    assert next(segments).text == "0"
    assert any(name.startswith("encode") for name in encoder.threads)
    if closes:
        segments.close()
        assert list(segments) == []
    del segments
    assert own.n_closed == 1
    assert set(threading.enumerate()) <= before


def test_segments_come_as_they_are_final_and_an_error_behind_them(file: Path) -> None:
    encoder = Encoder(fail_at=3)
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    own = Noted(
        file, Context("en"), PLAN, DecodingOptions(), LongOptions("consecutive", skip_silence=False)
    )
    run = SimpleNamespace(schedule=lambda source: Schedule(source, stages))
    segments = Segments(run, own)  # type: ignore[arg-type]
    assert [next(segments).text, next(segments).text] == ["0", "1"]
    with pytest.raises(DeviceError):
        next(segments)


@pytest.mark.parametrize(
    ("language", "probs", "told"),
    [("auto", {}, None), ("auto", {"de": 0.4, "en": 0.3}, "de"), ("fr", {"de": 1.0}, "fr")],
)
def test_segments_tell_the_language_once_it_is_known(
    language: str, probs: dict[str, float], told: str | None
) -> None:
    """The likeliest one as long as no window is sure."""
    own = recording(np.zeros(100, np.float32), language=language)
    own.context.language_probs = probs
    run = SimpleNamespace(schedule=None, transcript=lambda one: (one, "as far as it is"))
    segments = Segments(run, own)  # type: ignore[arg-type]
    assert (segments.language, segments.language_probs) == (told, probs)
    assert segments.transcript == (own, "as far as it is")


def test_one_that_cannot_be_opened_holds_nothing(tmp_path: Path) -> None:
    own = recording(tmp_path / "not-there.wav")
    with pytest.raises(AudioError):
        own.open()
    own.close()


def test_one_that_failed_is_closed_and_says_why(file: Path) -> None:
    own = Noted(file, Context("en"), PLAN, DecodingOptions(), LongOptions())
    own.open()
    error = AudioError("torn")
    own.fail(error)
    assert (own.failure, own.n_closed) == (error, 1)
    own.finish()
    assert own.segments == []
