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
class Absence:
    """A source is away, or back again.

    Attributes:
        why: what is wrong, in words for the user; empty where it is back.
        n_samples: of the stream for which it was away, where it is back.
        paused: somebody wanted it so.
    """

    why: str
    n_samples: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a stream.

    Attributes:
        audio: `(n_samples,)` float32 16 kHz mono.
        captured_s: when its last sample was captured, by `time.perf_counter`; `None` if not live.
        n_faults: things that went wrong meanwhile, such as an overrun of the sound card.
        n_lost: samples behind it that could not wait and are lost.
        absence: behind it the source is away, or back.
        recorded_s: when its first sample was spoken, in seconds since 1970, where a recording says.
        voices: `(n_samples,)` speakers, where they are told apart.
    """

    audio: FloatArray
    captured_s: float | None = None
    n_faults: int = 0
    n_lost: int = 0
    absence: Absence | None = None
    recorded_s: float | None = None
    voices: Voices | None = None


def nothing(absence: Absence | None = None) -> Block:
    """A piece of no samples: nothing came in time, or the source is away or back."""
    return Block(np.empty(0, np.float32), absence=absence)


class Pace(Enum):
    """Whether a source waits to be heard, or has to be heard as it comes."""

    ASKED = auto()
    """It gives a piece when it is asked: a recording, or a microphone that keeps what comes."""

    AHEAD = auto()
    """It is heard as it comes: a thread reads it ahead, and lets it wait when that is too much."""

    OWN = auto()
    """It comes in real time and does not wait: a thread takes all of it."""


class AudioSource(Closeable, Protocol):
    """A stream of audio; a `with` block opens and closes it."""

    @property
    def name(self) -> str: ...

    @property
    def pace(self) -> Pace:
        """Who waits for whom; known when it is open."""
        ...

    @property
    def endless(self) -> bool:
        """It ends when its listener wants it to."""
        ...

    def blocks(self) -> Iterator[Block]:
        """The audio, once, in order; it ends soon after `close`, with what was captured before.

        A piece may be empty, where nothing comes for a while.

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
        """Open the source.

        Raises:
            AudioError, DeviceError, OptionError: it cannot be opened.
        """
        self._source.open()
        return self

    def close(self) -> None:
        """End the source, whatever it is doing; for good."""
        self._closed = True
        self._source.close()


class LoudestChannel:
    """Follows which channel is loudest."""

    def __init__(self) -> None:
        self._power: NDArray[np.float64] | None = None

    def of(self, piece: FloatArray) -> int:
        """The loudest channel by the end of a piece.

        Args:
            piece: `(n_samples, n_channels)`, following the one before.
        """
        power = np.mean(piece.astype(np.float64) ** 2, axis=0)
        before = power if self._power is None else self._power
        self._power = _SMOOTHING * before + (1 - _SMOOTHING) * power
        return int(np.argmax(self._power))


def voices(channel: int, n_samples: int) -> Voices:
    """One channel for so many samples."""
    return np.full(n_samples, channel, np.int8)
