"""Sources that are opened again after a failure."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, Self

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import Backoff
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import (
    LOOK_S,
    AudioSource,
    Block,
    Interruption,
    Pace,
    nothing,
)

logger = logging.getLogger(__name__)

ADDRESS_PATIENCE_S: Final = 600.0
"""An address that is away for so long does not come back by itself."""


def awake_s() -> float:
    """Return a monotonic time in seconds that includes suspends, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ReopenedSource(Closing):
    """Reopens an endless source whenever it fails; a finite one fails as it does.

    The first time it has to be there. It is given up when it was away for `patience_s`; `None` is
    never.
    """

    def __init__(
        self,
        source: AudioSource,
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
        """End the source for good, whatever it is doing."""
        self._closed = True
        self._source.close()

    def blocks(self) -> Iterator[Block]:
        """Yield its audio, with interruptions between."""
        while not self._closed:
            sound_s = self._now()
            try:
                for block in self._source.blocks():
                    sound_s = self._now() if block.audio.size else sound_s
                    yield block
                return
            except WhisperHailoError as error:
                if self._closed or not self.endless or self._patience_s == 0:
                    raise
                failure = error
            logger.warning("%s; it is opened again as soon as it is back", failure)
            yield nothing(Interruption(str(failure)))
            yield from self._reopened(failure)
            if not self._closed:
                away_s = self._now() - sound_s  # it was noticed after a while only
                logger.warning("%s is back after %.1f s", self.name, away_s)
                yield nothing(Interruption("", round(away_s * SAMPLE_RATE_HZ)))

    def _reopened(self, failure: WhisperHailoError) -> Iterator[Block]:
        """Reopen it with back-off, unless it is closed meanwhile; yield empty blocks."""
        wait, left_s = Backoff(self._now), self._now()
        while not self._closed:
            if wait.is_over:
                self._source.close()
                try:
                    self._source.open()
                except WhisperHailoError as error:
                    failure = error
                    wait.fail()
                else:
                    break
            if self._patience_s is not None and self._now() - left_s >= self._patience_s:
                raise type(failure)(
                    f"{self.name} was away for {self._patience_s:g} s, longer than "
                    f"--wait-for-source: {failure}"
                )
            self._sleep(LOOK_S)
            yield nothing()
        if self._closed:
            self._source.close()  # it may have been opened meanwhile
