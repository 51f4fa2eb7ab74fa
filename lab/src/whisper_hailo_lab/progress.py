"""Progress of a number of steps, on standard error."""

from __future__ import annotations

from time import monotonic

from whisper_hailo.cli.progress import StatusLine, clock


class StepProgress(StatusLine):
    """A status line with the current step, the number of steps, and the time so far."""

    def __init__(self) -> None:
        super().__init__()
        self._begin_s = monotonic()

    def __call__(
        self,
        done: int,
        total: int,
        name: str,
    ) -> None:
        """Show the number of finished steps and the name of the current one."""
        elapsed = clock(monotonic() - self._begin_s)
        self.update(f"{done} of {total}, {elapsed}: {name}")
