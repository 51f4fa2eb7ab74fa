"""A stand-in for PortAudio: its devices, and streams that give a tone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fakes.sounds import tone


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
