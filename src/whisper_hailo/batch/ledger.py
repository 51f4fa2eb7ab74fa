"""The ledger of a job: one SQLite file with its settings, recordings, results and runs.

    job         settings, which a later run must share
    items       recordings, and the result of each that is done
    outcomes    tasks of groups that are not whole yet
    parts       result files written so far
    runs        how long each run worked, and how far it came

Each task is one transaction: a run may be killed at any moment.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self, TypeVar

from whisper_hailo.batch.manifest import GROUP_ITEMS, Candidate, Group, Item, Outcome, PieceResult
from whisper_hailo.batch.results import join_pieces
from whisper_hailo.batch.store import LEDGER_FILE
from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json
from whisper_hailo.text.subtitles import Layout

T = TypeVar("T")


PART_ITEMS: Final = 256
"""Recordings per result file."""

_VERSION: Final = 2
_SCHEMA: Final = (
    "CREATE TABLE job (settings TEXT)",
    "CREATE TABLE items (number INTEGER PRIMARY KEY, id BLOB UNIQUE, audio BLOB, item TEXT,"
    " grp INTEGER, result BLOB, failure TEXT)",
    "CREATE INDEX items_of_audio ON items (audio)",
    "CREATE INDEX items_of_group ON items (grp)",
    "CREATE TABLE outcomes (grp INTEGER, task INTEGER, is_last INTEGER, last_place INTEGER,"
    " outcome BLOB, PRIMARY KEY (grp, task))",
    "CREATE TABLE parts (part INTEGER PRIMARY KEY, items INTEGER, formats TEXT)",
    "CREATE TABLE runs (begin TEXT PRIMARY KEY, seconds REAL, audio_s REAL, tasks INTEGER,"
    " worker_s REAL)",
    f"PRAGMA user_version = {_VERSION}",
)
_PATIENCE_S: Final = 10.0
_ADVICE: Final = "free some space, or make it writable, and run the same command again"


@dataclass(frozen=True, slots=True)
class Head:
    """Settings of a job; see `JobSettings`."""

    identity: str
    formats: tuple[str, ...] = ()
    results: str = "jsonl"
    layout: Layout = field(default_factory=Layout)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Progress of one run.

    Attributes:
        begin: time of day, RFC 3339.
        audio_s: seconds of audio transcribed.
        worker_s: seconds of all its workers together.
    """

    begin: str
    seconds: float = 0.0
    audio_s: float = 0.0
    tasks: int = 0
    worker_s: float = 0.0

    @property
    def speed(self) -> float:
        """Seconds of audio per second."""
        return self.audio_s / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a job.

    Attributes:
        audio_s: seconds of audio transcribed.
        speed: seconds of audio per second in the last run; 0 if unknown.
        left_s: estimated seconds to the end at that speed; `None` if unknown.
    """

    items: int
    done: int = 0
    failed: int = 0
    audio_s: float = 0.0
    speed: float = 0.0
    left_s: float | None = None
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def remaining(self) -> int:
        """Items without a final result."""
        return self.items - self.done - self.failed


class Ledger(Closing):
    """Reads and writes a job's file.

    `place` names the job in messages; `read_only` works also while another run writes.
    """

    def __init__(self, path: Path, place: str, *, read_only: bool = False) -> None:
        self._path = path
        self._place = place
        self._read_only = read_only
        self._begin_s = monotonic()
        self.record = RunRecord(datetime.now(UTC).isoformat(timespec="microseconds"))

    def open(self) -> Self:
        with self._wrapped_errors():
            self._db = self._connect(read_only=self._read_only)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
        return self

    def _connect(self, *, read_only: bool) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path.absolute().as_uri() + ("?mode=ro" if read_only else ""),
            uri=True,
            timeout=_PATIENCE_S,
            isolation_level=None,
            check_same_thread=False,  # a thread may leave an iterator for another one to close
        )

    def _prepare(self) -> None:
        if not self._read_only:
            self._db.execute("PRAGMA journal_mode = WAL")
        ((version,),) = self._db.execute("PRAGMA user_version")
        if version == 0 and not self._read_only:
            with self._transaction():
                for statement in _SCHEMA:
                    self._db.execute(statement)
        elif version not in (0, _VERSION):
            raise OptionError(
                f"{display_path(self._place)} holds a job of layout {version}, expected "
                f"{_VERSION}; give another folder"
            )

    def close(self) -> None:
        try:
            if not self._read_only:
                self._db.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error:
            pass  # somebody looks at it, or the disk is full: the next run goes on from the WAL
        finally:
            self._db.close()

    def snapshot(self) -> bytes:
        """Return the whole file, for remote stores."""
        return self._db.serialize()

    @contextmanager
    def _wrapped_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            place = display_path(f"{self._place}/{LEDGER_FILE}")
            code = getattr(error, "sqlite_errorcode", None)
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise OutputError(
                    f"{place} is damaged ({error}); begin the job in another folder"
                ) from error
            raise OutputError(f"cannot use {place} ({error}); {_ADVICE}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._wrapped_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _decoded(self, kind: type[T], data: str | bytes) -> T:
        try:
            raw = data.encode() if isinstance(data, str) else zlib.decompress(data)
            return decode(kind, parse_json(raw))
        except (MismatchError, zlib.error) as error:
            raise OutputError(
                f"{display_path(self._place)}/{LEDGER_FILE} is damaged ({error}); begin the job in "
                "another folder"
            ) from error

    def head(self) -> Head | None:
        """Return the settings of the job; `None` for a new one."""
        with self._wrapped_errors():
            if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'job'").fetchone():
                return None
            row = self._db.execute("SELECT settings FROM job").fetchone()
        return None if row is None else self._decoded(Head, row[0])

    def begin(self, head: Head, candidates: Iterable[Candidate]) -> None:
        """Store the settings, and add new recordings."""
        with self._transaction():
            self._db.execute("DELETE FROM job")
            self._db.execute("INSERT INTO job VALUES (?)", (_json(head),))
            row = self._db.execute("SELECT max(number), max(grp) FROM items").fetchone()
            number, group, size = *(-1 if value is None else value for value in row), GROUP_ITEMS
            for candidate in candidates:
                item = self._new_item(candidate)
                if item is None:
                    continue
                if size == GROUP_ITEMS:  # groups never grow: tasks are cut from whole ones
                    group, size = group + 1, 0
                number, size = number + 1, size + 1
                self._db.execute(
                    "INSERT INTO items (number, id, audio, item, grp) VALUES (?, ?, ?, ?, ?)",
                    (number, _key(item.id), _key(item.audio), _json(item), group),
                )

    def _new_item(self, candidate: Candidate) -> Item | None:
        """Return an item under a unique id; `None` if the job has it."""
        if candidate.folder and self._has_audio(candidate.item.audio):
            return None  # found through another folder
        for item in candidate.spellings():
            row = self._db.execute(
                "SELECT item FROM items WHERE id = ?", (_key(item.id),)
            ).fetchone()
            if row is None:
                return item
            if row[0] == _json(item):
                return None
        raise OptionError(
            f"{display_path(self._place)} has another recording with the id "
            f"{display_path(candidate.item.id)}, or the same with another language or metadata; "
            "give it an id of its own"
        )

    def _has_audio(self, audio: str) -> bool:
        row = self._db.execute("SELECT 1 FROM items WHERE audio = ? LIMIT 1", (_key(audio),))
        return row.fetchone() is not None

    def pending_groups(self) -> Iterator[Group]:
        """Yield the pending groups, in order; another thread may take them."""
        with self._wrapped_errors(), closing(self._connect(read_only=True)) as db:
            pending = db.execute(
                "SELECT DISTINCT grp FROM items WHERE result IS NULL ORDER BY grp"
            ).fetchall()
            for (group,) in pending:
                items = db.execute("SELECT item FROM items WHERE grp = ? ORDER BY number", (group,))
                tasks = db.execute("SELECT task FROM outcomes WHERE grp = ?", (group,))
                yield Group(
                    group,
                    tuple(self._decoded(Item, item) for (item,) in items),
                    frozenset(task for (task,) in tasks),
                )

    def add(self, outcome: Outcome) -> int | None:
        """Store a task's outcome in one transaction.

        Returns:
            how many recordings it completes; `None` if it was known.
        """
        group = outcome.group
        last_place = max((result.item for result in outcome.results), default=-1)
        with self._transaction():
            row = (group, outcome.index, outcome.is_last, last_place, _packed(outcome))
            added = self._db.execute(
                "INSERT OR IGNORE INTO outcomes SELECT ?, ?, ?, ?, ? WHERE EXISTS"
                " (SELECT 1 FROM items WHERE grp = ? AND result IS NULL)",
                (*row, group),
            )
            if added.rowcount == 0:
                return None
            self._count(outcome)
            return self._settle(group)

    def _settle(self, group: int) -> int:
        """Store the results of a group's items that the known tasks complete."""
        known = self._db.execute(
            "SELECT task, is_last, last_place FROM outcomes WHERE grp = ? ORDER BY task", (group,)
        )
        n_tasks, n_over, is_whole = 0, 0, False
        for task, is_last, last_place in known:
            if task != n_tasks:
                break
            n_tasks, is_whole = n_tasks + 1, bool(is_last)
            n_over = max(n_over, last_place)  # an item is over when the next one has begun
        items = self._db.execute(
            "SELECT number, result IS NOT NULL FROM items WHERE grp = ? ORDER BY number", (group,)
        ).fetchall()
        over = items if is_whole else items[:n_over]
        places = {place: number for place, (number, done) in enumerate(over) if not done}
        if places:
            pieces = self._pieces(group, n_tasks, min(places))
            for place, number in places.items():
                result = join_pieces([piece for piece in pieces if piece.item == place])
                kind = None if result.failure is None else result.failure.kind
                self._db.execute(
                    "UPDATE items SET result = ?, failure = ? WHERE number = ?",
                    (_packed(result), kind, number),
                )
        if is_whole:
            self._db.execute("DELETE FROM outcomes WHERE grp = ?", (group,))
        return len(places)

    def _pieces(self, group: int, n_tasks: int, first_place: int) -> list[PieceResult]:
        rows = self._db.execute(
            "SELECT outcome FROM outcomes WHERE grp = ? AND task < ? AND last_place >= ?"
            " ORDER BY task",
            (group, n_tasks, first_place),
        )
        return [result for (row,) in rows for result in self._decoded(Outcome, row).results]

    def _count(self, outcome: Outcome) -> None:
        now, run = monotonic(), self.record
        self.record = RunRecord(
            run.begin,
            round(now - self._begin_s, 3),
            round(run.audio_s + outcome.audio_s, 3),
            run.tasks + 1,
            round(run.worker_s + outcome.took_s, 3),
        )
        self._db.execute(
            "INSERT OR REPLACE INTO runs VALUES (:begin, :seconds, :audio_s, :tasks, :worker_s)",
            asdict(self.record),
        )

    def due_parts(self, formats: tuple[str, ...], group: int | None = None) -> list[int]:
        """Return the complete result files that are not written in these formats."""
        query = "SELECT min(number), max(number) FROM items"
        with self._wrapped_errors():
            if group is None:
                row = self._db.execute(query).fetchone()
            else:
                row = self._db.execute(f"{query} WHERE grp = ?", (group,)).fetchone()
            first, last = (number // PART_ITEMS for number in row)
            whole = self._db.execute(
                "SELECT number / ?, count(*) FROM items WHERE number BETWEEN ? AND ?"
                " GROUP BY 1 HAVING count(result) = count(*)",
                (PART_ITEMS, first * PART_ITEMS, (last + 1) * PART_ITEMS - 1),
            ).fetchall()
            parts = self._db.execute(
                "SELECT * FROM parts WHERE part BETWEEN ? AND ?", (first, last)
            )
            written = {row[0]: row[1:] for row in parts}
        now = json.dumps(formats)
        return [part for part, n_items in whole if written.get(part) != (n_items, now)]

    def part(self, number: int) -> list[tuple[Item, PieceResult]]:
        """Return the recordings of a complete result file, in order."""
        with self._wrapped_errors():
            rows = self._db.execute(
                "SELECT item, result FROM items WHERE number BETWEEN ? AND ? ORDER BY number",
                (number * PART_ITEMS, (number + 1) * PART_ITEMS - 1),
            ).fetchall()
        return [
            (self._decoded(Item, item), self._decoded(PieceResult, data)) for item, data in rows
        ]

    def mark_written(self, part: int, n_items: int, formats: tuple[str, ...]) -> None:
        """Record that a result file is written."""
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)",
                (part, n_items, json.dumps(formats)),
            )

    def failures(self) -> Iterator[tuple[Item, PieceResult]]:
        """Yield the recordings that failed, in order."""
        with self._wrapped_errors():
            for item, data in self._db.execute(
                "SELECT item, result FROM items WHERE failure IS NOT NULL ORDER BY number"
            ):
                yield self._decoded(Item, item), self._decoded(PieceResult, data)

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of items, of tried ones, and of failed ones."""
        with self._wrapped_errors():
            row = self._db.execute("SELECT count(*), count(result), count(failure) FROM items")
            n_items, n_tried, n_failed = row.fetchone()
        return n_items, n_tried, n_failed

    def status(self) -> Status:
        n_items, n_tried, n_failed = self.counts()
        with self._wrapped_errors():
            kinds = dict(
                self._db.execute(
                    "SELECT failure, count(*) FROM items WHERE failure IS NOT NULL GROUP BY 1"
                )
            )
            (audio_s,) = self._db.execute("SELECT total(audio_s) FROM runs").fetchone()
            last = self._db.execute("SELECT * FROM runs ORDER BY begin DESC LIMIT 1").fetchone()
        speed = RunRecord(*last).speed if last else 0.0
        done = n_tried - n_failed
        left = n_items - n_tried
        return Status(
            n_items,
            done,
            n_failed,
            round(audio_s, 3),
            round(speed, 3),
            round(left * audio_s / done / speed, 1) if done and speed else None,
            kinds,
        )


def _key(name: str) -> bytes:
    """Return a name as bytes: file names need not be UTF-8."""
    return name.encode("utf-8", "surrogatepass")


def _json(value: Any) -> str:  # noqa: ANN401 - any of the dataclasses above
    return json.dumps(asdict(value), sort_keys=True, allow_nan=False)


def _packed(value: Any) -> bytes:  # noqa: ANN401 - any of the dataclasses above
    return zlib.compress(_json(value).encode(), 1)
