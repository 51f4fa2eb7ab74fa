"""Progress of a number of named steps."""

from __future__ import annotations

from time import monotonic

from whisper_hailo.cli.progress import StatusLine, clock


class Steps(StatusLine):
    """A line on standard error with the current step, how many there are, and the time so far."""

    def __init__(self) -> None:
        super().__init__()
        self._begin_s = monotonic()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Report the steps done, their number, and the current one."""
        self.update(f"{done} of {total}, {clock(monotonic() - self._begin_s)}: {what}")
