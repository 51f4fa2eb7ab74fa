"""A job whose folders are watched: new recordings are transcribed once they stop growing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, TypeAlias

from whisper_hailo.batch.job import Job
from whisper_hailo.batch.run import ShardRunner
from whisper_hailo.batch.shards import Shard
from whisper_hailo.batch.storage import is_address

INTERVAL_S: Final = 5.0
"""Time between two looks at the folders, in which a file that is being copied grows."""

_IDLE_S: Final = 0.1

_Shape: TypeAlias = tuple[int, int]


class StillFiles:
    """Tells files that did not change between two looks."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Shape] = {}

    def __call__(self, audio: str) -> bool:
        """Return whether a file has the size and time of the last look."""
        if is_address(audio):
            return True  # what a bucket lists is complete
        try:
            status = os.stat(audio)
        except OSError:
            return False
        shape = (status.st_size, status.st_mtime_ns)
        is_still = self._shapes.get(audio) == shape
        self._shapes[audio] = shape
        return is_still


def watch_shards(job: Job, runner: ShardRunner) -> Iterator[Shard]:
    """Yield the shards of a job that grows, until the runner is closed."""
    while not runner.is_closed:
        yield from job.shards()
        # The last shard may get more recordings, so it must be written before it is planned again.
        while not runner.is_idle and not runner.wait(_IDLE_S):
            pass
        while not job.add_recordings() and not runner.wait(INTERVAL_S):
            pass
