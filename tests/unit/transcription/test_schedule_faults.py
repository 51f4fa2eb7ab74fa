"""What an error costs: the recording that makes it, and no other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pytest

from tests.unit.transcription.made_up_engine import (
    PLAN,
    Chip,
    Encoder,
    Interpreter,
    encoding_threads,
    noise,
    recording_of,
    run,
)
from tests.unit.transcription.test_priorities import Noting
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import RecordingList, Schedule, transcribe_in_order
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_belongs_to_its_recording(ahead: bool) -> None:
    encoder = Encoder(fail_at=3)
    sources = [noise(2), noise(3, 1), noise(2, 2)]
    outcomes = list(run(sources, encoder, Interpreter(encoder), ahead=ahead))
    assert [type(outcome.failure).__name__ for outcome in outcomes] == [
        "NoneType", "DeviceError", "NoneType",
    ]  # fmt: skip
    assert not encoding_threads()


def test_its_errors_belong_to_their_recordings_too() -> None:
    chip = Chip(fail_at=3)
    outcomes = list(run([noise(2), noise(3, 1), noise(2, 2)], chip, Interpreter(chip)))
    assert [type(outcome.failure).__name__ for outcome in outcomes] == [
        "NoneType", "DeviceError", "NoneType",
    ]  # fmt: skip


class Faulty(Recording):
    """Breaks in a way that nobody foresaw."""

    at = ""

    def open(self) -> Self:
        if self.at == "begin":
            raise AttributeError("no attribute 'rate'")
        return super().open()

    def next(self) -> WindowRequest | None:
        if self.at == "next" and self._n_waiting:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return super().next()

    def take(self, result: WindowResult) -> None:
        if self.at == "take":
            raise IndexError("no such channel")
        super().take(result)

    def finish(self) -> None:
        if self.at == "finish":
            raise ZeroDivisionError("no words")
        super().finish()


class FaultyInterpreter(Interpreter):
    """Cannot hear what is silent."""

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        if not all(request.window.audio.any() for request in requests):
            raise FloatingPointError("no loudness")
        return super().transcribe(encoded, requests)


@pytest.mark.parametrize("batch_size", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("at", "error"),
    [
        ("begin", AttributeError),
        ("next", UnicodeDecodeError),
        ("take", IndexError),
        ("finish", ZeroDivisionError),
        ("hear", FloatingPointError),
    ],
)
def test_an_error_that_nobody_foresaw_costs_one_recording(
    at: str, error: type[Exception], batch_size: int
) -> None:
    encoder = Encoder()
    stages = Stages(encoder, FaultyInterpreter(encoder, 100), PLAN)  # type: ignore[arg-type]

    def begun(name: str) -> Recording:
        audio = noise(4)
        audio[:16_000] *= name != "hear"
        recording: Faulty = recording_of(audio, kind=Faulty)
        recording.at = name
        return recording

    first, broken, last = transcribe_in_order(
        map(begun, ["", at, ""]), lambda source: Schedule(source, stages, batch_size)
    )
    assert isinstance(broken.failure, error)
    for outcome in (first, last):
        assert outcome.failure is None
        assert [segment.text for segment in outcome.segments] == ["0", "1", "2", "3"]


def test_a_recording_that_breaks_gives_the_batch_its_windows_back() -> None:
    """Its first window is not decoded for nothing."""
    engine = Noting()
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    broken, good = recording_of(noise(4), kind=Faulty), recording_of(noise(2))
    broken.at = "next"
    done = list(Schedule(RecordingList([broken, good]), stages, 4).run())
    assert sorted(one is broken for one in done) == [False, True]
    assert engine.batches == [[0, 1]]


def test_an_error_that_somebody_foresaw_is_that_of_all_in_the_batch() -> None:
    """The chip is not tried once more for each."""
    encoder = Encoder(fail_at=1)
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    recordings = [recording_of(noise(1, n)) for n in range(2)]
    done = list(Schedule(RecordingList(recordings), stages, 2).run())
    assert [type(one.failure) for one in done] == [DeviceError, DeviceError]
    assert len(encoder.threads) == 1


def test_of_two_windows_in_a_batch_the_one_that_can_be_heard_is() -> None:
    encoder = Encoder()
    stages = Stages(encoder, FaultyInterpreter(encoder, 100), PLAN)  # type: ignore[arg-type]
    silent, good = recording_of(0 * noise(1)), recording_of(noise(1))
    list(Schedule(RecordingList([silent, good]), stages, 2).run())
    assert isinstance(silent.failure, FloatingPointError)
    assert good.failure is None
    assert [segment.text for segment in good.segments] == ["0"]
