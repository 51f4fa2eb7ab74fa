"""Sources that give what was prepared, and all of the sound that a source gives."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.fakes.sounds import tone
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.sources.source import Block, LiveSource, Pace


class Played(Closing):
    """A source of prepared pieces; it may break, or wait until it is closed."""

    endless = True
    name = "played"

    def __init__(
        self,
        audio: FloatArray,
        *,
        pace: Pace = Pace.BUFFERED,
        failure: Exception | None = None,
        waits: bool = False,
    ) -> None:
        self.pace = pace
        self._audio = audio
        self._failure = failure
        self._waits = waits
        self._closed = threading.Event()
        self._moved = threading.Condition()
        self._n_taken = 0
        self._ended = False

    def open(self) -> Played:
        return self

    def blocks(self) -> Iterator[Block]:
        try:
            for at in range(0, self._audio.size, 512):
                if self.pace is Pace.PULL and self._closed.is_set():
                    return
                yield Block(self._audio[at : at + 512], time.perf_counter())
                self._taken()
        finally:
            self._taken(ended=True)
        if self._failure is not None:
            raise self._failure
        if self._waits:
            self._closed.wait()

    def _taken(self, *, ended: bool = False) -> None:
        with self._moved:
            self._n_taken += 1
            self._ended = self._ended or ended
            self._moved.notify_all()

    def wait_for_more(self, n_blocks: int) -> None:
        """Until so many further pieces were taken, or there are none."""
        with self._moved:
            wanted = self._n_taken + n_blocks
            self._moved.wait_for(lambda: self._ended or self._n_taken >= wanted)

    def close(self) -> None:
        self._closed.set()


class Steps(Closing):
    """Gives its pieces and does something between."""

    endless = True
    name = "steps"

    def __init__(
        self, *steps: Any, pace: Pace = Pace.PULL, endless: bool = True
    ) -> None:
        self._steps = steps
        self.pace = pace
        self.endless = endless

    def blocks(self) -> Iterator[Block]:
        for step in self._steps:
            if isinstance(step, Block):
                yield step
            else:
                step()

    def close(self) -> None:
        pass


def heard(source: LiveSource) -> FloatArray:
    with source:
        return np.concatenate([block.audio for block in source.blocks()])


class PortAudioError(Exception):
    pass


class FakeStream:
    """Calls back with a tone as PortAudio would, a second of it."""

    last: FakeStream | None = None

    def __init__(self, **settings: Any) -> None:
        if settings["device"] == 7:
            raise PortAudioError("Device unavailable")
        self.settings = settings
        self.closed = False
        FakeStream.last = self

    def start(self) -> None:
        rate = self.settings["samplerate"]
        size = self.settings["blocksize"]
        sound = np.stack([tone(rate), tone(rate)], axis=1).astype(np.float32)
        for at in range(0, rate, size):
            status = "input overflow" if at == 0 else ""
            self.settings["callback"](sound[at : at + size], size, None, status)

    def abort(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


DEVICES = [
    {"name": "HDMI", "max_input_channels": 0, "default_samplerate": 48_000.0},
    {"name": "USB Microphone", "max_input_channels": 2, "default_samplerate": 44_100.0},
    {"name": "USB Camera", "max_input_channels": 2, "default_samplerate": 48_000.0},
    {"name": "Busy", "max_input_channels": 2, "default_samplerate": 48_000.0},
]
