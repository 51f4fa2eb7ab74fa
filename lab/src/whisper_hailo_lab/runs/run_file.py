"""Run files: JSON lines, versioned, written at once and read back whole."""

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
"""Of an absolute path, all but its last part; addresses of the network are left."""


def to_line(record: Record) -> str:
    """One JSON line. A case names files without their folders, which mean nothing elsewhere."""
    kind = next(name for name, type_ in _KINDS.items() if type_ is type(record))
    head: dict[str, Any] = {"kind": kind}
    if kind == "run":
        head["version"] = FORMAT_VERSION
    values = _rounded(asdict(record))
    if isinstance(record, CaseRecord):
        values = _without_folders(values)
    return json.dumps(head | values, ensure_ascii=False, allow_nan=False)


class RunWriter:
    """Writes a run file line by line, so that an interrupted run keeps what it measured.

    Args:
        path: file to write; one of another machine or version is never continued.
        header: first line.
        append: continue a file of the same machine.

    Raises:
        OptionError: `append`, and the file is of another machine.
    """

    def __init__(self, path: Path, header: RunHeader, *, append: bool = False) -> None:
        self._path = path
        continued = append and path.is_file() and path.stat().st_size > 0
        if continued:
            found = read_run(path).header.machine
            if found.id != header.machine.id:
                raise OptionError(
                    f"{display_path(path)} was measured on another machine ({found.label}), this "
                    f"is {header.machine.label}; runs of different hardware do not merge: "
                    "give another file"
                )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if continued:
                _cut_torn_line(path)
            self._file = path.open("a" if continued else "w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error
        if not continued:
            self.write(header)

    def write(self, record: Record) -> None:
        """Add a line, at once."""
        try:
            self._file.write(to_line(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_run(path: Path) -> RunRecords:
    """Read a run file; of what was measured again, the latest counts.

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
        last = number == len(lines)
        try:
            records.append(_parse(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if last and number > 1:  # a run that was killed while it wrote
                break
            raise OptionError(
                f"{display_path(path)}:{number} is no line of a run file ({error!r}); give one "
                "made by evaluate or compare, of this program's version"
            ) from error
    if not records or not isinstance(records[0], RunHeader):
        raise OptionError(f"{display_path(path)} does not begin with a run line; it is no run file")
    return RunRecords(
        header=records[0],
        cases=tuple({r.name: r for r in records if isinstance(r, CaseRecord)}.values()),
        files=tuple({(r.case, r.id): r for r in records if isinstance(r, FileResult)}.values()),
        comparisons=tuple(r for r in records if isinstance(r, ComparisonRecord)),
    )


def _cut_torn_line(path: Path) -> None:
    """What a run that was killed wrote last may be half a line; the next one would stand in it."""
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def _parse(raw: Any) -> Record:  # noqa: ANN401 - any JSON value
    """A record; fields of newer programs are passed over."""
    if raw["kind"] == "run" and raw["version"] != FORMAT_VERSION:
        raise OptionError(
            f"run file has format version {raw['version']}, this program reads {FORMAT_VERSION}; "
            "make it again"
        )
    record: Record = decode(_KINDS[raw["kind"]], raw)
    return record


def _rounded(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Floats with six decimals: microseconds of seconds, nanoseconds of milliseconds."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def _without_folders(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Strings with the names of files in the place of their paths."""
    if isinstance(value, str):
        return _FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {key: _without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    return value


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot write {display_path(path)} ({error.strerror}); free some space or give another "
        "--out"
    )
