"""What a job's folder says of itself, for those who work on it and those who only look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from whisper_hailo.batch.store import Store
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json
from whisper_hailo.text.subtitles import Layout

JOB_FILE: Final = "job.json"
ITEMS_FILE: Final = "items.jsonl"
SUMMARIES: Final = "shards"

VERSION: Final = 1
"""Of the folder's layout."""


@dataclass(frozen=True, slots=True)
class Head:
    """What `job.json` says.

    Attributes:
        version: of the folder's layout.
        identity: of the settings.
        items: how many there are.
        items_sha256: of `items.jsonl`.
        formats: of files for each item.
        results: layout of the files of results.
        layout: of subtitles.
    """

    version: int
    identity: str
    items: int
    items_sha256: str
    formats: tuple[str, ...] = ()
    results: str = "jsonl"
    layout: Layout = field(default_factory=Layout)


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What a whole file of results holds.

    Attributes:
        items: in it, failed ones with them.
        audio_s: seconds of those that did not fail.
        failures: a line of `failures.jsonl` each.
    """

    items: int
    audio_s: float
    failures: tuple[str, ...] = ()


def read_head(store: Store) -> Head | None:
    """What a job's folder says it is; `None` if it holds none.

    Raises:
        OptionError: it holds something else.
    """
    data = store.read(JOB_FILE)
    if data is None:
        return None
    try:
        head = decode(Head, parse_json(data))
    except MismatchError as error:
        raise OptionError(
            f"{store.name}/{JOB_FILE} is no job of this program ({error}); give another folder"
        ) from error
    if head.version != VERSION:
        raise OptionError(
            f"{store.name} holds a job of layout {head.version}, expected {VERSION}; give another "
            "folder"
        )
    return head


def read_summaries(store: Store) -> dict[int, FileSummary]:
    """Of the files of results that are whole, by their numbers."""
    found = {}
    for name in store.names(SUMMARIES):
        number = name.rpartition("-")[2].removesuffix(".json")
        try:
            found[int(number)] = decode(FileSummary, parse_json(store.read(name) or b""))
        except (MismatchError, ValueError):
            continue  # not whole: its items are done again
    return found
