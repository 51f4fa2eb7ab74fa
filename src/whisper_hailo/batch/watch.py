"""A job whose folders are watched: new recordings are transcribed once they stop growing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

from whisper_hailo.batch.job import Job
from whisper_hailo.batch.run import ShardRunner
from whisper_hailo.batch.shards import Shard
from whisper_hailo.batch.storage import is_address

INTERVAL_S: Final = 5.0
"""Time between two looks at the folders, and for which a file that is complete does not grow."""

_IDLE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Look:
    """Size and time of a file, and when it was first seen with them."""

    shape: tuple[int, int]
    first_s: float


class StillFiles:
    """Tells files that have not changed for `INTERVAL_S`."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def __call__(self, audio: str) -> bool:
        """Return whether a file has had its size and time for long enough."""
        if is_address(audio):
            return True  # what a bucket lists is complete
        try:
            status = os.stat(audio)
        except OSError:
            return False
        now_s = monotonic()
        shape = (status.st_size, status.st_mtime_ns)
        look = self._looks.get(audio)
        if look is None or look.shape != shape:
            look = _Look(shape, now_s)
            self._looks[audio] = look
        return now_s - look.first_s >= INTERVAL_S


def watch_shards(job: Job, runner: ShardRunner) -> Iterator[Shard]:
    """Yield the shards of a job that grows, until the runner is closed."""
    while not runner.is_closed:
        yield from job.shards()
        # The last shard may get more recordings, so it must be written before it is planned again.
        while not runner.is_idle and not runner.wait(_IDLE_S):
            pass
        while not job.add_recordings() and not runner.wait(INTERVAL_S):
            pass
