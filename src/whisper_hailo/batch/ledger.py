"""What is known of a job's tasks: lines of JSON in files that are written once."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Final

from whisper_hailo.batch.records import Outcome
from whisper_hailo.batch.store import Store
from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json

FOLDER: Final = "ledger"

_MOST_OUTCOMES: Final = 256
_MOST_S: Final = 5.0
"""A run that is killed loses no more work than of so long."""


@dataclass(slots=True)
class Ledger:
    """Outcomes on their way to the store.

    A file that the store has is whole, and nothing is ever added to it. It is removed when all that
    it tells is in the results.

    Attributes:
        store: of the job.
        clock: seconds, from any moment.
        parts: files in the store, each with the groups that it tells of.
    """

    store: Store
    run: str = field(default_factory=lambda: secrets.token_hex(6))
    parts: dict[str, set[int]] = field(default_factory=dict)
    _waiting: list[Outcome] = field(default_factory=list)
    _since_s: float = field(default_factory=monotonic)

    def read(self) -> Iterator[Outcome]:
        """All outcomes that earlier runs left.

        Raises:
            OutputError: a file cannot be read, or none of ours wrote it.
        """
        for name in self.store.names(FOLDER):
            groups = self.parts.setdefault(name, set())
            for line in (self.store.read(name) or b"").splitlines():
                try:
                    outcome = decode(Outcome, parse_json(line))
                except MismatchError as error:
                    raise OutputError(
                        f"{self.store.name}/{name} is damaged ({error}); remove it: what it told "
                        "is done again"
                    ) from error
                groups.add(outcome.group)
                yield outcome

    def add(self, outcome: Outcome) -> None:
        """Take an outcome, which is in the store within seconds.

        Raises:
            OutputError: the store cannot be written.
        """
        self._waiting.append(outcome)
        if len(self._waiting) >= _MOST_OUTCOMES or monotonic() - self._since_s >= _MOST_S:
            self.flush()

    def flush(self) -> None:
        """Write what waits.

        Raises:
            OutputError: the store cannot be written; it waits on.
        """
        if self._waiting:
            name = f"{FOLDER}/{self.run}-{len(self.parts):06}.jsonl"
            lines = (json.dumps(asdict(outcome), allow_nan=False) for outcome in self._waiting)
            self.store.write(name, "".join(f"{line}\n" for line in lines).encode())
            self.parts[name] = {outcome.group for outcome in self._waiting}
            self._waiting = []
        self._since_s = monotonic()

    def forget(self, is_written: Callable[[int], bool]) -> None:
        """Remove the files that tell of nothing but groups whose results are written.

        Args:
            is_written: whether those of a group are.

        Raises:
            OutputError: the store cannot be written.
        """
        self.flush()
        for name, told in list(self.parts.items()):
            if told and all(map(is_written, told)):
                self.store.remove(name)
                self.parts[name] = set()
