"""What is urgent waits neither for a batch that is being encoded nor for its windows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.transcription.made_up_engine import (
    PLAN,
    WAIT_S,
    AtOnce,
    Encoder,
    Interpreter,
    noise,
    recording_of,
)
from tests.unit.transcription.test_priorities import Noting
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult


@dataclass
class Slow(Encoder):
    """In its own thread it is done with a batch when something else was decoded meanwhile."""

    overtaken: threading.Event = field(default_factory=threading.Event)
    n_in_vain: int = 0

    def encode(self, mel: FloatArray) -> FloatArray:
        if threading.current_thread().name.startswith("encode"):
            self.n_in_vain += not self.overtaken.wait(WAIT_S)
        return super().encode(mel)


@dataclass
class Noted(Interpreter):
    """Lets the encoder go on when a window was decoded."""

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        assert isinstance(self.encoder, Slow)
        self.encoder.overtaken.set()
        return super().transcribe(encoded, requests)


class Arriving(AtOnce):
    """Has one recording more when the schedule begins to wait for the encoder."""

    def __init__(self, here: list[Recording], later: Recording) -> None:
        super().__init__(here)
        self._later = [later]

    def wait(self, coming: Future[Any]) -> bool:
        if self._later:
            self._coming.append(self._later.pop())
            return True
        return super().wait(coming)


@pytest.mark.parametrize("strategy", ["seek", "consecutive"])
def test_what_comes_while_a_batch_is_encoded_goes_before_it(strategy: str) -> None:
    encoder = Slow()
    stages = Stages(encoder, Noted(encoder), PLAN)  # type: ignore[arg-type]
    archives = [recording_of(noise(3, n), strategy, 1) for n in range(2)]
    command = recording_of(noise(1, 5), strategy)
    done = list(Schedule(Arriving(archives, command), stages, 2).run())
    assert encoder.n_in_vain == 0, "what is urgent waited for this"
    assert done[0] is command
    assert [one.failure for one in done] == [None] * 3
    for archive in archives:
        assert [segment.text for segment in archive.segments] == ["0", "1", "2"]


def test_what_is_urgent_shares_no_batch_with_what_is_not() -> None:
    engine = Noting()
    command, film = recording_of(noise(2)), recording_of(noise(3), priority=1)
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    list(Schedule(AtOnce([film, command]), stages, 8).run())
    assert engine.batches == [[0, 1], [0, 1, 2]]
