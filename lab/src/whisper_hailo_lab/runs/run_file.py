"""Run files: versioned JSON lines, each written as soon as it exists."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.read_files import read_text, split_json_lines
from whisper_hailo.core.strict_json import decode
from whisper_hailo_lab.runs.records import (
    CaseRecord,
    ComparisonRecord,
    FileResult,
    Record,
    RunHeader,
    RunRecords,
)

FORMAT_VERSION: Final = 1

_KINDS: Final[dict[str, type[Any]]] = {
    "run": RunHeader,
    "case": CaseRecord,
    "file": FileResult,
    "comparison": ComparisonRecord,
}
_FOLDERS: Final = re.compile(r"(?<![\w:/.])/(?:[^\s/:\"']+/)+(?=[^\s/])")
"""Folders of an absolute path; addresses of the network do not match."""


def to_line(record: Record) -> str:
    """Return a record as a JSON line; a case names its files without their folders."""
    kind = next(name for name, kind in _KINDS.items() if kind is type(record))
    fields: dict[str, Any] = {"kind": kind}
    if kind == "run":
        fields["version"] = FORMAT_VERSION
    values = _round_floats(asdict(record))
    if isinstance(record, CaseRecord):
        # Folders of this machine mean nothing on another one.
        values = _drop_folders(values)
    return json.dumps(fields | values, ensure_ascii=False, allow_nan=False)


class RunWriter:
    """Writer of a run file; an interrupted run keeps the lines so far.

    Args:
        path: file to write.
        header: first line of a new file.
        append: continue a file of the same machine, if there is one.

    Raises:
        OptionError: the file to continue is of another machine or version.
        OutputError: the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        header: RunHeader,
        *,
        append: bool = False,
    ) -> None:
        self._path = path
        is_continued = append and path.is_file() and path.stat().st_size > 0
        if is_continued:
            _require_same_machine(path, header)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if is_continued:
                _cut_torn_line(path)
            self._file = path.open("a" if is_continued else "w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error
        if not is_continued:
            self.write(header)

    def write(self, record: Record) -> None:
        """Write a line at once."""
        try:
            self._file.write(to_line(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        """Close the file when its lines are on the disk."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require_same_machine(path: Path, header: RunHeader) -> None:
    machine = read_run(path).header.machine
    if machine.id != header.machine.id:
        raise OptionError(
            f"{display_path(path)} was measured on another machine ({machine.label}), this "
            f"is {header.machine.label}; runs on different hardware cannot be merged; "
            "give another file"
        )


def read_run(path: Path) -> RunRecords:
    """Read a run file; of records that were measured again, the last one counts.

    Raises:
        OptionError: no such file, not a run file, another version, or a broken line.
    """
    try:
        lines = split_json_lines(read_text(path))
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{display_path(path)} cannot be read ({error}); give a run file of evaluate or compare"
        ) from error
    records: list[Any] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(_parse_record(json.loads(line)))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            if number > 1 and number == len(lines):
                # The run was killed while it wrote its last line.
                break
            raise OptionError(
                f"{display_path(path)}:{number} is not a line of a run file ({error!r}); give one "
                "made by this version's evaluate or compare"
            ) from error
    if not records or not isinstance(records[0], RunHeader):
        raise OptionError(
            f"{display_path(path)} does not begin with a run line; it is not a run file"
        )
    cases: dict[str, CaseRecord] = {}
    files: dict[tuple[str, str], FileResult] = {}
    comparisons = []
    for record in records:
        if isinstance(record, CaseRecord):
            cases[record.name] = record
        elif isinstance(record, FileResult):
            files[record.case, record.id] = record
        elif isinstance(record, ComparisonRecord):
            comparisons.append(record)
    return RunRecords(
        header=records[0],
        cases=tuple(cases.values()),
        files=tuple(files.values()),
        comparisons=tuple(comparisons),
    )


def _cut_torn_line(path: Path) -> None:
    """Cut off half a line, which a killed run may have left: the next one would continue it."""
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def _parse_record(raw: Any) -> Record:  # noqa: ANN401 - any JSON value
    """Return a record; fields of newer programs are ignored."""
    if raw["kind"] == "run" and raw["version"] != FORMAT_VERSION:
        raise OptionError(
            f"run file has format version {raw['version']}, this program reads {FORMAT_VERSION}; "
            "make it again"
        )
    record: Record = decode(_KINDS[raw["kind"]], raw)
    return record


def _round_floats(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with six decimals of floats: no clock is more exact."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _round_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round_floats(item) for item in value]
    return value


def _drop_folders(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with names of files instead of absolute paths."""
    if isinstance(value, str):
        return _FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {key: _drop_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_drop_folders(item) for item in value]
    return value


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {display_path(path)} ({error.strerror}); free some space or give another "
        "--out"
    )
