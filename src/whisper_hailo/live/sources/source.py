"""Sources of live audio: their protocol, their blocks and the queue of these, reopening."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Protocol, Self

import numpy as np

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import Backoff
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

logger = logging.getLogger(__name__)

BLOCK_S: Final = 0.032
"""Live audio comes in pieces of this length, one VAD frame each."""

QUEUE_S: Final = 300.0
"""Room of a queue, longer than three reopenings of a chip take; 18 MiB."""

POLL_S: Final = 0.1
"""Interval at which a thread that waits for audio checks whether it is to end."""

ADDRESS_PATIENCE_S: Final = 600.0
"""An address that is away for so long does not come back by itself."""

_MIN_COST: Final = round(0.005 * SAMPLE_RATE_HZ)
"""Samples that a waiting block counts at least: a client may send one sample at a time."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A source is disconnected or paused, or back again.

    Attributes:
        reason: why it is away, for the user; empty: it is back.
        n_samples: of the stream for which it was away, where it is back.
        paused: a user paused it.
        stalled: it is there and gives nothing, so that no audio is missing.
    """

    reason: str
    n_samples: int = 0
    paused: bool = False
    stalled: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a stream.

    Attributes:
        audio: `(n_samples,)` float32 16 kHz mono.
        captured_s: when its last sample was captured, by `time.perf_counter`; `None` if not live.
        n_faults: faults during the block, such as an overrun of the sound card.
        n_lost: samples behind it that were dropped.
        interruption: behind it the source is away, or back.
    """

    audio: FloatArray
    captured_s: float | None = None
    n_faults: int = 0
    n_lost: int = 0
    interruption: Interruption | None = None

    @property
    def ends_at_gap(self) -> bool:
        """Whether audio is missing behind it."""
        return bool(self.n_lost) or self.interruption is not None

    @property
    def n_missing(self) -> int:
        """The samples that are missing behind it, as far as it is known."""
        n_away = 0 if self.interruption is None else self.interruption.n_samples
        return self.n_lost + n_away


def empty_block(interruption: Interruption | None = None) -> Block:
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
    """Queue of audio between two threads; all that waits is taken as one block.

    Without room, audio waits (`put_all`) or is dropped (`put`). A gap always lies behind a block,
    never inside: a block ends at the next gap.
    """

    def __init__(self, limit_s: float = QUEUE_S) -> None:
        self._room = round(limit_s * SAMPLE_RATE_HZ)  # samples
        self._waiting: deque[Block] = deque()
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, block: Block) -> int:
        """Add a block; without room its audio is dropped. Return the samples that were."""
        with self._changed:
            if self._ended:  # a stream that hangs may go on
                return block.audio.size
            if not block.audio.size or block.audio.size <= self._room:
                self._append(block)
                return 0
            n_lost = block.audio.size
            gap = replace(block, audio=block.audio[:0], n_lost=n_lost)
            self._append(self._join_last_loss(gap))
        return n_lost

    def put_all(self, block: Block) -> None:
        """Add a block, waiting for room if necessary."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._ended or not self._waiting or block.audio.size <= self._room
                )
            )
            self._append(block)

    def end(self, failure: BaseException | None = None) -> None:
        """End the queue, once; a failure is raised behind the waiting audio."""
        with self._changed:
            if not self._ended:
                self._ended = True
                self._failure = failure
            self._changed.notify_all()

    def blocks(self) -> Iterator[Block]:
        """Yield all that waits, repeatedly; an empty block when nothing comes for `POLL_S`.

        The failure that it ended with is raised behind the last one.
        """
        while True:
            taken: list[Block] = []
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended, POLL_S)
                while self._waiting and not (taken and taken[-1].ends_at_gap):
                    taken.append(self._waiting.popleft())
                    self._room += _block_cost(taken[-1])
                self._changed.notify_all()
                ended = self._ended and not self._waiting
            yield _join_blocks(taken)
            if ended:
                break
        if self._failure is not None:
            raise self._failure

    def _join_last_loss(self, gap: Block) -> Block:
        """Return a loss together with the one that waits before it: they are one gap."""
        if not self._waiting:
            return gap
        last = self._waiting[-1]
        if not last.n_lost or last.interruption is not None:
            return gap
        self._waiting.pop()
        self._room += _block_cost(last)
        return _join_blocks([last, gap])

    def _append(self, block: Block) -> None:
        self._room -= _block_cost(block)
        self._waiting.append(block)
        self._changed.notify_all()


def _block_cost(block: Block) -> int:
    """Return the room that a block takes, in samples."""
    return max(block.audio.size, _MIN_COST)


def _join_blocks(blocks: Sequence[Block]) -> Block:
    """Join blocks of which only the last may end at a gap."""
    if not blocks:
        return empty_block()
    captured_s = [block.captured_s for block in blocks if block.audio.size]
    return replace(
        blocks[-1],
        audio=np.concatenate([block.audio for block in blocks]),
        captured_s=captured_s[-1] if captured_s else None,
        n_faults=sum(block.n_faults for block in blocks),
        n_lost=sum(block.n_lost for block in blocks),
    )


class LiveSource(Closing, Protocol):
    """A stream of audio; a `with` block opens and closes it.

    Its `pace` is known when it is open. An `endless` one only ends when its reader closes it.
    """

    @property
    def name(self) -> str: ...

    @property
    def pace(self) -> Pace: ...

    @property
    def endless(self) -> bool: ...

    def blocks(self) -> Iterator[Block]:
        """Yield the audio once, in order; it ends soon after `close`.

        A block may be empty, where nothing comes for a while. `AudioError` or `DeviceError` is
        raised where it cannot be read any more.
        """
        ...


def awake_s() -> float:
    """Return a monotonic time in seconds that includes suspends, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ReopenedSource(Closing):
    """Reopens an endless source whenever it fails; the error of a finite one is raised.

    `open` raises the source's error, too. A source that is away for `patience_s` is given up;
    `None` waits for any time.
    """

    def __init__(
        self,
        source: LiveSource,
        patience_s: float | None = None,
        *,
        now: Callable[[], float] = awake_s,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source = source
        self._patience_s = patience_s
        self._now = now
        self._sleep = sleep
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
        """Close the source for good, also while it is being reopened."""
        self._closed = True
        self._source.close()

    def blocks(self) -> Iterator[Block]:
        """Yield its audio, with an interruption before and behind each absence."""
        while not self._closed:
            sound_s = self._now()  # of the last audio
            try:
                for block in self._source.blocks():
                    if block.audio.size:
                        sound_s = self._now()
                    yield block
                return
            except WhisperHailoError as error:
                if self._closed or not self.endless or self._patience_s == 0:
                    raise
                failure = error
            logger.warning("%s; it will be reopened as soon as it is back", failure)
            yield empty_block(Interruption(str(failure)))
            yield from self._reopen(failure)
            if not self._closed:
                # From the last audio: a loss is noticed later.
                away_s = self._now() - sound_s
                logger.warning("%s is back after %.1f s", self.name, away_s)
                yield empty_block(Interruption("", round(away_s * SAMPLE_RATE_HZ)))

    def _reopen(self, failure: WhisperHailoError) -> Iterator[Block]:
        """Reopen it with back-off, unless it is closed meanwhile; yield empty blocks."""
        backoff = Backoff(self._now)
        failed_s = self._now()
        while not self._closed:
            if backoff.is_over:
                self._source.close()
                try:
                    self._source.open()
                except WhisperHailoError as error:
                    failure = error
                    backoff.fail()
                else:
                    break
            if (
                self._patience_s is not None
                and self._now() - failed_s >= self._patience_s
            ):
                raise type(failure)(
                    f"{self.name} was away for {self._patience_s:g} s, longer than "
                    f"--wait-for-source: {failure}"
                )
            self._sleep(POLL_S)
            yield empty_block()
        if self._closed:
            self._source.close()  # `close` may have come while it was being opened
