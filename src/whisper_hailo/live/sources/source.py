"""Sources of live audio, the blocks that they give, and the queue that blocks wait in."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.protocols import Closeable
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

Voices: TypeAlias = NDArray[np.int8]
"""`(n_samples,)`: the channel that is loudest, for each sample."""

BLOCK_S: Final = 0.032
"""Live audio comes in pieces of this length, one VAD frame each."""

LIMIT_S: Final = 300.0
"""Room of a queue, longer than three reopenings of a chip take; 18 MiB."""

LOOK_S: Final = 0.1
"""So often one who waits for audio looks whether it is still wanted."""

_SMOOTHING: Final = 0.4
"""Of loudness from piece to piece: who is quiet between two sounds still has the turn."""

_SMALL: Final = round(BLOCK_S * SAMPLE_RATE_HZ)
"""Samples of a waiting block that the next one is joined to: a client may send one at a time."""


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

    @property
    def ends_at_gap(self) -> bool:
        """Return whether audio is missing behind it."""
        return bool(self.n_lost) or self.interruption is not None

    @property
    def n_missing(self) -> int:
        """Return the samples that are missing behind it, as far as it is known."""
        return self.n_lost + (0 if self.interruption is None else self.interruption.n_samples)


def nothing(interruption: Interruption | None = None) -> Block:
    """Return an empty block: nothing came in time, or the source is away or back."""
    return Block(np.empty(0, np.float32), interruption=interruption)


class Pace(Enum):
    """Whether a source waits for its reader.

    A `PULL` source gives a piece when it is asked: a recording, or a microphone that keeps what
    comes. A thread reads a `BUFFERED` one ahead, and lets it wait when that is too much. A
    `REAL_TIME` one does not wait: a thread takes all of it.
    """

    PULL = auto()
    BUFFERED = auto()
    REAL_TIME = auto()


class AudioQueue:
    """Queue of audio between two threads; what waits is taken as one block.

    Without room, audio waits or is dropped. A gap always lies behind a block, never inside: a block
    ends at the next gap.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._room = round(limit_s * SAMPLE_RATE_HZ)  # samples
        self._waiting: deque[Block] = deque()
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, block: Block) -> int:
        """Add what there is room for; return how many samples were dropped."""
        with self._changed:
            if self._ended:  # a stream that hangs may go on
                return block.audio.size
            n_lost = max(0, block.audio.size - self._room)
            if n_lost:
                first, _ = _split(block, self._room)
                block = replace(first, n_lost=n_lost, interruption=block.interruption)
            self._append(block)
            return n_lost

    def put_all(self, block: Block) -> None:
        """Add everything, waiting for room if necessary."""
        with self._changed:
            while block.audio.size > self._room and not self._ended:
                first, block = _split(block, self._room)
                self._append(first)
                self._changed.wait()
            if block.audio.size > self._room:
                block, _ = _split(block, self._room)
            self._append(block)

    def end(self, failure: BaseException | None = None) -> None:
        """End the queue, once; a failure is raised behind the waiting audio."""
        with self._changed:
            if not self._ended:
                self._ended, self._failure = True, failure
            self._changed.notify_all()

    def blocks(self) -> Iterator[Block]:
        """Yield all that waits, repeatedly; an empty block when nothing comes for `LOOK_S`.

        Behind them the failure that it ended with is raised.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended, LOOK_S)
                block = self._take()
                ended = self._ended and not self._waiting
            yield block
            if ended:
                break
        if self._failure is not None:
            raise self._failure

    def _append(self, block: Block) -> None:
        """Append a block that there is room for, or join it to the last one if that is small."""
        self._room -= block.audio.size
        if self._waiting and _goes_on(self._waiting[-1], block):
            block = _joined(deque((self._waiting.pop(), block)))
        if block.audio.size or block.n_faults or block.ends_at_gap:
            self._waiting.append(block)
        self._changed.notify_all()

    def _take(self) -> Block:
        """Remove what waits up to the first gap."""
        taken: deque[Block] = deque()
        while self._waiting and not (taken and taken[-1].ends_at_gap):
            taken.append(self._waiting.popleft())
        block = _joined(taken)
        self._room += block.audio.size
        self._changed.notify_all()
        return block


def _goes_on(last: Block, block: Block) -> bool:
    """Return whether to join a block to a waiting one: more is lost there, or that is small."""
    if last.n_lost and last.interruption is None:
        return not block.audio.size and block.interruption is None
    return not last.ends_at_gap and last.audio.size < _SMALL


def _split(block: Block, n_samples: int) -> tuple[Block, Block]:
    """Return the first samples of a block, without what is behind them, and the rest."""
    n, who = n_samples, block.voices
    begin, end = (None, None) if who is None else (who[:n], who[n:])
    first = replace(block, audio=block.audio[:n], voices=begin, interruption=None)
    rest = replace(block, audio=block.audio[n:], voices=end, n_faults=0, recorded_s=None)
    return first, rest


def _joined(blocks: deque[Block]) -> Block:
    """Join blocks of which only the last may end at a gap; each is let go when it is copied."""
    audio = np.empty(sum(block.audio.size for block in blocks), np.float32)
    heard: list[Voices] = []
    captured_s = recorded_s = interruption = None
    n_samples = n_faults = n_lost = 0
    while blocks:
        block = blocks.popleft()
        if block.recorded_s is not None:
            recorded_s = block.recorded_s - n_samples / SAMPLE_RATE_HZ
        if block.audio.size:
            captured_s = block.captured_s
        if block.voices is not None:
            heard.append(block.voices)
        audio[n_samples : n_samples + block.audio.size] = block.audio
        n_samples += block.audio.size
        n_faults += block.n_faults
        n_lost += block.n_lost
        interruption = block.interruption
    voices = np.concatenate(heard) if heard else None
    return Block(audio, captured_s, n_faults, n_lost, interruption, recorded_s, voices)


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

        A block may be empty, where nothing comes for a while. `AudioError` or `DeviceError` is
        raised where it cannot be read any more.
        """
        ...


class LoudestChannel:
    """Follows which channel is loudest."""

    def __init__(self) -> None:
        self._power: NDArray[np.float64] | None = None

    def voices(self, piece: FloatArray, n_samples: int) -> Voices:
        """Return the loudest channel of a block, `(n_samples, n_channels)`, for some samples."""
        power = np.mean(piece.astype(np.float64) ** 2, axis=0)
        before = power if self._power is None else self._power
        self._power = _SMOOTHING * before + (1 - _SMOOTHING) * power
        return np.full(n_samples, np.argmax(self._power), np.int8)
