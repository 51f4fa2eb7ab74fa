"""A job in its folder: what is left to do, and what came of the rest.

    job.json            the settings, which a later run has to have, too
    items.jsonl         the manifest, as it was read
    ledger/             outcomes of tasks whose results are not written yet
    transcripts/        the results, 256 items to a file, in the order of the manifest: JSON lines
                        or Parquet
    shards/             a summary beside each such file; one that is there says that it is whole
    srt/, vtt/ ...      files of the items, where they were asked for
    failures.jsonl      items that could not be transcribed, and why: a manifest of its own
    runs/               how long each run worked, and how far it came

Whatever the engine, the number of workers, the order in which they finish and how often a run is
killed: `transcripts/` has the same bytes in the end.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Self

from whisper_hailo.batch.job_files import (
    ITEMS_FILE,
    JOB_FILE,
    SUMMARIES,
    VERSION,
    FileSummary,
    Head,
    read_head,
    read_summaries,
)
from whisper_hailo.batch.ledger import Ledger
from whisper_hailo.batch.manifest import read_groups, written
from whisper_hailo.batch.records import Group, Item, Outcome
from whisper_hailo.batch.results import (
    SHARD_GROUPS,
    ItemResult,
    files_of,
    first_group,
    item_results,
    shard,
)
from whisper_hailo.batch.run_log import RunLog
from whisper_hailo.batch.store import Store
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Settings
from whisper_hailo.text.subtitles import Layout

FAILURES_FILE: Final = "failures.jsonl"
TRANSCRIPTS: Final = "transcripts"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What shapes the results of a job.

    Attributes:
        identity: tells program, model and options.
        settings: for the results' own.
        task: `transcribe` or `translate`.
        formats: of files for each item.
        results: layout of the files of results.
        layout: of subtitles.
    """

    identity: str
    settings: Settings
    task: str = "transcribe"
    formats: tuple[str, ...] = ()
    results: str = "jsonl"
    layout: Layout = field(default_factory=Layout)


class BatchJob(Closing):
    """Takes outcomes in any order, and writes results in that of the manifest.

    Args:
        store: its place.
        settings: what shapes the results.
        items: of the manifest; `None` for a job that is there already.
    """

    def __init__(
        self, store: Store, settings: JobSettings, items: Iterable[Item] | None = None
    ) -> None:
        self._store = store
        self._settings = settings
        self._items = items
        self._stack = ExitStack()
        self._ledger = Ledger(store)
        self._groups: list[Group] = []
        self._outcomes: dict[int, dict[int, Outcome]] = defaultdict(dict)
        self._results: dict[int, list[ItemResult]] = {}
        self._summaries: dict[int, FileSummary] = {}
        self.log = RunLog(store, self._ledger.run)

    def open(self) -> Self:
        """Look at what earlier runs left, or begin.

        Raises:
            OptionError: what is there is a job of other items or other settings.
            OutputError: the place cannot be written, or another run works there.
        """
        with ExitStack() as opened:
            self._store.hold(opened)
            self._groups = list(read_groups(self._begin()))
            self._summaries = read_summaries(self._store)
            for outcome in self._ledger.read():
                if not self._is_known(outcome):
                    self._put(outcome)
            for number in {group // SHARD_GROUPS for group in self._results}:
                self._settle(number)
            self._n_known = self.n_done
            self._stack = opened.pop_all()
        return self

    def _begin(self) -> bytes:
        """The items of the job, which is begun if it is not there yet."""
        known = read_head(self._store)
        data = None if self._items is None else written(iter(self._items))
        if known is None:
            if data is None:
                raise OptionError(f"{self._store.name} holds no job; name a manifest or a folder")
            self._store.write(ITEMS_FILE, data)
            self._store.write(JOB_FILE, _json(asdict(self._head(data))))
            return data
        own = data if data is not None else self._store.read(ITEMS_FILE) or b""
        asked = self._head(own)
        if asked != known:
            same_items = asked.items_sha256 == known.items_sha256
            differs = (
                "another model, other options or another version"
                if same_items
                else "other recordings"
            )
            raise OptionError(
                f"{self._store.name} holds a job of {differs}; give the same again, or another "
                "--output-dir"
            )
        return own

    def _head(self, items: bytes) -> Head:
        """What `job.json` says of a job of these items."""
        settings = self._settings
        return Head(
            VERSION, settings.identity, items.count(b"\n"), _hash(items),
            settings.formats, settings.results, settings.layout,
        )  # fmt: skip

    def groups(self) -> Iterator[Group]:
        """What is left to do, in order."""
        for group in self._groups:
            if not self._is_written(group.index) and group.index not in self._results:
                yield replace(group, done=frozenset(self._outcomes[group.index]))

    def take(self, outcome: Outcome) -> None:
        """Note what came of a task; a second outcome of the same task changes nothing.

        Raises:
            OutputError: the place cannot be written.
        """
        if self._is_known(outcome):
            return
        self._ledger.add(outcome)
        self._put(outcome)
        if outcome.group in self._results:
            self._settle(outcome.group // SHARD_GROUPS)
        self.log.note(outcome)

    def _is_known(self, outcome: Outcome) -> bool:
        group = outcome.group
        settled = self._is_written(group) or group in self._results
        return settled or outcome.index in self._outcomes[group]

    def _is_written(self, group: int) -> bool:
        """Whether the file of results that a group belongs to is whole."""
        return group // SHARD_GROUPS in self._summaries

    def _put(self, outcome: Outcome) -> None:
        """Keep an outcome; of a group that is whole with it, its results instead."""
        known = self._outcomes[outcome.group]
        known[outcome.index] = outcome
        last = next((index for index, one in known.items() if one.is_last), None)
        if last is not None and len(known) > last:
            self._results[outcome.group] = item_results(
                self._groups[outcome.group],
                [known[index] for index in range(last + 1)],
                self._settings.settings,
                self._settings.task,
            )
            del self._outcomes[outcome.group]

    def _settle(self, number: int) -> None:
        """Write a file of results if all of its groups are whole."""
        first = first_group(number)
        groups = range(first, min(first + SHARD_GROUPS, len(self._groups)))
        if all(group in self._results for group in groups):
            self._write(number, [one for group in groups for one in self._results.pop(group)])
            self._ledger.forget(self._is_written)

    def _write(self, number: int, results: Sequence[ItemResult]) -> None:
        for result in results:
            for name, data in files_of(result, self._settings.formats, self._settings.layout):
                self._store.write(name, data)
        layout = self._settings.results
        self._store.write(f"{TRANSCRIPTS}/part-{number:05}.{layout}", shard(results, layout))
        failed = (result for result in results if result.transcript is None)
        failures = tuple(result.failure_line() for result in failed)
        audio_s = round(sum(result.duration_s for result in results), 3)
        summary = FileSummary(len(results), audio_s, failures)
        self._store.write(f"{SUMMARIES}/part-{number:05}.json", _json(asdict(summary)))
        self._summaries[number] = summary

    @property
    def failures(self) -> list[str]:
        """Lines of the items that failed, as far as their files are written."""
        return [
            line for number in sorted(self._summaries) for line in self._summaries[number].failures
        ]

    @property
    def n_items(self) -> int:
        return sum(len(group.items) for group in self._groups)

    @property
    def n_done(self) -> int:
        """Items whose groups are whole, failed ones with them."""
        waiting = sum(len(results) for results in self._results.values())
        return waiting + sum(summary.items for summary in self._summaries.values())

    @property
    def left_s(self) -> float | None:
        """About so long this run still takes, if what is left is as long as what it has done."""
        new = self.n_done - self._n_known
        record = self.log.record
        return (self.n_items - self.n_done) * record.seconds / new if new else None

    @property
    def is_done(self) -> bool:
        return len(self._summaries) == -(-len(self._groups) // SHARD_GROUPS)

    def close(self) -> None:
        """Put everything into the store, also that which is unfinished.

        Raises:
            OutputError: the place cannot be written.
        """
        try:
            if self._groups:
                self._ledger.flush()
                self.log.flush()
                if self.failures:
                    self._store.write(FAILURES_FILE, "".join(self.failures).encode())
        finally:
            self._stack.close()


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
