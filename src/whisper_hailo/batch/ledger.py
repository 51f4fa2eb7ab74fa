"""The ledger of a job, one SQLite file: its connection, its values, and its errors.

job         what every run must share, and the formats of all
items       recordings, and the result of each that is done
tasks       tasks of groups whose outcome is known
pieces      results of pieces of recordings that are not done
parts       result files written so far
runs        how long each run worked, and how far it came
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

T = TypeVar("T")

LEDGER_FILE: Final = "job.sqlite"
ADVICE: Final = "make it writable and run the same command again"

_VERSION: Final = 4
_SCHEMA: Final = (
    "CREATE TABLE job (identity TEXT, formats TEXT)",
    "CREATE TABLE items (number INTEGER PRIMARY KEY, id BLOB UNIQUE, audio BLOB, item TEXT,"
    " grp INTEGER, result BLOB, failure TEXT)",
    "CREATE INDEX items_of_audio ON items (audio)",
    "CREATE INDEX items_of_group ON items (grp)",
    "CREATE TABLE tasks (grp INTEGER, task INTEGER, PRIMARY KEY (grp, task))",
    "CREATE TABLE pieces (item INTEGER, task INTEGER, n_pieces INTEGER, result BLOB)",
    "CREATE INDEX pieces_of_item ON pieces (item)",
    "CREATE TABLE parts (part INTEGER PRIMARY KEY, items INTEGER, formats TEXT)",
    "CREATE TABLE runs (begin TEXT PRIMARY KEY, seconds REAL, audio_s REAL, tasks INTEGER,"
    " worker_s REAL, untranscribed_s REAL)",
    f"PRAGMA user_version = {_VERSION}",
)
_BUSY_S: Final = 10.0
"""Wait this long while another process writes."""


class Ledger(Closing):
    """A connection to the file in a job's folder; a read-only one works while a run writes."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._path = folder / LEDGER_FILE
        self._read_only = read_only

    def open(self) -> Self:
        try:
            uri = self._path.absolute().as_uri()
            self._db = sqlite3.connect(
                f"{uri}?mode=ro" if self._read_only else uri,
                uri=True,
                timeout=_BUSY_S,
                isolation_level=None,
                check_same_thread=False,  # a thread may leave an iterator for another one to close
            )
        except sqlite3.Error as error:
            raise self._explain(error) from error
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise
        return self

    def _prepare(self) -> None:
        if not self._read_only:
            self.query("PRAGMA journal_mode = WAL")
        ((version,),) = self.query("PRAGMA user_version")
        if version == 0 and not self._read_only:
            with self.transaction():
                for statement in _SCHEMA:
                    self.query(statement)
        elif version != _VERSION:
            raise OptionError(
                f"{display_path(self._path.parent)} holds a job of layout {version}, expected "
                f"{_VERSION}; give another folder"
            )

    def close(self) -> None:
        try:
            if not self._read_only:
                self._db.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error:
            pass  # another process reads it, or the disk is full: the next run begins at the WAL
        finally:
            self._db.close()

    def query(self, statement: str, *values: object) -> list[Any]:
        """Run a statement and return its rows."""
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._explain(error) from error

    def _explain(self, error: sqlite3.Error) -> OutputError:
        code = getattr(error, "sqlite_errorcode", None)
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return self._damaged(error)
        advice = ADVICE
        if code == sqlite3.SQLITE_FULL:
            advice = f"free some space, or {ADVICE}"
        return OutputError(f"cannot use {display_path(self._path)} ({error}); {advice}")

    def _damaged(self, error: Exception) -> OutputError:
        return OutputError(
            f"{display_path(self._path)} is damaged ({error}); begin the job in another folder"
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all that the block writes, or nothing."""
        self.query("BEGIN IMMEDIATE")
        try:
            yield
            self.query("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def unpack(self, kind: type[T], data: str | bytes) -> T:
        """Return a stored value; see `pack` and `to_json`."""
        try:
            raw = data.encode() if isinstance(data, str) else zlib.decompress(data)
            return decode(kind, parse_json(raw))
        except (MismatchError, zlib.error) as error:
            raise self._damaged(error) from error


def to_json(value: Any) -> str:  # noqa: ANN401 - any dataclass
    """Return a dataclass as text, the same for equal ones."""
    return json.dumps(asdict(value), sort_keys=True, allow_nan=False)


def pack(value: Any) -> bytes:  # noqa: ANN401 - any dataclass
    """Return a dataclass as compressed JSON."""
    return zlib.compress(to_json(value).encode(), 1)


def name_key(name: str) -> bytes:
    """Return a name as bytes: file names need not be UTF-8."""
    return name.encode("utf-8", "surrogatepass")
