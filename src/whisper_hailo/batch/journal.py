"""The tasks of a running shard that are done, on the disk of the machine that runs it.

A file of JSON lines, one a task. A run that was killed leaves at most half a line at its end. The
file goes when the shard's results are written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final, Self

from whisper_hailo.batch.storage import ADVICE
from whisper_hailo.batch.tasks import Outcome
from whisper_hailo.core.atomic_files import exclusive_lock, wrap_os_error
from whisper_hailo.core.errors import OutputError, display_path
from whisper_hailo.core.paths import ANOTHER_CACHE, cache_root
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

_FOLDER: Final = "shards"


class Journal(Closing):
    """Outcomes of the tasks of one shard.

    Args:
        key: names the job, its options, the shard, and the recordings that are to be transcribed.
    """

    def __init__(self, key: str) -> None:
        name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
        self._path = cache_root() / _FOLDER / f"{name}.jsonl"
        self._stack = ExitStack()

    def open(self) -> Self:
        """Create the file, or open that of an interrupted run.

        Raises:
            OutputError: it cannot be written, or another process has it.
        """
        with ExitStack() as opened:
            with wrap_os_error(self._path, ANOTHER_CACHE):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = opened.enter_context(self._path.open("a+b"))
            lock = exclusive_lock(self._path, ANOTHER_CACHE, blocking=False)
            if not opened.enter_context(lock):
                raise OutputError(
                    f"another run is working on the shard of {display_path(self._path)}; wait for "
                    "it"
                )
            self._stack = opened.pop_all()
        return self

    def read(self) -> Iterator[Outcome]:
        """Yield the outcomes of earlier runs; what follows a broken line is removed."""
        self._file.seek(0)
        n_bytes = 0
        for line in self._file:
            try:
                outcome = decode(Outcome, parse_json(line))
            except MismatchError:
                break
            n_bytes += len(line)
            yield outcome
        self._file.truncate(n_bytes)

    def write(self, outcome: Outcome) -> None:
        """Add an outcome. The file is not flushed to the disk: a power cut costs some tasks."""
        line = json.dumps(asdict(outcome), allow_nan=False) + "\n"
        with wrap_os_error(self._path, ADVICE):
            self._file.write(line.encode())
            self._file.flush()

    def remove(self) -> None:
        """Remove the file: the results are written."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        self._stack.close()
