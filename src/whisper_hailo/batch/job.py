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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

from whisper_hailo.batch.ledger import (
    ADVICE,
    LEDGER_FILE,
    Ledger,
    name_key,
    pack,
    to_json,
)
from whisper_hailo.batch.manifest import Candidate, Item
from whisper_hailo.batch.tasks import GROUP_ITEMS, Failure, Group, Outcome, PieceResult
from whisper_hailo.core.atomic_files import exclusive_lock, wrap_os_error, write_file
from whisper_hailo.core.errors import AudioError, OptionError, OutputError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import escape_surrogates
from whisper_hailo.core.types import Settings, Timings, Transcript
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.text.formats import JSON, render
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.text.transcript_json import JSON_VERSION, drop_words, verbose_json

FAILURES_FILE: Final = "failures.jsonl"
TRANSCRIPTS: Final = "transcripts"

PART_ITEMS: Final = 256
"""Recordings per result file."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What shapes the results of a job.

    Attributes:
        identity: hash of program, model and options.
        has_words: results have the words that segments have; otherwise only subtitles use them.
    """

    identity: str
    settings: Settings
    task: str = "transcribe"
    formats: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    has_words: bool = True


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Progress of one run.

    Attributes:
        begin: time of day, RFC 3339.
        audio_s: seconds of audio transcribed.
        worker_s: seconds of all its workers together.
        untranscribed_s: seconds of speech that got no text.
    """

    begin: str
    seconds: float = 0.0
    audio_s: float = 0.0
    tasks: int = 0
    worker_s: float = 0.0
    untranscribed_s: float = 0.0

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
        untranscribed_s: seconds of speech that got no text.
        failures: kind of failure to number of items.
    """

    items: int
    done: int = 0
    failed: int = 0
    audio_s: float = 0.0
    speed: float = 0.0
    left_s: float | None = None
    failures: dict[str, int] = field(default_factory=dict)
    untranscribed_s: float = 0.0

    @property
    def remaining(self) -> int:
        """Items without a final result."""
        return self.items - self.done - self.failed


class BatchJob(Closing):
    """Takes outcomes in any order, and writes results in that of the items.

    New `items` are added to the job. `find_speakers` takes the name of a recording's file.
    """

    def __init__(
        self,
        folder: Path,
        settings: JobSettings,
        items: Iterable[Candidate] = (),
        *,
        find_speakers: Callable[[str], SpeakerAttribution] | None = None,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._items = items
        self._find_speakers = find_speakers
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
                self._add_items(items)
            ((self.n_items, self.n_done),) = self._ledger.query(
                "SELECT count(*), count(result) FROM items"
            )
            if not self.n_items:
                raise OptionError(f"{folder} holds no job; name a manifest or a folder")
            self._n_known = self.n_done
            self._begin_s = monotonic()
            self.record = RunRecord(
                datetime.now(UTC).isoformat(timespec="microseconds")
            )
            self._write_due(0, self.n_items - 1)
            self._stack = opened.pop_all()
        return self

    def _share_settings(self) -> None:
        """Store what the runs of the job share; its formats are those of all runs."""
        identity = f"{self._settings.identity} {to_json(self._settings.layout)}"
        formats: Sequence[str] = ()
        for job_identity, stored in self._ledger.query(
            "SELECT identity, formats FROM job"
        ):
            if job_identity != identity:
                raise OptionError(
                    f"{display_path(self._folder)} holds a job of another model, other options "
                    "or another version; give the same again, or another --output-dir"
                )
            formats = stored.split()
        self._formats = tuple(dict.fromkeys((*formats, *self._settings.formats)))
        self._ledger.query("DELETE FROM job")
        self._ledger.query(
            "INSERT INTO job VALUES (?, ?)", identity, " ".join(self._formats)
        )

    def _add_items(self, candidates: Iterable[Candidate]) -> None:
        """Add new recordings, in groups of their own: tasks are cut from whole groups."""
        ((last_number, last_group),) = self._ledger.query(
            "SELECT ifnull(max(number), -1), ifnull(max(grp), -1) FROM items"
        )
        n_added = 0
        for candidate in candidates:
            item = self._new_item(candidate)
            if item is not None:
                self._ledger.query(
                    "INSERT INTO items (number, id, audio, item, grp) VALUES (?, ?, ?, ?, ?)",
                    last_number + 1 + n_added,
                    name_key(item.id),
                    name_key(item.audio),
                    to_json(item),
                    last_group + 1 + n_added // GROUP_ITEMS,
                )
                n_added += 1

    def _new_item(self, candidate: Candidate) -> Item | None:
        """Return an item under a unique id; `None` if the job has it."""
        query = self._ledger.query
        if candidate.folder:  # it may have been found through another folder
            audio = name_key(candidate.item.audio)
            if query("SELECT 1 FROM items WHERE audio = ? LIMIT 1", audio):
                return None
        for item in candidate.spellings():
            rows = query("SELECT item FROM items WHERE id = ?", name_key(item.id))
            if not rows:
                return item
            if rows == [(to_json(item),)]:
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
                items = ledger.query(
                    "SELECT item FROM items WHERE grp = ? ORDER BY number", group
                )
                tasks = ledger.query("SELECT task FROM tasks WHERE grp = ?", group)
                yield Group(
                    group,
                    tuple(ledger.unpack(Item, item) for (item,) in items),
                    frozenset(task for (task,) in tasks),
                )

    def record_outcome(self, outcome: Outcome) -> None:
        """Store a task's outcome, in one transaction; repeated ones change nothing."""
        query = self._ledger.query
        record = RunRecord(
            begin=self.record.begin,
            seconds=round(monotonic() - self._begin_s, 3),
            audio_s=round(self.record.audio_s + outcome.audio_s, 3),
            tasks=self.record.tasks + 1,
            worker_s=round(self.record.worker_s + outcome.took_s, 3),
            untranscribed_s=round(
                self.record.untranscribed_s + outcome.untranscribed_s, 3
            ),
        )
        with self._ledger.transaction():
            task = (outcome.group, outcome.index)
            if query("SELECT 1 FROM tasks WHERE grp = ? AND task = ?", *task):
                return
            query("INSERT INTO tasks VALUES (?, ?)", *task)
            ((first, last),) = query(
                "SELECT min(number), max(number) FROM items WHERE grp = ?",
                outcome.group,
            )
            for result in outcome.results:
                query(
                    "INSERT INTO pieces VALUES (?, ?, ?, ?)",
                    first + result.item,
                    outcome.index,
                    result.n_pieces,
                    pack(result),
                )
            n_done = self._join_pieces(first, last)
            query(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)",
                *astuple(record),
            )
        self.record = record
        self.n_done += n_done
        if n_done:
            self._write_due(first, last)

    def _join_pieces(self, first: int, last: int) -> int:
        """Store results of recordings whose pieces are all known; return how many."""
        query = self._ledger.query
        complete = query(
            "SELECT item FROM pieces WHERE item BETWEEN ? AND ?"
            " GROUP BY item HAVING count(*) = max(n_pieces)",
            first,
            last,
        )
        for (number,) in complete:
            # Pieces of one task were stored in their order.
            rows = query(
                "SELECT result FROM pieces WHERE item = ? ORDER BY task, rowid", number
            )
            result = join_pieces(
                [self._ledger.unpack(PieceResult, data) for (data,) in rows]
            )
            result = self._add_speakers(number, result)
            query(
                "UPDATE items SET result = ?, failure = ? WHERE number = ?",
                pack(result),
                None if result.failure is None else result.failure.kind,
                number,
            )
            query("DELETE FROM pieces WHERE item = ?", number)
        return len(complete)

    def _add_speakers(self, number: int, result: PieceResult) -> PieceResult:
        """Return the result of a recording with its speakers, if they are asked for.

        They are found here and not by workers, which see pieces of a recording only.
        """
        if self._find_speakers is None or result.failure is not None:
            return result
        ((stored,),) = self._ledger.query(
            "SELECT item FROM items WHERE number = ?", number
        )
        try:
            speakers = self._find_speakers(self._ledger.unpack(Item, stored).audio)
        except AudioError as error:  # the file has gone since it was transcribed
            return replace(result, segments=(), failure=Failure.of(error))
        parts = [
            part for segment in result.segments for part in speakers.attribute(segment)
        ]
        return replace(result, segments=tuple(parts))

    def _write_due(self, first: int, last: int) -> None:
        """Write the result files of these items, if they are complete and changed."""
        first_part = first // PART_ITEMS
        last_part = last // PART_ITEMS
        formats = " ".join(self._formats)
        due = self._ledger.query(
            "SELECT number / ?, count(*) FROM items WHERE number BETWEEN ? AND ?"
            " GROUP BY 1 HAVING count(result) = count(*)"
            " EXCEPT SELECT part, items FROM parts WHERE part BETWEEN ? AND ? AND formats = ?",
            PART_ITEMS,
            first_part * PART_ITEMS,
            (last_part + 1) * PART_ITEMS - 1,
            first_part,
            last_part,
            formats,
        )
        for part, n_items in due:
            self._write_part(part)
            self._ledger.query(
                "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", part, n_items, formats
            )

    def _write_part(self, part: int) -> None:
        """Write a file of results, and the files of its items."""
        lines = []
        rows = self._ledger.query(
            "SELECT item, result FROM items WHERE number BETWEEN ? AND ? ORDER BY number",
            part * PART_ITEMS,
            (part + 1) * PART_ITEMS - 1,
        )
        for stored, data in rows:
            item = self._ledger.unpack(Item, stored)
            result = self._ledger.unpack(PieceResult, data)
            record: dict[str, Any] = {
                "version": JSON_VERSION,
                "id": item.id,
                "audio": item.audio,
            }
            if result.failure is not None:
                record["error"] = asdict(result.failure)
            else:
                transcript = self._make_transcript(item, result)
                written = (
                    transcript if self._settings.has_words else drop_words(transcript)
                )
                record |= verbose_json(written)
                for fmt in self._formats:
                    path = self._folder / fmt / f"{item.id}.{fmt}"
                    content = written if fmt == JSON else transcript
                    write_file(
                        path, render(content, fmt, self._settings.layout), ADVICE
                    )
            lines.append(_json_line(record | {"metadata": item.metadata}))
        path = self._folder / TRANSCRIPTS / f"part-{part:05}.jsonl"
        write_file(path, "".join(lines), ADVICE)

    def _make_transcript(self, item: Item, result: PieceResult) -> Transcript:
        return Transcript(
            audio=item.id,
            duration_s=result.end_s,
            language=result.language,
            task=self._settings.task,
            segments=result.segments,
            timings=Timings(),  # none: `transcripts/` has the same bytes whoever computed them
            settings=self._settings.settings,
            untranscribed=result.untranscribed,
        )

    @property
    def failures(self) -> list[str]:
        """Lines of a manifest for the items that failed, with which they can be retried."""
        lines = []
        for stored, data in self._ledger.query(
            "SELECT item, result FROM items WHERE failure IS NOT NULL ORDER BY number"
        ):
            item = self._ledger.unpack(Item, stored)
            failure = self._ledger.unpack(PieceResult, data).failure
            record: dict[str, Any] = {"id": item.id, "audio": item.audio}
            if item.language is not None:
                record["language"] = item.language
            record["metadata"] = item.metadata
            record["error"] = None if failure is None else asdict(failure)
            lines.append(_json_line(record))
        return lines

    @property
    def left_s(self) -> float | None:
        """Estimated seconds of this run to its end, by its speed so far; `None` if unknown."""
        n_new: int = self.n_done - self._n_known
        n_left: int = self.n_items - self.n_done
        return n_left * self.record.seconds / n_new if n_new else None

    def close(self) -> None:
        if self._stack is not None:
            with self._stack:
                failures = self.failures
                if failures:
                    write_file(self._folder / FAILURES_FILE, "".join(failures), ADVICE)


def _json_line(record: dict[str, Any]) -> str:
    return (
        escape_surrogates(json.dumps(record, ensure_ascii=False, allow_nan=False))
        + "\n"
    )


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
    untranscribed = tuple(speech for piece in pieces for speech in piece.untranscribed)
    return replace(
        pieces[-1], language=language, segments=segments, untranscribed=untranscribed
    )


def read_status(folder: Path) -> Status:
    """Return the progress of a job, also while another run works on it."""
    no_job = OptionError(
        f"{display_path(folder)} holds no job, expected the folder of one; check the path"
    )
    if not (folder / LEDGER_FILE).exists():
        raise no_job
    with Ledger(folder, read_only=True) as ledger:
        ((n_items, n_tried, n_failed),) = ledger.query(
            "SELECT count(*), count(result), count(failure) FROM items"
        )
        kinds = ledger.query(
            "SELECT failure, count(*) FROM items WHERE failure IS NOT NULL GROUP BY 1"
        )
        runs = ledger.query("SELECT * FROM runs ORDER BY begin DESC")
    if not n_items:
        raise no_job
    audio_s = sum(RunRecord(*run).audio_s for run in runs)
    speed = RunRecord(*runs[0]).speed if runs else 0.0
    n_done = n_tried - n_failed
    left_s: float | None = None
    if n_done and speed:
        left_s = round((n_items - n_tried) * audio_s / n_done / speed, 1)
    return Status(
        items=n_items,
        done=n_done,
        failed=n_failed,
        audio_s=round(audio_s, 3),
        speed=round(speed, 3),
        left_s=left_s,
        failures=dict(kinds),
        untranscribed_s=round(sum(RunRecord(*run).untranscribed_s for run in runs), 3),
    )
