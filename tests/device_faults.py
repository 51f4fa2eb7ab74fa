"""Faults of the chip at random points of a long run: nothing leaks or goes missing.

Recordings are transcribed repeatedly by an encoder on the stand-in for Hailo's binding and our
decoder on the CPU. Whatever fails, a recording ends with its right text or with a reported error.

    python -m tests.device_faults [--faults 1000] [--seed 0] [--streams 1] [--json] [--write]

Memory is measured before and after: the bytes that the C library has allocated, and the resident
set after it has returned its free memory. With `--write` the run is kept and added to the table of
docs/hailo-device.md.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.standin.make_hef import write_hefs
from whisper_hailo.backends.hailo.chip import HELD_CHIPS
from whisper_hailo.backends.options import ChipOptions, EngineOptions
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.clip_archives import find_clips
from whisper_hailo_lab.documents.device_faults import RESULT, add_run
from whisper_hailo_lab.documents.pages import keep_result
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import MICRO, ROOT
from whisper_hailo_lab.runs.machine import rss_mib
from whisper_hailo_lab.runs.results import read_result

logger = logging.getLogger(__name__)

OPTIONS: Final = ChipOptions(timeout_s=0.4)
_LATE_S: Final = 0.6
"""Delay of the fault `late`, beyond the time-out."""

FAULTS: Final = {
    "run": ("timeout", "late", "abort", "lost", "refuse", "HAILO_COMMUNICATION_CLOSED"),
    "open": (
        "busy",
        "none",
        "HAILO_DEVICE_NOT_CONNECTED",
        "HAILO_DRIVER_OPERATION_FAILED",
    ),
    "load": ("broken",),
    "configure": ("wrong", "HAILO_TIMEOUT"),
    "identify": ("refused",),
    "scan": ("none", "HAILO_DRIVER_OPERATION_FAILED"),
    "release": ("HAILO_COMMUNICATION_CLOSED",),
}
"""Faults by the call that shows them. Calls that hang end the program; other tests cover them."""

_RUN_CHANCE: Final = 0.5
_OTHER_CHANCE: Final = 0.12
_LONGEST_FILE_S: Final = 30.0
_WARM_FILES: Final = 20
_N_FILES: Final = 6
_REPEATS: Final = 8
"""Rounds over the recordings before the transcriber is opened again."""

_MOST_GROWTH_MIB: Final = 64
"""Growth of the resident set, which depends on fragmentation."""

_MOST_HEAP_MIB: Final = 8
"""Growth of allocated memory, which hardly varies."""

_SAMPLE_EVERY: Final = 100
_M_ARENA_MAX: Final = -8
_C: Final = ctypes.CDLL(None)


class _Heap(ctypes.Structure):
    """Result of the C library's `mallinfo2`."""

    _fields_ = [
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    ]


_C.mallinfo2.restype = _Heap


class FaultPlan:
    """Decides which call of the machine fails, and counts the faults."""

    def __init__(self, seed: int, n_faults: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._n_faults = n_faults
        self.injected: Counter[str] = Counter()
        self.rss_mib: list[int] = []
        self.is_armed = False

    @property
    def is_done(self) -> bool:
        """Whether all faults have been injected."""
        return self.injected.total() >= self._n_faults

    def __call__(self, place: str, _count: int) -> str | None:
        """Return the fault of a call, or `None`."""
        with self._lock:
            chance = _RUN_CHANCE if place == "run" else _OTHER_CHANCE
            if place not in FAULTS or not self.is_armed or self.is_done:
                return None
            if self._random.random() > chance:
                return None
            fault = self._random.choice(FAULTS[place])
            self.injected[f"{place}: {fault}"] += 1
            if self.injected.total() % _SAMPLE_EVERY == 0:
                self.rss_mib.append(int(rss_mib()))
                logger.info(
                    "%d faults, %d MiB", self.injected.total(), self.rss_mib[-1]
                )
            return fault


@dataclass
class FaultTally:
    """Outcomes of the recordings."""

    right: int = 0
    wrong: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def files(self) -> int:
        return self.right + self.wrong + self.errors.total()

    def add_text(self, is_right: bool, took_s: float) -> None:
        """Count a recording with a text."""
        with self.lock:
            self.longest_s = max(self.longest_s, took_s)
            self.right += is_right
            self.wrong += not is_right

    def add_error(self, name: str, took_s: float = 0.0) -> None:
        """Count a reported error."""
        with self.lock:
            self.longest_s = max(self.longest_s, took_s)
            self.errors[name] += 1


def inject_faults(
    folder: Path,
    n_faults: int,
    seed: int,
    n_streams: int,
) -> dict[str, Any]:
    """Transcribe until some faults have happened, and return what came of it."""
    model = folder / "micro"
    machine = _stand_in_chip()
    convert_checkpoint(MICRO, model, ConvertOptions("none", hailo=HailoOptions()))
    encoder, _ = write_hefs(model, folder / "hefs")
    files = find_clips("unseen")[:_N_FILES]
    plan = FaultPlan(seed, n_faults)
    machine.set(late_s=_LATE_S)
    machine.plan = plan
    engine = EngineOptions(encoder=encoder, hailo=OPTIONS)
    patient = EngineOptions(encoder=encoder)
    with Transcriber.from_model(str(model), engine=patient, threads=1) as transcriber:
        texts = {path: transcriber.transcribe(path).text for path in files}
    # As many threads as later: each keeps memory of its own that it never returns.
    _run_threads(n_streams, lambda: _warm_up(model, patient, files))
    before = _measure_resources()
    plan.is_armed = True
    begin_s = time.monotonic()
    tally = FaultTally()
    _run_threads(
        n_streams, lambda: _transcribe_stream(model, engine, texts, plan, tally)
    )
    seconds = time.monotonic() - begin_s
    after = _measure_resources()
    is_good = (
        tally.wrong == 0
        and not machine.violations
        and tally.longest_s < _LONGEST_FILE_S
    )
    return {
        "verdict": "ok" if is_good and not _has_leaks(before, after) else "FAILED",
        "faults": plan.injected.total(),
        "by_kind": dict(sorted(plan.injected.items())),
        "files": tally.files,
        "right_text": tally.right,
        "wrong_text": tally.wrong,
        "reported": dict(tally.errors),
        "longest_file_s": round(tally.longest_s, 2),
        "seconds": round(seconds, 1),
        "violations": machine.violations,
        "before": before,
        "after": after,
        "rss_mib_every_100": plan.rss_mib,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _stand_in_chip() -> Any:
    """Return the machine of the stand-in for Hailo's binding, which becomes the binding."""
    sys.path[:0] = [str(ROOT / "tests" / "standin")]
    from hailo_platform._machine import MACHINE

    return MACHINE


def _run_threads(count: int, work: Callable[[], None]) -> None:
    """Do the same work in some threads, and wait for their ends."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _has_leaks(before: dict[str, int], after: dict[str, int]) -> bool:
    """Return whether a chip is still held, or a resource has grown."""
    growth = {name: after[name] - before[name] for name in before}
    for held in HELD_CHIPS.values():
        if held.users or held.chip is not None:
            return True
    return (
        growth["fds"] > 0
        or growth["threads"] > 0
        or growth["rss_mib"] > _MOST_GROWTH_MIB
        or growth["heap_mib"] > _MOST_HEAP_MIB
    )


def _warm_up(model: Path, engine: EngineOptions, files: list[Path]) -> None:
    """Transcribe without faults until memory has its size."""
    with Transcriber.from_model(str(model), engine=engine, threads=1) as transcriber:
        for path in files * (_WARM_FILES // len(files) + 1):
            transcriber.transcribe(path)


def _transcribe_stream(
    model: Path,
    engine: EngineOptions,
    texts: dict[Path, str],
    plan: FaultPlan,
    tally: FaultTally,
) -> None:
    """Transcribe recordings one after another, as `transcribe` does with several files."""
    while not plan.is_done:
        try:
            transcriber = Transcriber.from_model(
                str(model), engine=engine, threads=1
            ).open()
        except WhisperHailoError as error:
            tally.add_error(f"open: {type(error).__name__}")
            continue
        with transcriber:
            for path, text in list(texts.items()) * _REPEATS:
                _transcribe_file(transcriber, path, text, tally)
                if plan.is_done:
                    break


def _transcribe_file(
    transcriber: Transcriber,
    path: Path,
    text: str,
    tally: FaultTally,
) -> None:
    begin_s = time.monotonic()
    try:
        is_right = transcriber.transcribe(path).text == text
    except WhisperHailoError as error:
        tally.add_error(type(error).__name__, time.monotonic() - begin_s)
    else:
        tally.add_text(is_right, time.monotonic() - begin_s)


def _measure_resources() -> dict[str, int]:
    """Return open files, threads, and memory in MiB of this process."""
    gc.collect()
    _C.malloc_trim(0)
    heap = _C.mallinfo2()
    return {
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "rss_mib": int(rss_mib()),
        "heap_mib": (heap.uordblks + heap.hblkhd) >> 20,
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--write", action="store_true", help="keep the result, fill the table"
    )
    # The stand-in makes sessions in short-lived threads, and the C library keeps an arena for each:
    # that would look like a leak, or hide one.
    _C.mallopt(_M_ARENA_MAX, 1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = inject_faults(
            Path(folder), arguments.faults, arguments.seed, arguments.streams
        )
    if arguments.write:
        run = {"seed": arguments.seed, "streams": arguments.streams, **facts}
        keep_result(RESULT, add_run(read_result(RESULT) or [], run), indent=1)
    if arguments.json:
        emit_json(facts)
    else:
        for key, value in facts.items():
            emit(f"{key}: {value}\n")
    return 0 if facts["verdict"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(run_program(main))
