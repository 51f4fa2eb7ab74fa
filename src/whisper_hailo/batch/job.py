"""A job in its folder, which may be at an address.

    job.json            the settings that all runs share
    manifest.jsonl      the recordings, unless they are those of one manifest
    transcripts/        a file of JSON lines for each shard that is done, in the order of the job
    srt/, vtt/ ...      files of the recordings, if asked for
    failures/           recordings that could not be transcribed, and why: manifests of their own
    runs/               what each run has done, and how long it took

`transcripts/` is the ledger: a shard whose file exists is done. Its bytes are the same whatever
the number of workers and machines, their order, and however often a run is killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Self

from whisper_hailo.batch.manifest import is_small, open_manifest, parse_rows
from whisper_hailo.batch.records import JobSettings, read_record, render_files
from whisper_hailo.batch.shard_work import (
    FAILURES,
    TRANSCRIPTS,
    part_name,
    part_number,
    read_lines,
    split_records,
)
from whisper_hailo.batch.shards import Shard, Share, plan_shards
from whisper_hailo.batch.sources import LISTED, list_sources, only_manifest
from whisper_hailo.batch.storage import ADVICE, Storage, redact
from whisper_hailo.core.atomic_files import exclusive_lock
from whisper_hailo.core.errors import (
    AudioError,
    OptionError,
    OutputError,
    display_path,
)
from whisper_hailo.core.protocols import Closing

JOB_FILE: Final = "job.json"

_LAYOUT: Final = 5
_EARLIER_LEDGER: Final = "job.sqlite"
"""Of layouts up to 4."""


class Job(Closing):
    """The folder of a job, and the shards that are left.

    Args:
        storage: the folder.
        settings: what shapes the results.
        words: the inputs: folders, recordings, patterns and manifests, by path or address.
        share: the shards of this process, if others work on the rest.
        is_still: of a job that is watched: whether a file has stopped growing.
    """

    def __init__(
        self,
        storage: Storage,
        settings: JobSettings,
        words: Sequence[str],
        share: Share | None = None,
        is_still: Callable[[str], bool] | None = None,
    ) -> None:
        self.storage = storage
        self.settings = settings
        self._words = words
        self._share = share
        self._is_still = is_still
        self._only_manifest = only_manifest(words)
        self._stack = ExitStack()

    @property
    def manifest(self) -> str:
        """The list of recordings, by path or address."""
        if self._only_manifest is not None:
            return self._only_manifest
        return self.storage.address(LISTED)

    def open(self) -> Self:
        """Resume the job, or start it.

        Raises:
            AudioError: an input cannot be read, or names no recordings.
            OptionError: the folder holds a job of other settings, or of an earlier version; a line
                of a manifest cannot be parsed.
            OutputError: it cannot be written, or another run works on it.
        """
        with ExitStack() as opened:
            if self.storage.is_local and self._share is None:
                path = Path(self.storage.folder, ".lock")
                lock = exclusive_lock(path, ADVICE, blocking=False)
                if not opened.enter_context(lock):
                    raise OutputError(
                        f"another run is working on {self.storage.label}; wait for it to finish, "
                        "or restart it with more "
                        "--workers"
                    )
            stored = self._check_stored()
            self._list_recordings()
            self._share_settings(stored)
            self._stack = opened.pop_all()
        return self

    def close(self) -> None:
        self._stack.close()

    def _check_stored(self) -> dict[str, Any] | None:
        """Return what earlier runs have stored, which must fit this one."""
        stored = read_job(self.storage)
        if stored is None:
            return None
        facts = self._facts()
        if stored["manifest"] != facts["manifest"]:
            raise OptionError(
                f"{self.storage.label} holds a job for the recordings of "
                f"{display_path(stored['manifest'])}; "
                "give the same inputs, or another --output-dir"
            )
        differing = {name for name, value in facts.items() if stored.get(name) != value}
        if differing - {"formats"}:
            raise OptionError(
                f"{self.storage.label} holds a job with another model, options or version; "
                "give the same ones, or another --output-dir"
            )
        return stored

    def _facts(self) -> dict[str, Any]:
        """Return the settings as they are stored."""
        return {
            "layout": _LAYOUT,
            "manifest": redact(self.manifest),
            "identity": self.settings.identity,
            "subtitles": asdict(self.settings.layout),
            "n_items": self.settings.n_items,
            "formats": list(self.settings.formats),
        }

    def _list_recordings(self) -> None:
        """List the inputs, or check the manifest that is the only one."""
        if self._only_manifest is None:
            # Processes that share a job all take the list of the first one.
            if self._share is None or self.storage.read(LISTED) is None:
                self.add_recordings()
            return
        manifest = open_manifest(self.manifest)
        if is_small(manifest) and not parse_rows(manifest, manifest.rows()):
            raise AudioError(
                f"{display_path(self.manifest)} lists no recordings, expected lines such as "
                '{"audio": "a.flac"}; check the path'
            )

    def add_recordings(self) -> int:
        """List the recordings that are new in the inputs; return their number."""
        if self._only_manifest is not None:
            return 0
        return list_sources(self._words, self.storage, self._is_still)

    def _share_settings(self, stored: dict[str, Any] | None) -> None:
        """Store what the runs of the job share; its formats are those of all runs."""
        formats: list[str] = [] if stored is None else stored["formats"]
        added = [fmt for fmt in self.settings.formats if fmt not in formats]
        self._render_formats(tuple(added))
        self.settings = replace(self.settings, formats=(*formats, *added))
        if stored is None or added:
            text = json.dumps(self._facts(), indent=1)
            self.storage.write(JOB_FILE, f"{text}\n")

    def _render_formats(self, formats: tuple[str, ...]) -> None:
        """Write files of formats that were added, for the shards that are done."""
        if not formats:
            return
        settings = replace(self.settings, formats=formats)
        for name in self.storage.list_names(TRANSCRIPTS):
            content = self.storage.read(f"{TRANSCRIPTS}/{name}") or b""
            for line in split_records(content):
                record = json.loads(line)
                if "error" not in record:
                    item, result = read_record(record)
                    for path, text in render_files(item, result, settings):
                        self.storage.write(path, text)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of this process that are not done, in order.

        Raises:
            AudioError: the manifest cannot be read.
            OptionError: a line cannot be parsed, or is not the one that results are of.
        """
        share = self._share or Share()
        parts: dict[int, str] = {}
        for name in self.storage.list_names(TRANSCRIPTS):
            number = part_number(name)
            if number is not None:
                parts[number] = name
        last = max(parts, default=-1)

        def is_wanted(number: int) -> bool:
            # The last one is looked into: the manifest may have grown since.
            is_done = parts.get(number) == part_name(number) and number != last
            return share.has(number) and not is_done

        manifest = open_manifest(self.manifest)
        for planned in plan_shards(manifest, self.settings.n_items, is_wanted):
            shard = replace(planned, previous=parts.get(planned.number, ""))
            if not self._is_done(shard):
                yield shard

    def _is_done(self, shard: Shard) -> bool:
        is_part = shard.previous == part_name(shard.number)
        return is_part and len(read_lines(self.storage, shard)) == len(shard.items)

    def count_failures(self) -> int:
        """Return the number of recordings that have failed in all runs."""
        count = 0
        for name in self.storage.list_names(FAILURES):
            content = self.storage.read(f"{FAILURES}/{name}") or b""
            count += content.count(b"\n")
        return count


def read_job(storage: Storage) -> dict[str, Any] | None:
    """Return the settings of the job in a folder; `None` if there is none.

    Raises:
        OptionError: the job is one of an earlier version, or damaged.
    """
    content = storage.read(JOB_FILE)
    if content is None:
        if storage.is_local and Path(storage.folder, _EARLIER_LEDGER).exists():
            raise OptionError(
                f"{storage.label} holds a job of an earlier version ({_EARLIER_LEDGER}); finish it "
                "with that version, or give another --output-dir"
            )
        return None
    try:
        facts: dict[str, Any] = json.loads(content)
        layout = facts["layout"]
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{storage.label}/{JOB_FILE} is damaged ({error}); give another --output-dir"
        ) from error
    if layout != _LAYOUT:
        raise OptionError(
            f"{storage.label} holds a job of layout {layout}, expected {_LAYOUT}; finish it with "
            "the version that started it, or give another --output-dir"
        )
    return facts
