"""A job in its folder: pending work, and the results of the rest.

    job.sqlite          the ledger: settings, recordings, results, runs
    transcripts/        the results, 256 items to a file, in the order of the job: JSON lines or
                        Parquet
    srt/, vtt/ ...      files of the items, if asked for
    failures.jsonl      items that could not be transcribed, and why: a manifest of its own

`transcripts/` has the same bytes in the end, whatever the engine, the number of workers, their
order, and however often a run is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, Self

from whisper_hailo.batch.ledger import Head, Ledger, RunRecord, Status
from whisper_hailo.batch.manifest import Candidate, Group, Outcome
from whisper_hailo.batch.results import ItemResult, item_files, item_result, render_part
from whisper_hailo.batch.store import LEDGER_FILE, Store
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import Settings
from whisper_hailo.text.subtitles import Layout

FAILURES_FILE: Final = "failures.jsonl"
TRANSCRIPTS: Final = "transcripts"

_PUBLISH_S: Final = 5.0
_PUBLISH_SHARE: Final = 20.0
"""A bucket gets the ledger every five seconds; a large one less often, so that this takes at most a
twentieth of the time."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What shapes the results of a job.

    Attributes:
        identity: hash of program, model and options.
        results: `jsonl` or `parquet`.
    """

    identity: str
    settings: Settings
    task: str = "transcribe"
    formats: tuple[str, ...] = ()
    results: str = "jsonl"
    layout: Layout = field(default_factory=Layout)

    @property
    def head(self) -> Head:
        return Head(self.identity, self.formats, self.results, self.layout)


class BatchJob(Closing):
    """Takes outcomes in any order, and writes results in that of the items.

    New `items` are added to the job.
    """

    def __init__(
        self, store: Store, settings: JobSettings, items: Iterable[Candidate] = ()
    ) -> None:
        self._store = store
        self._settings = settings
        self._items = items
        self._stack: ExitStack | None = None
        self._published_s = monotonic()
        self._publishing_s = 0.0

    def open(self) -> Self:
        """Resume the job, or start it."""
        items = list(self._items)  # before anything is written: a manifest may be wrong
        with ExitStack() as opened:
            self._store.hold(opened)
            path = self._store.ledger(opened)
            self._ledger = opened.enter_context(Ledger(path, self._store.name))
            self._ledger.begin(self._shared_head(), items)
            self.n_items, self.n_done, _ = self._ledger.counts()
            if not self.n_items:
                raise OptionError(f"{self._store.name} holds no job; name a manifest or a folder")
            self._n_known = self.n_done
            self._write_due()
            self._stack = opened.pop_all()
        return self

    def _shared_head(self) -> Head:
        """Return the settings of the job, with the formats of all its runs."""
        known, head = self._ledger.head(), self._settings.head
        if known is not None:
            if replace(known, formats=head.formats) != head:
                raise OptionError(
                    f"{display_path(self._store.name)} holds a job of another model, other options "
                    "or another version; give the same again, or another --output-dir"
                )
            head = replace(head, formats=tuple(dict.fromkeys(known.formats + head.formats)))
        self._formats = head.formats
        return head

    def groups(self) -> Iterator[Group]:
        """Yield the pending groups, in order."""
        return self._ledger.pending_groups()

    def take(self, outcome: Outcome) -> None:
        """Record a task's outcome; repeated ones change nothing."""
        n_done = self._ledger.add(outcome)
        if n_done is not None:
            self.n_done += n_done
            self._write_due(outcome.group)
            self._publish()

    def _write_due(self, group: int | None = None) -> None:
        for number in self._ledger.due_parts(self._formats, group):
            self._write(number)

    def _write(self, number: int) -> None:
        settings = self._settings
        results = [
            item_result(item, result, settings.settings, settings.task)
            for item, result in self._ledger.part(number)
        ]
        for result in results:
            for name, data in item_files(result, self._formats, settings.layout):
                self._store.write(name, data)
        layout = settings.results
        self._store.write(f"{TRANSCRIPTS}/part-{number:05}.{layout}", render_part(results, layout))
        self._ledger.mark_written(number, len(results), self._formats)

    def _publish(self, *, at_once: bool = False) -> None:
        """Copy the ledger to a remote store."""
        begin_s = monotonic()
        wait_s = max(_PUBLISH_S, _PUBLISH_SHARE * self._publishing_s)
        if self._store.is_local or (begin_s - self._published_s < wait_s and not at_once):
            return
        self._store.write(LEDGER_FILE, self._ledger.snapshot())
        self._published_s = monotonic()
        self._publishing_s = self._published_s - begin_s

    @property
    def failures(self) -> list[str]:
        """Lines of a manifest for the items that failed."""
        return [
            ItemResult(item, None, result.failure).failure_line()
            for item, result in self._ledger.failures()
        ]

    @property
    def record(self) -> RunRecord:
        return self._ledger.record

    @property
    def left_s(self) -> float | None:
        """Estimated seconds of this run to its end, by its speed so far."""
        new = self.n_done - self._n_known
        return (self.n_items - self.n_done) * self.record.seconds / new if new else None

    def close(self) -> None:
        if self._stack is not None:
            with self._stack:
                if failures := self.failures:
                    self._store.write(FAILURES_FILE, "".join(failures).encode())
                self._publish(at_once=True)


def read_status(store: Store) -> Status:
    """Return the progress of a job, also while another run works on it."""
    with ExitStack() as resources:
        path = store.ledger(resources)
        if path.exists():
            ledger = resources.enter_context(Ledger(path, store.name, read_only=True))
            if ledger.head() is not None:
                return ledger.status()
    raise OptionError(
        f"{display_path(store.name)} holds no job, expected the folder of one; check the path"
    )
