"""What a source of live audio is: pieces of a stream, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.protocols import Closeable, Closing
from whisper_hailo.core.types import FloatArray

Voices: TypeAlias = NDArray[np.int8]
"""`(n_samples,)`: the channel that is loudest, for each sample."""

BLOCK_S: Final = 0.032
"""Live audio comes in pieces of this length, one VAD frame each."""


_SMOOTHING: Final = 0.4
"""Of loudness from piece to piece: who is quiet between two sounds still has the turn."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A source is disconnected or paused, or back again.

    Attributes:
        why: the reason, for the user; empty where it is back.
        n_samples: of the stream for which it was away, where it is back.
        paused: a user paused it.
    """

    why: str
    n_samples: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a stream.

    Attributes:
        audio: `(n_samples,)` float32 16 kHz mono.
        captured_s: when its last sample was captured, by `time.perf_counter`; `None` if not live.
        n_faults: faults meanwhile, such as an overrun of the sound card.
        n_lost: samples behind it that were dropped.
        interruption: behind it the source is away, or back.
        recorded_s: when its first sample was said, in seconds since 1970, where a recording says.
        voices: `(n_samples,)` speakers, where channels are speakers.
    """

    audio: FloatArray
    captured_s: float | None = None
    n_faults: int = 0
    n_lost: int = 0
    interruption: Interruption | None = None
    recorded_s: float | None = None
    voices: Voices | None = None


def nothing(interruption: Interruption | None = None) -> Block:
    """Return an empty block: nothing came in time, or the source is away or back."""
    return Block(np.empty(0, np.float32), interruption=interruption)


class Pace(Enum):
    """Whether a source waits for its reader."""

    PULL = auto()
    """It gives a piece when it is asked: a recording, or a microphone that keeps what comes."""

    BUFFERED = auto()
    """It is heard as it comes: a thread reads it ahead, and lets it wait when that is too much."""

    REAL_TIME = auto()
    """It comes in real time and does not wait: a thread takes all of it."""


class AudioSource(Closeable, Protocol):
    """A stream of audio; a `with` block opens and closes it."""

    @property
    def name(self) -> str: ...

    @property
    def pace(self) -> Pace:
        """Return who waits for whom; known when it is open."""
        ...

    @property
    def endless(self) -> bool:
        """Return whether it only ends when its reader closes it."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Yield the audio once, in order; it ends soon after `close`.

        A block may be empty, where nothing comes for a while.

        Raises:
            AudioError, DeviceError: it cannot be read any more.
        """
        ...


class SourceAround(Closing):
    """A source around another, which is opened and closed with it."""

    def __init__(self, source: AudioSource) -> None:
        self._source = source
        self._closed = False

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def pace(self) -> Pace:
        return self._source.pace

    @property
    def endless(self) -> bool:
        return self._source.endless

    def open(self) -> Self:
        self._source.open()
        return self

    def close(self) -> None:
        """End the source for good, whatever it is doing."""
        self._closed = True
        self._source.close()


class LoudestChannel:
    """Follows which channel is loudest."""

    def __init__(self) -> None:
        self._power: NDArray[np.float64] | None = None

    def of(self, piece: FloatArray) -> int:
        """Return the loudest channel by the end of a block, `(n_samples, n_channels)`."""
        power = np.mean(piece.astype(np.float64) ** 2, axis=0)
        before = power if self._power is None else self._power
        self._power = _SMOOTHING * before + (1 - _SMOOTHING) * power
        return int(np.argmax(self._power))


def voices(channel: int, n_samples: int) -> Voices:
    """Return one channel for so many samples."""
    return np.full(n_samples, channel, np.int8)
