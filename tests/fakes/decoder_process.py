"""The program of the decoder's process, for tests that run it in their own."""

from __future__ import annotations

import io
import json
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

PATIENCE_S = 7.0

Message = tuple[bytes, bytes]


class RecordedSystemCalls:
    """Calls of the program to the system, recorded and not executed.

    Attributes:
        hard: hard limit of every resource.
        limits: limits that were set, by resource.
        signals: handlers that were set, by signal.
        timers: timers that were set, in order.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.hard = resource.RLIM_INFINITY
        self.limits: dict[int, tuple[int, int]] = {}
        self.signals: dict[int, Any] = {}
        self.timers: list[tuple[int, float]] = []
        patch.setattr(resource, "getrlimit", lambda _: (1 << 20, self.hard))
        patch.setattr(resource, "setrlimit", self.limits.__setitem__)
        patch.setattr(signal, "signal", self.signals.__setitem__)
        patch.setattr(signal, "setitimer", lambda *words: self.timers.append(words))


Decode = Callable[[Path], list[Message]]


def messages(content: bytes) -> Iterator[Message]:
    """Yield messages: a letter, a length in four bytes, and a payload of that length."""
    file = io.BytesIO(content)
    while head := file.read(5):
        payload = file.read(int.from_bytes(head[1:], "little"))
        assert len(payload) == int.from_bytes(head[1:], "little")
        yield head[:1], payload


def sound(reply: list[Message]) -> tuple[list[int | None], NDArray[np.float32]]:
    """Return header and samples of a file that was decoded to its end."""
    assert [kind for kind, _ in reply] == [b"H", *[b"A"] * (len(reply) - 2), b"E"]
    assert reply[-1][1] == b""
    header = json.loads(reply[0][1])
    assert all(payload for _, payload in reply[1:-1])
    samples = np.frombuffer(b"".join(payload for _, payload in reply[1:-1]), "<f4")
    return header, samples.reshape(-1, header[1])


def refused(reply: list[Message]) -> Any:
    assert [kind for kind, _ in reply] == [b"R"]
    return json.loads(reply[0][1])


class Streams(Made):
    """Streams of all kinds."""

    def __len__(self) -> int:
        return sum(map(len, vars(self).values()))


class StandInPyAv:
    """A stand-in for PyAV: blocks of bytes, by default of one 16 kHz mono track.

    Attributes:
        track: the audio track of `container`; both have the attributes of PyAV.
    """

    __version__ = "18.1.0"
    time_base = 1_000_000

    def __init__(self, patch: pytest.MonkeyPatch, blocks: Iterable[bytes] = ()) -> None:
        self.track = Made(codec_context=1, rate=16_000, channels=1, layout=None)
        self.track.duration = self.track.time_base = self.track.start_time = None
        self.track.metadata = {}
        streams = Streams(audio=[self.track], video=[])
        self.container = Made(
            duration=None, start_time=None, streams=streams, decode=self._decode
        )
        self.container.format = Made(name="mov,mp4,m4a,3gp,3g2,mj2")
        self._blocks = blocks
        patch.setitem(sys.modules, "av", self)

    def open(self, *_: object, **__: object) -> Any:
        return self.container

    def _decode(self, track: object) -> Iterator[Any]:
        assert track is self.track
        kind = Made(name="flt")
        for block in self._blocks:
            frame = Made(format=kind, layout=kind, sample_rate=16_000)
            yield Made(
                **vars(frame), samples=len(block) // 4, planes=[block + b"padding"]
            )

    def AudioResampler(self, **_: object) -> Any:  # noqa: N802 - PyAV's name
        return Made(resample=lambda frame: [frame])
