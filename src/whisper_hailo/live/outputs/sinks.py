"""Sinks of events, and the warning when captions fall behind."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.protocols import Closeable, Closing
from whisper_hailo.core.timing import Backoff
from whisper_hailo.live.events import Completed, Event, Partial
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)

BEHIND_S: Final = 5.0
"""A reader has lost the speaker by then."""

_CAUGHT_UP_S: Final = 1.0


class LatencyWarning:
    """Warns once when captions fall behind, with advice.

    Args:
        statistics: of the captioner whose events it gets.
    """

    def __init__(self, statistics: CaptionStatistics) -> None:
        self._statistics = statistics
        self._is_told = False

    def put(self, event: Event) -> None:
        """Check how late a final text came."""
        if not isinstance(event, Completed):
            return
        behind_s = self._statistics.behind_s
        if behind_s > BEHIND_S and not self._is_told:
            self._is_told = True
            logger.warning(
                "captions are %.0f s behind what is said: this machine has too much to compute; "
                "take a smaller --model, --min-partial 1, or end other programs",
                behind_s,
            )
        elif behind_s < _CAUGHT_UP_S:
            self._is_told = False


logger = logging.getLogger(__name__)

MOST_WAITING: Final = 20_000
"""Events that wait for a sink, partials not among them: those of a day, some 20 MiB."""


class EventSink(Protocol):
    """Takes the events of one stream in their order."""

    def put(self, event: Event) -> None:
        """Take an event.

        Raises:
            OutputError: it cannot be written.
        """
        ...


class ClosingSink(EventSink, Closeable, Protocol):
    """An event sink that is opened and closed."""

    name: str


class ClosingOutput(Closing):
    """An output whose failure on closing never hides an earlier error."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except OutputError as error:
            if exc is None:
                raise
            logger.warning("%s", error)


class RetriedSink(ClosingOutput):
    """A sink that is retried with growing waits when it fails.

    Captions go on and events wait, except partials, which later events replace.

    Args:
        sink: not open yet; opened and closed with this one.
        now: a monotonic clock in seconds.
    """

    def __init__(self, sink: ClosingSink, now: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._waiting: deque[Event] = deque()
        self._n_dropped = 0
        self._wait = Backoff(now)

    def open(self) -> RetriedSink:
        """Open the sink.

        Raises:
            OutputError: it cannot be opened at all.
        """
        self._sink.open()
        return self

    def put(self, event: Event) -> None:
        """Take an event, even while the sink fails."""
        self._waiting.append(event)
        if not self._wait.is_over:
            self._keep_few()
            return
        failure = self._write()
        if failure is None:
            return
        if not self._wait.n_failures:
            logger.warning("%s; captions go on, and it is tried again", failure)
        self._wait.fail()
        self._keep_few()

    def close(self) -> None:
        """Write what waits, for the last time.

        Raises:
            OutputError: that failed; the message counts the missing events.
        """
        failure = self._write()
        self._sink.close()
        n_lost = len(self._waiting) + self._n_dropped
        self._waiting.clear()
        self._n_dropped = 0
        if n_lost:
            why = failure or f"{self._sink.name} could not be written for too long"
            raise OutputError(f"{why}; {n_lost} events are not in it")

    def _write(self) -> OutputError | None:
        """Write what waits, as far as the sink takes it; return its error."""
        try:
            while self._waiting:
                self._sink.put(self._waiting[0])
                self._waiting.popleft()
        except OutputError as error:
            return error
        if self._wait.n_failures:
            logger.warning("%s is written again", self._sink.name)
            self._wait.succeed()
        return None

    def _keep_few(self) -> None:
        if isinstance(self._waiting[-1], Partial):
            self._waiting.pop()
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._n_dropped += 1
