"""How far one run of a job came, and how long it took."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from whisper_hailo.batch.records import Outcome
from whisper_hailo.batch.store import Store

FOLDER: Final = "runs"
_INTERVAL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run.

    Attributes:
        begin: time of day, RFC 3339.
        seconds: that it worked so far.
        audio_s: seconds of audio that it transcribed.
        tasks: that it did.
        worker_s: seconds of all its workers together.
    """

    begin: str
    seconds: float = 0.0
    audio_s: float = 0.0
    tasks: int = 0
    worker_s: float = 0.0

    @property
    def speed(self) -> float:
        """Seconds of audio in a second."""
        return self.audio_s / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class RunLog:
    """Keeps a run's record up to date in the store."""

    store: Store
    run: str
    audio_s: float = 0.0
    tasks: int = 0
    worker_s: float = 0.0
    _begin: datetime = field(default_factory=lambda: datetime.now(UTC))
    _begin_s: float = field(default_factory=monotonic)
    _written_s: float = field(default_factory=monotonic)

    @property
    def record(self) -> RunRecord:
        """Of the run until now."""
        return RunRecord(
            self._begin.isoformat(timespec="milliseconds"),
            round(monotonic() - self._begin_s, 3),
            round(self.audio_s, 3),
            self.tasks,
            round(self.worker_s, 3),
        )

    def note(self, outcome: Outcome) -> None:
        """Count a task.

        Raises:
            OutputError: the store cannot be written.
        """
        self.tasks += 1
        self.worker_s += outcome.took_s
        self.audio_s += outcome.audio_s
        if monotonic() - self._written_s >= _INTERVAL_S:
            self.flush()

    def flush(self) -> None:
        """Write the record.

        Raises:
            OutputError: the store cannot be written.
        """
        self._written_s = monotonic()
        if self.tasks:
            data = json.dumps(asdict(self.record)).encode()
            self.store.write(f"{FOLDER}/{self.run}.json", data + b"\n")
