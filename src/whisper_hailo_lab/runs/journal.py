"""Steps of a long measurement that an interrupted run need not repeat."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from whisper_hailo.core.files import write_file

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def key_of(paths: Iterable[Path], *values: object) -> str:
    """Changes with the content of any of the files, or with a value."""
    found = hashlib.sha256(repr(values).encode())
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()


class StepJournal:
    """Results of finished steps, on disk after each of them.

    Args:
        path: the file; what another key left there is forgotten.
        key: of everything that the results depend on.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._found: dict[str, Any] = {}
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none yet, or cut short
            return
        if stored.get("key") == key:
            self._found = stored["steps"]

    def step(self, name: str, work: Callable[[], Result]) -> Result:
        """The result of a step, which is worked out unless an earlier run did it."""
        if name in self._found:
            logger.info("%s: known", name)
            known: Result = self._found[name]
            return known
        begin, begin_cpu = time.perf_counter(), time.process_time()
        result: Result = json.loads(json.dumps(work()))  # as a later run will read it
        self._found[name] = result
        elapsed, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
        logger.info("%s: %.1f s, processor %.1f s", name, elapsed, cpu)
        write_file(self._path, json.dumps({"key": self._key, "steps": self._found}))
        return result
