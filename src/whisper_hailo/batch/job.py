"""A job in its folder: pending work, and the results of the rest.

    job.sqlite          the ledger: settings, recordings, results, runs
    transcripts/        the results as JSON lines, 256 items to a file, in the order of the job
    srt/, vtt/ ...      files of the items, if asked for
    failures.jsonl      items that could not be transcribed, and why: a manifest of its own

`transcripts/` has the same bytes in the end, whatever the engine, the number of workers, their
order, and however often a run is killed: each task is one transaction of the ledger.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

from whisper_hailo.batch.ledger import ADVICE, LEDGER_FILE, Ledger, name_key, pack, to_json
from whisper_hailo.batch.manifest import Candidate, Item
from whisper_hailo.batch.tasks import GROUP_ITEMS, Group, Outcome, PieceResult
from whisper_hailo.core.atomic_files import exclusive_lock, wrap_os_error, write_file
from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import escape_surrogates
from whisper_hailo.core.types import Settings, Timings, Transcript
from whisper_hailo.text.formats import render
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.text.transcript_json import JSON_VERSION, verbose_json

FAILURES_FILE: Final = "failures.jsonl"
TRANSCRIPTS: Final = "transcripts"

PART_ITEMS: Final = 256
"""Recordings per result file."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What shapes the results of a job.

    Attributes:
        identity: hash of program, model and options.
    """

    identity: str
    settings: Settings
    task: str = "transcribe"
    formats: tuple[str, ...] = ()
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
        failures: kind of failure to number of items.
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


class BatchJob(Closing):
    """Takes outcomes in any order, and writes results in that of the items.

    New `items` are added to the job.
    """

    def __init__(
        self, folder: Path, settings: JobSettings, items: Iterable[Candidate] = ()
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._items = items
        self._stack: ExitStack | None = None

    def open(self) -> Self:
        """Resume the job, or start it."""
        items = list(self._items)  # before anything is written: a manifest may be wrong
        folder = display_path(self._folder)
        with ExitStack() as opened:
            with wrap_os_error(self._folder, ADVICE):
                self._folder.mkdir(parents=True, exist_ok=True)
            lock = exclusive_lock(self._folder / ".lock", ADVICE, blocking=False)
            if not opened.enter_context(lock):
                raise OutputError(
                    f"another run works on {folder}; wait for it, or give it more --workers"
                )
            self._ledger = opened.enter_context(Ledger(self._folder))
            with self._ledger.transaction():
                self._share_settings()
                self._add(items)
            ((self.n_items, self.n_done),) = self._ledger.query(
                "SELECT count(*), count(result) FROM items"
            )
            if not self.n_items:
                raise OptionError(f"{folder} holds no job; name a manifest or a folder")
            self._n_known, self._begin_s = self.n_done, monotonic()
            self.record = RunRecord(datetime.now(UTC).isoformat(timespec="microseconds"))
            self._write_due(0, self.n_items - 1)
            self._stack = opened.pop_all()
        return self

    def _share_settings(self) -> None:
        """Store what the runs of the job share; its formats are those of all runs."""
        own = f"{self._settings.identity} {to_json(self._settings.layout)}"
        formats: Sequence[str] = ()
        for identity, stored in self._ledger.query("SELECT identity, formats FROM job"):
            if identity != own:
                raise OptionError(
                    f"{display_path(self._folder)} holds a job of another model, other options "
                    "or another version; give the same again, or another --output-dir"
                )
            formats = stored.split()
        self._formats = tuple(dict.fromkeys((*formats, *self._settings.formats)))
        self._ledger.query("DELETE FROM job")
        self._ledger.query("INSERT INTO job VALUES (?, ?)", own, " ".join(self._formats))

    def _add(self, candidates: Iterable[Candidate]) -> None:
        """Add new recordings, in groups of their own: tasks are cut from whole groups."""
        query = self._ledger.query
        ((number, group),) = query(
            "SELECT ifnull(max(number), -1), ifnull(max(grp), -1) FROM items"
        )
        first = number + 1
        for candidate in candidates:
            item = self._new_item(candidate)
            if item is not None:
                number += 1
                query(
                    "INSERT INTO items (number, id, audio, item, grp) VALUES (?, ?, ?, ?, ?)",
                    *(number, name_key(item.id), name_key(item.audio), to_json(item)),
                    group + 1 + (number - first) // GROUP_ITEMS,
                )

    def _new_item(self, candidate: Candidate) -> Item | None:
        """Return an item under a unique id; `None` if the job has it."""
        query, audio = self._ledger.query, name_key(candidate.item.audio)
        if candidate.folder and query("SELECT 1 FROM items WHERE audio = ? LIMIT 1", audio):
            return None  # found through another folder
        for item in candidate.spellings():
            known = query("SELECT item FROM items WHERE id = ?", name_key(item.id))
            if not known:
                return item
            if known == [(to_json(item),)]:
                return None
        raise OptionError(
            f"{display_path(self._folder)} has another recording with the id "
            f"{display_path(candidate.item.id)}, or the same with another language or metadata; "
            "give it an id of its own"
        )

    def groups(self) -> Iterator[Group]:
        """Yield the pending groups, in order; another thread may take them."""
        with Ledger(self._folder, read_only=True) as ledger:
            pending = "SELECT DISTINCT grp FROM items WHERE result IS NULL ORDER BY grp"
            for (group,) in ledger.query(pending):
                items = ledger.query("SELECT item FROM items WHERE grp = ? ORDER BY number", group)
                tasks = ledger.query("SELECT task FROM tasks WHERE grp = ?", group)
                yield Group(
                    group,
                    tuple(ledger.unpack(Item, item) for (item,) in items),
                    frozenset(task for (task,) in tasks),
                )

    def take(self, outcome: Outcome) -> None:
        """Record a task's outcome; repeated ones change nothing."""
        query, run = self._ledger.query, self.record
        record = RunRecord(
            run.begin,
            round(monotonic() - self._begin_s, 3),
            round(run.audio_s + outcome.audio_s, 3),
            run.tasks + 1,
            round(run.worker_s + outcome.took_s, 3),
        )
        with self._ledger.transaction():
            task = (outcome.group, outcome.index)
            if query("SELECT 1 FROM tasks WHERE grp = ? AND task = ?", *task):
                return
            query("INSERT INTO tasks VALUES (?, ?)", *task)
            numbers = "SELECT min(number), max(number) FROM items WHERE grp = ?"
            ((first, last),) = query(numbers, outcome.group)
            for result in outcome.results:
                number = first + result.item
                piece = (number, outcome.index, result.n_pieces, pack(result))
                query("INSERT INTO pieces VALUES (?, ?, ?, ?)", *piece)
            n_done = self._join_pieces(first, last)
            query("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", *astuple(record))
        self.record = record
        self.n_done += n_done
        if n_done:
            self._write_due(first, last)

    def _join_pieces(self, first: int, last: int) -> int:
        """Store results of recordings whose pieces are all known; return how many."""
        query = self._ledger.query
        whole = query(
            "SELECT item FROM pieces WHERE item BETWEEN ? AND ?"
            " GROUP BY item HAVING count(*) = max(n_pieces)",
            *(first, last),
        )
        for (number,) in whole:
            # Pieces of one task were stored in their order.
            rows = query("SELECT result FROM pieces WHERE item = ? ORDER BY task, rowid", number)
            result = join_pieces([self._ledger.unpack(PieceResult, data) for (data,) in rows])
            kind = result.failure and result.failure.kind
            done = (pack(result), kind, number)
            query("UPDATE items SET result = ?, failure = ? WHERE number = ?", *done)
            query("DELETE FROM pieces WHERE item = ?", number)
        return len(whole)

    def _write_due(self, first: int, last: int) -> None:
        """Write the result files around these items that are complete, and not yet written so."""
        part, last_part = first // PART_ITEMS, last // PART_ITEMS
        due = self._ledger.query(
            "SELECT number / ?, count(*) FROM items WHERE number BETWEEN ? AND ?"
            " GROUP BY 1 HAVING count(result) = count(*)"
            " EXCEPT SELECT part, items FROM parts WHERE part BETWEEN ? AND ? AND formats = ?",
            *(PART_ITEMS, part * PART_ITEMS, (last_part + 1) * PART_ITEMS - 1),
            *(part, last_part, " ".join(self._formats)),
        )
        for part, n_items in due:
            self._write_part(part)
            written = (part, n_items, " ".join(self._formats))
            self._ledger.query("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", *written)

    def _write_part(self, part: int) -> None:
        """Write a file of results, and the files of its items."""
        settings, lines = self._settings, []
        rows = self._ledger.query(
            "SELECT item, result FROM items WHERE number BETWEEN ? AND ? ORDER BY number",
            *(part * PART_ITEMS, (part + 1) * PART_ITEMS - 1),
        )
        for stored, data in rows:
            item = self._ledger.unpack(Item, stored)
            result = self._ledger.unpack(PieceResult, data)
            record: dict[str, Any] = {"version": JSON_VERSION, "id": item.id, "audio": item.audio}
            if result.failure is not None:
                record["error"] = asdict(result.failure)
            else:
                transcript = Transcript(
                    *(item.id, result.end_s, result.language, settings.task, result.segments),
                    *(Timings(), settings.settings),
                )
                record |= verbose_json(transcript)
                for fmt in self._formats:
                    path = self._folder / fmt / f"{item.id}.{fmt}"
                    write_file(path, render(transcript, fmt, settings.layout), ADVICE)
            lines.append(_json_line(record | {"metadata": item.metadata}))
        path = self._folder / TRANSCRIPTS / f"part-{part:05}.jsonl"
        write_file(path, "".join(lines), ADVICE)

    @property
    def failures(self) -> list[str]:
        """Lines of a manifest for the items that failed, with which they can be retried."""
        lines = []
        for stored, data in self._ledger.query(
            "SELECT item, result FROM items WHERE failure IS NOT NULL ORDER BY number"
        ):
            item = self._ledger.unpack(Item, stored)
            failure = self._ledger.unpack(PieceResult, data).failure
            record = {"id": item.id, "audio": item.audio, "language": item.language}
            if item.language is None:
                del record["language"]
            error = None if failure is None else asdict(failure)
            lines.append(_json_line(record | {"metadata": item.metadata, "error": error}))
        return lines

    @property
    def left_s(self) -> float | None:
        """Estimated seconds of this run to its end, by its speed so far."""
        new = self.n_done - self._n_known
        return (self.n_items - self.n_done) * self.record.seconds / new if new else None

    def close(self) -> None:
        if self._stack is not None:
            with self._stack:
                if failures := self.failures:
                    write_file(self._folder / FAILURES_FILE, "".join(failures), ADVICE)


def _json_line(record: dict[str, Any]) -> str:
    return escape_surrogates(json.dumps(record, ensure_ascii=False, allow_nan=False)) + "\n"


def join_pieces(pieces: Sequence[PieceResult]) -> PieceResult:
    """Join the pieces of one item, in order.

    If any of them failed the item has: part of a transcript would be taken for all of it.
    """
    failed = next((piece for piece in pieces if piece.failure), None)
    if failed is not None:
        return failed
    letters: Counter[str] = Counter()
    for piece in pieces:
        letters[piece.language] += sum(len(segment.text) for segment in piece.segments)
    ((language, _),) = letters.most_common(1)
    segments = tuple(segment for piece in pieces for segment in piece.segments)
    return replace(pieces[-1], language=language, segments=segments)


def read_status(folder: Path) -> Status:
    """Return the progress of a job, also while another run works on it."""
    if (folder / LEDGER_FILE).exists():
        with Ledger(folder, read_only=True) as ledger:
            ((n_items, n_tried, n_failed),) = ledger.query(
                "SELECT count(*), count(result), count(failure) FROM items"
            )
            kinds = ledger.query(
                "SELECT failure, count(*) FROM items WHERE failure IS NOT NULL GROUP BY 1"
            )
            runs = ledger.query("SELECT * FROM runs ORDER BY begin DESC")
        if n_items:
            audio_s = sum(RunRecord(*run).audio_s for run in runs)
            speed = RunRecord(*runs[0]).speed if runs else 0.0
            done, left = n_tried - n_failed, n_items - n_tried
            left_s = round(left * audio_s / done / speed, 1) if done and speed else None
            return Status(
                *(n_items, done, n_failed, round(audio_s, 3), round(speed, 3), left_s, dict(kinds))
            )
    raise OptionError(
        f"{display_path(folder)} holds no job, expected the folder of one; check the path"
    )
