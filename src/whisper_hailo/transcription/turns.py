"""Whose turn it is among recordings of different urgency."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from whisper_hailo.transcription.recording import Recording

PATIENCE: Final = 8
"""So many batches on end what waits is passed over by what is more urgent; the next one is its."""


class Turns:
    """The most urgent goes first, and of several alike the one who had least.

    But nobody waits for ever: however much comes that is urgent, of nine batches one is of what
    waits behind it.
    """

    def __init__(self) -> None:
        self._passed: dict[int, int] = {}

    def note(self, served: Iterable[Recording], waiting: Collection[Recording]) -> None:
        """A batch is decoded.

        Args:
            served: recordings that have a window in it.
            waiting: all that have, or may have, a window to be decoded.
        """
        had = {recording.priority for recording in served}
        self._passed = {
            priority: self._passed.get(priority, 0) + 1
            for priority in {recording.priority for recording in waiting} - had
        }

    def is_due(self, priority: int) -> bool:
        """Whether what has this priority was passed over for long enough."""
        return self._passed.get(priority, 0) >= PATIENCE

    def next_of(self, ready: Iterable[Recording]) -> Recording:
        """Whose turn it is; of several alike, the one that came first."""
        return min(ready, key=self._rank)

    def _rank(self, recording: Recording) -> tuple[bool, int, int]:
        is_due = self.is_due(recording.priority)
        return not is_due, recording.priority, recording.share.n_windows
