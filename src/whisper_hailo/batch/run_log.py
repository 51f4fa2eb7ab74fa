"""What a run has done, in files that `batch status` reads; no two runs write to the same."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from whisper_hailo.batch.shard_work import ShardReport
from whisper_hailo.batch.storage import Storage

RUNS: Final = "runs"

_MOST_LINES: Final = 500
"""Lines of a file, which is written whole for each: nothing can be added to one in a bucket."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A shard that a run has done.

    Attributes:
        seconds: from the start of the run.
    """

    seconds: float
    report: ShardReport


class RunLog:
    """The files of this run."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._begin = datetime.now(UTC)
        time = self._begin.strftime("%Y%m%dT%H%M%S%f")
        self._name = f"{RUNS}/{time}-{socket.gethostname()}-{os.getpid()}"
        self._n_files = 0
        self._lines: list[str] = []

    def write(self, report: ShardReport) -> None:
        """Add a shard that is done."""
        now = datetime.now(UTC)
        entry = RunEntry(round((now - self._begin).total_seconds(), 3), report)
        if len(self._lines) == _MOST_LINES:
            self._lines = []
            self._n_files += 1
        if not self._lines:
            begin = {"begin": self._begin.isoformat()}
            self._lines.append(json.dumps(begin) + "\n")
        self._lines.append(json.dumps(asdict(entry)) + "\n")
        name = f"{self._name}-{self._n_files}.jsonl"
        self._storage.write(name, "".join(self._lines))
