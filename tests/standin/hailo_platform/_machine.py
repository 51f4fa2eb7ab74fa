"""The machine that the stand-in pretends to be on, its faults, and what it saw.

`machine.json` in `$STANDIN_MACHINE` holds any of the keys of `_DEFAULTS`. Tests in the same process
may set the attributes of `MACHINE`, and `plan`, a function of the place and its count that names a
fault. Processes share a chip through lock files in that folder, where `runs.log` and
`violations.log` lie, too; while a file `hold` is there no run ends, and `held` says that one waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_DEFAULTS: dict[str, Any] = {
    "chip": "hailo8l",
    "version": "4.23.0",
    "devices": 1,
    "service": False,
    "latency_ms": 0.0,
    "remember": False,  # a chip costs the processor nothing: what was computed before is kept
    "hang_s": 3600.0,
    "late_s": 2.5,
    "temperature_c": 48.5,
    "import": "",
    "knows_numpy_2": True,  # false: made with pybind11 2.10, to which its arrays have no bytes
    "answers": "",  # a wrong answer of `_answers.py` at every run of an encoder, or `mel_axes`
    "faults": {},  # place -> {count as text: fault}, count from 0; "*" is every time
}


_LOCKED = ctypes.PyDLL(None)
"""The C library, called without letting Python's lock go."""


class Machine:
    """State of the whole process."""

    def __init__(self) -> None:
        folder = os.environ.get("STANDIN_MACHINE")
        self.folder = Path(folder) if folder else None
        given = {}
        if self.folder is not None and (self.folder / "machine.json").is_file():
            given = json.loads(
                (self.folder / "machine.json").read_text(encoding="utf-8")
            )
        self.set(**{**_DEFAULTS, **given})
        self.plan: Callable[[str, int], str | None] | None = None
        self.violations: list[str] = []
        self.lock = threading.RLock()
        self.open_devices: weakref.WeakSet[Any] = weakref.WeakSet()
        self._core = threading.Condition()
        self._busy = False
        self._waiting: list[int] = []
        self._gate = threading.Event()
        self._gate.set()

    def set(self, **facts: Any) -> None:
        """Another machine, as if it had just started."""
        unknown = set(facts) - set(_DEFAULTS)
        if unknown:
            raise ValueError(f"no such keys: {unknown}")
        self.facts: dict[str, Any] = {**_DEFAULTS, **facts}
        self.counts: Counter[str] = Counter()
        self.away = 0
        self.most_queued = 0
        self.order: list[int] = []

    @property
    def version(self) -> str:
        return str(self.facts["version"])

    @property
    def chip(self) -> str:
        return str(self.facts["chip"])

    @property
    def legacy(self) -> bool:
        return self.chip in {"hailo8", "hailo8l"}

    @property
    def knows_incompatible(self) -> bool:
        """Since 4.21 a HEF for another chip has a status of its own."""
        major, minor, _ = (int(part) for part in self.version.split("."))
        return (major, minor) >= (4, 21)

    def refuse_import(self) -> None:
        """Fail as broken installations do."""
        texts = {
            "library": "libhailort.so.4.20.0: cannot open shared object file: No such file",
            "numpy": "numpy.core.multiarray failed to import",
            "python": "/x/ should include a _pyhailort library (_pyhailort*311*.so)",
            "version": "_pyhailort version (5.1.1) does not match pyhailort version (4.23.0)",
        }
        if self.facts["import"]:
            raise ImportError(texts[self.facts["import"]])

    def fault(self, place: str) -> str | None:
        """What goes wrong here and now; a call that hangs does so in here."""
        with self.lock:
            count = self.counts[place]
            self.counts[place] += 1
            if self.plan is not None:
                found = self.plan(place, count)
            else:
                planned = self.facts["faults"].get(place, {})
                found = planned.get(str(count), planned.get("*"))
        if found is not None:
            self._append("faults.log", f"{place} {found}")
        if found == "hang":
            self.hang()
            return None
        return found

    def hang(self) -> None:
        """As the vendor's calls do: they keep Python's lock, and signals with handlers go on."""
        mutex = ctypes.create_string_buffer(64)
        until = (ctypes.c_long * 2)()
        until[0] = int(time.time() + float(self.facts["hang_s"]))
        _LOCKED.pthread_mutex_lock(mutex)
        _LOCKED.pthread_mutex_timedlock(mutex, until)

    def lose(self, scans: int) -> None:
        """The chip goes away for so many scans."""
        with self.lock:
            self.away = scans

    def devices(self) -> list[str]:
        """Ids of those that a scan finds."""
        with self.lock:
            if self.away > 0:
                self.away -= 1
                return []
        return [f"000{i}:01:00.0" for i in range(int(self.facts["devices"]))]

    def violated(self, what: str) -> None:
        """What the real binding would not survive, or not say."""
        self.violations.append(what)
        self._append("violations.log", what)

    def ran(self, **facts: Any) -> None:
        self._append("runs.log", json.dumps({"pid": os.getpid(), **facts}))

    def take(self, *, shared: bool) -> int | None:
        """A lock on the chip among processes; `None` if it is taken, -1 without a folder."""
        if self.folder is None:
            return -1
        handle = os.open(self.folder / "chip.lock", os.O_RDWR | os.O_CREAT)
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    def turn(self, priority: int) -> int:
        """Wait for the chip's one core; of several networks that wait the most urgent is next."""
        with self._core:
            self._waiting.append(priority)
            self._core.wait_for(
                lambda: not self._busy and priority == max(self._waiting)
            )
            self._waiting.remove(priority)
            self._busy = True
            self.order.append(priority)
        if self.folder is None:
            return -1
        mark = self.folder / f"waits-{priority:02}-{os.getpid()}"
        mark.touch()
        handle = os.open(self.folder / "core.lock", os.O_RDWR | os.O_CREAT)
        while not self._foremost(mark.name) or not _locked(handle):
            time.sleep(0.001)
        mark.unlink()
        return handle

    def give(self, handle: int) -> None:
        if handle >= 0:
            os.close(handle)

    def over(self, handle: int) -> None:
        """The core is free for the next one."""
        self.give(handle)
        with self._core:
            self._busy = False
            self._core.notify_all()

    def _foremost(self, mark: str) -> bool:
        """Whether no process waits with a higher priority; those that were killed do not count."""
        assert self.folder is not None
        for other in self.folder.glob("waits-*"):
            _, priority, pid = other.name.split("-")
            if (
                int(priority) > int(mark.split("-")[1])
                and Path(f"/proc/{pid}").exists()
            ):
                return False
        return True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No run of this process ends before the block does."""
        self._gate.clear()
        try:
            yield
        finally:
            self._gate.set()

    @property
    def waiting(self) -> list[int]:
        """Priorities of the networks that wait for the core."""
        with self._core:
            return list(self._waiting)

    def latency(self) -> None:
        self._gate.wait(60)
        if self.folder is not None:
            while (self.folder / "hold").exists():
                (self.folder / "held").touch()
                time.sleep(0.01)
        if self.facts["latency_ms"]:
            time.sleep(float(self.facts["latency_ms"]) / 1000)

    def _append(self, name: str, line: str) -> None:
        if self.folder is not None:
            with (self.folder / name).open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


MACHINE = Machine()
