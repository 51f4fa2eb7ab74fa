"""Where the recordings of a schedule come from, and the order in which they come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from whisper_hailo.transcription.recording import Recording

if TYPE_CHECKING:
    from whisper_hailo.transcription.schedule import Schedule


class WindowSource(Protocol):
    """Where recordings come from; more may come while others are transcribed."""

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        """The next recording, not opened yet.

        Args:
            n_free: rows of the batch that no recording under way fills; 0 where there are none, so
                that only what is urgent should come.
            idle: nothing is under way, so that it may be waited for.

        Returns:
            `None` when there is none now; when idle, that there will be none.
        """
        ...

    def rows(self, most: int) -> int:
        """How many windows the next batch may have, of so many at most."""
        ...

    def wait(self, coming: Future[Any]) -> bool:
        """Wait until something is there, or a recording for `next`; whether it is a recording."""
        ...


class Listed:
    """Recordings in the order of a list, the next one when there is room.

    Args:
        recordings: not opened yet.
    """

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings = iter(recordings)

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del idle
        return next(self._recordings, None) if n_free else None

    def rows(self, most: int) -> int:
        """As many as there are."""
        return most

    def wait(self, coming: Future[Any]) -> bool:
        """No recording comes before there is room, so that the next batch need not wait either."""
        del coming
        return False


def in_order(
    recordings: Iterable[Recording], schedule: Callable[[WindowSource], Schedule]
) -> Iterator[Recording]:
    """Transcribe a list of recordings; they come back in its order.

    Args:
        recordings: not opened yet; each is when its turn comes.
        schedule: of a source.
    """
    begun: deque[Recording] = deque()

    def noted() -> Iterator[Recording]:
        for recording in recordings:
            begun.append(recording)
            yield recording

    done: list[Recording] = []
    for recording in schedule(Listed(noted())).run():
        done.append(recording)
        while begun and begun[0] in done:
            done.remove(begun[0])
            yield begun.popleft()
