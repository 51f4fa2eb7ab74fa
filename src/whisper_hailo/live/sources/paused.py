"""Sources that can be paused: audio that comes meanwhile is dropped and reported as away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.audio_queue import LOOK_S
from whisper_hailo.live.sources.source import (
    Absence,
    AudioSource,
    Block,
    Pace,
    SourceAround,
    nothing,
)

_PAUSED: Final = Absence("paused", paused=True)


class PausableSource(SourceAround):
    """A source whose sound goes nowhere while it is paused.

    A recording that is heard as fast as it goes waits meanwhile; what is live, or played as if it
    were, goes on and is missed.

    Args:
        source: opened and closed with this one.
        sleep: waits between looks whether the pause is over.

    Attributes:
        is_paused: set by anyone, on any thread.
    """

    def __init__(self, source: AudioSource, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(source)
        self.is_paused = False
        self._sleep = sleep

    def blocks(self) -> Iterator[Block]:
        """What the source gives; while it is paused, empty pieces.

        Raises:
            AudioError, DeviceError: the source cannot be read any more.
        """
        absence: Absence | None = None  # of the source itself
        pause: _Pause | None = None
        for block in self._given():
            if self.is_paused and pause is None:
                pause = _Pause()
                if absence is not None:
                    yield nothing(Absence(""))  # of two absences one ends before the other
                yield nothing(_PAUSED)
            if pause is not None and not self.is_paused:
                yield pause.end()
                pause = None
                if absence is not None:
                    yield nothing(absence)
            if block.absence is not None:
                absence = block.absence if block.absence.why else None
            if pause is None:
                yield block
            else:
                pause.miss(block)
                yield nothing()

    def _given(self) -> Iterator[Block]:
        """The source's pieces; one that can wait is asked for none in a pause."""
        can_wait = self.pace is Pace.ASKED and not self.endless
        for block in self._source.blocks():
            while can_wait and self.is_paused and not self._closed:
                yield nothing()
                self._sleep(LOOK_S)
            yield block


class _Pause:
    """What is missed in a pause."""

    def __init__(self) -> None:
        self._n_samples = 0
        self._recorded_s: float | None = None

    def miss(self, block: Block) -> None:
        if block.recorded_s is not None:
            self._recorded_s = block.recorded_s - self._n_samples / SAMPLE_RATE_HZ
        away = 0 if block.absence is None else block.absence.n_samples
        self._n_samples += block.audio.size + block.n_lost + away

    def end(self) -> Block:
        """The stream goes on behind all of it."""
        back = nothing(Absence("", self._n_samples))
        return Block(back.audio, absence=back.absence, recorded_s=self._recorded_s)
