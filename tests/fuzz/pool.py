"""Worker processes under watch: one that hangs, swells or dies is replaced, and its input noted."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.target import CRASH, FAILURES, HANG, MEMORY, PATIENCE_S, SLOWEST_S

ROOT: Final = Path(__file__).parents[2]
KILL_MIB: Final = 1500
"""Ends a worker in the middle of an input; less than that, over the limit, is told at its end."""
START_S: Final = 120.0
"""For a process to begin: imports, and the good inputs where they are not there yet."""
CHUNK: Final = 500
"""Inputs of one process, so that what leaks in libraries does not add up."""
SETTLED: Final = 200
"""Inputs after which a process has all that it keeps: what it grows by from there on is a leak."""


@dataclass
class Seen:
    """What came of the inputs of a target. Only failures, and of few inputs all, are kept."""

    target: str
    results: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    peak_mib: int = 0
    grown_mib: int = 0
    grown_descriptors: int = 0
    slowest_s: float = 0.0
    wall_s: float = 0.0

    def note(self, result: dict[str, Any], taken_s: float) -> None:
        """Add one input's result."""
        outcome = result["outcome"]
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        self.peak_mib = max(self.peak_mib, result.get("mib", 0))
        self.slowest_s = max(self.slowest_s, taken_s)
        if outcome in FAILURES or sum(self.counts.values()) < 10:
            self.results.append(result)

    def grew(self, settled: dict[str, Any], last: dict[str, Any]) -> None:
        """Note what a process holds more than when it had settled."""
        self.grown_mib = max(self.grown_mib, last["mib"] - settled["mib"])
        grown = last["descriptors"] - settled["descriptors"]
        self.grown_descriptors = max(self.grown_descriptors, grown)

    def __iadd__(self, other: Seen) -> Seen:
        self.results += other.results
        for outcome, count in other.counts.items():
            self.counts[outcome] = self.counts.get(outcome, 0) + count
        self.peak_mib = max(self.peak_mib, other.peak_mib)
        self.grown_mib = max(self.grown_mib, other.grown_mib)
        self.grown_descriptors = max(self.grown_descriptors, other.grown_descriptors)
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.wall_s += other.wall_s
        return self


class Worker:
    """One process that goes through its inputs, started again behind one that ends it.

    Args:
        base: folder of all that is written.
        words: of the worker's command.
        seen: where results are noted.
    """

    def __init__(self, base: Path, words: list[str], seen: Seen) -> None:
        self._base = base
        self._words = words
        self._seen = seen
        self._start()

    def _start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.fuzz.worker",
            self._words[0],
            str(self._base),
        ]
        self._process = subprocess.Popen(
            [*command, *self._words[1:]], stdout=subprocess.PIPE, cwd=ROOT, bufsize=0
        )
        self._current: int | str | None = None
        self._since = time.monotonic()
        self._busy_s = 0.0
        self._rest = b""
        self._why = CRASH
        self._n_done = 0
        self._settled: dict[str, Any] = {}
        self._last: dict[str, Any] = {}

    def fileno(self) -> int:
        """For a selector."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def read(self) -> bool:
        """Take what the process has written; False at its end."""
        data = os.read(self.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            now = time.monotonic()
            if "begin" in told:
                self._current = told["begin"]
                self._since = now
                self._busy_s = _busy_s(self._process.pid)
            else:
                self._seen.note(told, now - self._since)
                self._current = None
                self._last = told
                self._n_done += 1
                if self._n_done == SETTLED:
                    self._settled = told
        if not data and self._settled:
            self._seen.grew(self._settled, self._last)
        return bool(data)

    def watch(self) -> None:
        """End the process if its input takes too long or too much."""
        taken_s = time.monotonic() - self._since
        mib = _rss_mib(self._process.pid)
        busy_s = _busy_s(self._process.pid) - self._busy_s
        patience_s = PATIENCE_S if self._current is not None else START_S
        is_hanging = taken_s > patience_s or busy_s > SLOWEST_S
        if is_hanging or mib > KILL_MIB:
            self._why = HANG if is_hanging else MEMORY
            self._seen.peak_mib = max(self._seen.peak_mib, mib)
            self._process.kill()

    def stop(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self.finish()

    def finish(self) -> int:
        """Wait for its end."""
        code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def following(self) -> Worker | None:
        """Another one for the inputs behind the one that ended this; none where all is done.

        Raises:
            RuntimeError: it ended by itself between two inputs.
        """
        code = self.finish()
        if self._current is None and code == 0:
            return None
        if self._current is None:
            told = f"told to: {self._why}" if self._why != CRASH else "by itself"
            raise RuntimeError(
                f"worker {self._words} ended with {code}, {told}; run it by hand"
            )
        name = signal.Signals(-code).name if code < 0 else f"code {code}"
        told = {"end": self._current, "outcome": self._why, "said": f"ended by {name}"}
        self._seen.note(told, time.monotonic() - self._since)
        target, *rest = self._words
        if isinstance(self._current, int):
            rest[1] = str(self._current + 1)
            is_done = int(rest[1]) >= int(rest[2])
        else:
            rest = rest[rest.index(self._current) + 1 :]
            is_done = not rest
        return None if is_done else Worker(self._base, [target, *rest], self._seen)


def run_inputs(base: Path, target: str, paths: list[str]) -> Seen:
    """Kept inputs, one after the other."""
    seen = Seen(target)
    begun = time.monotonic()
    if paths:
        _together([Worker(base, [target, *paths], seen)])
    seen.wall_s = time.monotonic() - begun
    return seen


def run_seed(
    base: Path,
    target: str,
    seed: int,
    numbers: range,
    *,
    jobs: int = 1,
    chunk: int = CHUNK,
    seconds: float = 3600,
) -> Seen:
    """Cases of a seed, in chunks of a process, until they are done or time is up."""
    seen = Seen(target)
    begun = time.monotonic()
    deadline = begun + seconds
    # Makes the good inputs.
    _together([Worker(base, [target, str(seed), "0", "0"], seen)])
    chunks = iter(range(numbers.start, numbers.stop, chunk))

    def more() -> Worker | None:
        start = next(chunks, None) if time.monotonic() < deadline else None
        if start is None:
            return None
        stop = min(start + chunk, numbers.stop)
        return Worker(base, [target, str(seed), str(start), str(stop)], seen)

    first = [worker for _ in range(jobs) if (worker := more()) is not None]
    _together(first, more, deadline)
    seen.wall_s = time.monotonic() - begun
    return seen


def _together(
    workers: list[Worker],
    more: Callable[[], Worker | None] = lambda: None,
    deadline: float = float("inf"),
) -> None:
    """Read all workers' lines; one that is done makes place for one more."""
    running = list(workers)
    while running:
        with selectors.DefaultSelector() as selector:
            for worker in running:
                selector.register(worker, selectors.EVENT_READ, worker)
            ready = [key.data for key, _ in selector.select(timeout=0.2)]
        for worker in ready:
            if not worker.read():
                running.remove(worker)
                another = worker.following() or more()
                running += [another] if another is not None else []
        for worker in running:
            worker.watch()
        if time.monotonic() > deadline:
            for worker in running:
                worker.stop()
            return


def _busy_s(pid: int) -> float:
    """Processor time of a process so far."""
    try:
        words = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
