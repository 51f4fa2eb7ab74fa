"""A shard that is being transcribed: what is done, and what is written meanwhile.

Files of a recording are written as soon as its last piece is transcribed, and failures as they
happen. The results are one file, written when all recordings have theirs: its name says that the
shard is done.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Self

from whisper_hailo.batch.journal import Journal
from whisper_hailo.batch.manifest import Item
from whisper_hailo.batch.records import (
    JobSettings,
    find_warnings,
    join_pieces,
    make_failure_line,
    make_record,
    render_files,
)
from whisper_hailo.batch.shards import Shard
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.tasks import Failure, Outcome, PieceKey, PieceResult, TaskKey
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import decode
from whisper_hailo.speakers.attribution import SpeakerAttribution

TRANSCRIPTS: Final = "transcripts"
FAILURES: Final = "failures"

_PART: Final = re.compile(r"(?:part|partial)-(\d+)\.jsonl")


def part_name(number: int, *, is_complete: bool = True) -> str:
    """Return the name of a shard's results; some are missing where they are not complete."""
    kind = "part" if is_complete else "partial"
    return f"{kind}-{number:05}.jsonl"


def part_number(name: str) -> int | None:
    """Return the number of the shard whose results have a name; `None` for other files."""
    match = _PART.fullmatch(name)
    return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What a run did for a shard.

    Attributes:
        n_items: recordings of the shard.
        failed: kind of failure to recordings of the shard, those of earlier runs included.
        warned: kind of warning to such recordings.
        audio_s: seconds of audio that this run transcribed.
        cpu_s: processor time of this run.
    """

    shard: int
    n_items: int
    failed: dict[str, int] = field(default_factory=dict)
    warned: dict[str, int] = field(default_factory=dict)
    audio_s: float = 0.0
    cpu_s: float = 0.0


class ShardWork(Closing):
    """Takes outcomes of a shard's tasks in any order, and writes its results in that of its items.

    Attributes:
        number: of the shard.
        todo: recordings without a final result, with their places in the shard.
        done: keys of tasks whose outcomes are known.
    """

    def __init__(
        self,
        storage: Storage,
        settings: JobSettings,
        shard: Shard,
        find_speakers: Callable[[str], SpeakerAttribution] | None = None,
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._shard = shard
        self.number = shard.number
        self._find_speakers = find_speakers
        self._lines: dict[int, str] = {}
        self._failures: dict[int, Failure] = {}
        self._warned: dict[int, set[str]] = {}
        self._pieces: dict[int, dict[PieceKey, PieceResult]] = {}
        self._audio_s = 0.0
        self._cpu_s = 0.0
        self.todo: list[tuple[int, Item]] = []
        self.done: set[TaskKey] = set()

    def open(self) -> Self:
        """Take over what earlier runs have done.

        Raises:
            OptionError: the results are those of other recordings.
            OutputError: they cannot be read, or another process works on the shard.
        """
        self._read_previous()
        self.todo = [
            (index, item)
            for index, item in enumerate(self._shard.items)
            if index not in self._lines
        ]
        ids = [item.id for _, item in self.todo]
        key = json.dumps(
            [self._storage.folder, self._settings.identity, self._shard.number, ids]
        )
        self._journal = Journal(key).open()
        try:
            for outcome in self._journal.read():
                self._add(outcome)
        except BaseException:
            self._journal.close()
            raise
        return self

    def _read_previous(self) -> None:
        """Keep the lines of an earlier run, but those of recordings that it could not fetch."""
        for index, line in enumerate(read_lines(self._storage, self._shard)):
            record = json.loads(line)
            if "error" in record:
                failure = decode(Failure, record["error"])
                if not failure.is_final:
                    continue
                self._failures[index] = failure
            self._warned[index] = {
                entry["kind"] for entry in record.get("warnings", ())
            }
            self._lines[index] = line

    @property
    def is_complete(self) -> bool:
        """Whether each recording has a result, or has failed."""
        return len(self._lines) == len(self._shard.items)

    def record(self, outcome: Outcome) -> int:
        """Store a task's outcome and write the files of recordings that are done with it.

        Returns the number of these.
        """
        n_before = len(self._lines)
        self._add(outcome)
        failures = [result.failure for result in outcome.results if result.failure]
        # Of others, a run that is resumed would not try again.
        if all(failure.is_final for failure in failures):
            self._journal.write(outcome)
        self._audio_s += outcome.audio_s
        self._cpu_s += outcome.cpu_s
        return len(self._lines) - n_before

    def _add(self, outcome: Outcome) -> None:
        self.done.add(outcome.key)
        for result in outcome.results:
            pieces = self._pieces.setdefault(result.item, {})
            pieces[result.key] = result
            n_pieces = max(piece.n_pieces for piece in pieces.values())
            if len(pieces) == n_pieces:
                in_order = [pieces[key] for key in sorted(pieces)]
                self._finish_item(result.item, join_pieces(in_order))

    def _finish_item(self, index: int, result: PieceResult) -> None:
        """Write the files of a recording, and keep its line."""
        item = self._shard.items[index]
        result = self._add_speakers(item, result)
        self._lines[index] = make_record(item, result, self._settings)
        if result.failure is None:
            for name, content in render_files(item, result, self._settings):
                self._storage.write(name, content)
            self._warned[index] = {warning.kind for warning in find_warnings(result)}
            self._failures.pop(index, None)
        else:
            self._failures[index] = result.failure
            self._write_failures()

    def _add_speakers(self, item: Item, result: PieceResult) -> PieceResult:
        """Return the result of a recording with its speakers, if they are asked for.

        They are found here and not by workers, which see pieces of a recording only.
        """
        if self._find_speakers is None or result.failure is not None:
            return result
        try:
            speakers = self._find_speakers(item.audio)
        except AudioError as error:  # the file has gone since it was transcribed
            return replace(result, segments=(), failure=Failure.of(error))
        parts = [
            part for segment in result.segments for part in speakers.attribute(segment)
        ]
        return replace(result, segments=tuple(parts))

    def _write_failures(self) -> None:
        name = f"{FAILURES}/{part_name(self._shard.number)}"
        lines = [
            make_failure_line(self._shard.items[index], self._failures[index])
            for index in sorted(self._failures)
        ]
        if lines:
            self._storage.write(name, "".join(lines))
        else:
            self._storage.remove(name)

    def finish(self) -> ShardReport:
        """Write the results of the shard; return what was done."""
        if self._shard.previous:
            self._write_failures()  # some may have been mended
        failures = self._failures.values()
        is_complete = all(failure.is_final for failure in failures)
        lines = [self._lines[index] for index in range(len(self._shard.items))]
        name = part_name(self._shard.number, is_complete=is_complete)
        self._storage.write(f"{TRANSCRIPTS}/{name}", "".join(lines))
        if self._shard.previous and self._shard.previous != name:
            self._storage.remove(f"{TRANSCRIPTS}/{self._shard.previous}")
        self._journal.remove()
        return ShardReport(
            shard=self._shard.number,
            n_items=len(lines),
            failed=dict(Counter(failure.kind for failure in failures)),
            warned=dict(Counter(chain.from_iterable(self._warned.values()))),
            audio_s=round(self._audio_s, 3),
            cpu_s=round(self._cpu_s, 3),
        )

    def close(self) -> None:
        self._journal.close()


def read_lines(storage: Storage, shard: Shard) -> list[str]:
    """Return the results of a shard that earlier runs have written, a line for each recording.

    Raises:
        OptionError: they are damaged, or those of other recordings.
        OutputError: they cannot be read.
    """
    if not shard.previous:
        return []
    name = f"{TRANSCRIPTS}/{shard.previous}"
    label = f"{storage.label}/{name}"
    lines = split_records(storage.read(name) or b"")
    try:
        ids = [json.loads(line)["id"] for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{label} is damaged ({error}); remove it, and run the same command again"
        ) from error
    if ids != [item.id for item in shard.items[: len(ids)]]:
        raise OptionError(
            f"{label} has results of recordings other than those now in the manifest: "
            "a manifest may only grow at its end; give another --output-dir"
        )
    return lines


def split_records(content: bytes) -> list[str]:
    """Return lines with their ends; texts may hold what Python takes for the end of a line."""
    return [f"{line}\n" for line in content.decode().split("\n")[:-1]]
