"""Faults of the chip at random points of a long run: nothing leaks or goes missing.

Recordings are transcribed over and over by an encoder on the stand-in for Hailo's binding and our
decoder on the CPU. Whatever fails, a recording ends with its right text or with a reported error.

    python -m whisper_hailo_lab.experiments.device_faults [--faults 1000] [--seed 0] [--streams 1]
                                                          [--json] [--write]

Memory is looked at twice, before and after all of it: bytes that the C library has handed out, and
the resident set once it has given back what it keeps for later. With `--write` the run is kept and
goes into the table of docs/hailo-device.md.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
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

from whisper_hailo.backends.hailo.chip import HELD_CHIPS
from whisper_hailo.backends.options import ChipOptions, EngineOptions
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.data.clips import recordings
from whisper_hailo_lab.documents.device_faults import RESULT, with_run
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import MICRO, stand_in_chip, stand_in_hefs
from whisper_hailo_lab.runs.machine import rss_mib

logger = logging.getLogger(__name__)

OPTIONS: Final = ChipOptions(timeout_s=0.4)

FAULTS: Final = {
    "run": ("timeout", "late", "abort", "lost", "refuse", "HAILO_COMMUNICATION_CLOSED"),
    "open": ("busy", "none", "HAILO_DEVICE_NOT_CONNECTED", "HAILO_DRIVER_OPERATION_FAILED"),
    "load": ("broken",),
    "configure": ("wrong", "HAILO_TIMEOUT"),
    "identify": ("refused",),
    "scan": ("none", "HAILO_DRIVER_OPERATION_FAILED"),
    "release": ("HAILO_COMMUNICATION_CLOSED",),
}
"""By place. Calls that hang end the program, which tests of their own see."""
_LONGEST_FILE_S = 30.0
_WARM_FILES = 20
_MOST_GROWTH_MIB = 64
_MOST_HEAP_MIB = 8
"""Of memory in use, which hardly varies; the resident set depends on what lies beside what."""
_LOOK_EVERY = 100
_M_ARENA_MAX = -8
_C = ctypes.CDLL(None)


class _Heap(ctypes.Structure):
    """What `mallinfo2` of the C library gives."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    ]


_C.mallinfo2.restype = _Heap


class FaultPlan:
    """Which fault comes when; a machine's every fault is counted."""

    def __init__(self, seed: int, wanted: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._lock = threading.Lock()
        self._wanted = wanted
        self.injected: Counter[str] = Counter()
        self.rss_mib: list[int] = []
        self.armed = False

    @property
    def done(self) -> bool:
        """Whether as many came as were wanted."""
        return self.injected.total() >= self._wanted

    def __call__(self, place: str, _count: int) -> str | None:
        """The fault that the machine shows at a place now; `None` is none."""
        with self._lock:
            chance = 0.5 if place == "run" else 0.12
            if place not in FAULTS or not self.armed or self.done:
                return None
            if self._random.random() > chance:
                return None
            fault = self._random.choice(FAULTS[place])
            self.injected[f"{place}: {fault}"] += 1
            if self.injected.total() % _LOOK_EVERY == 0:
                self.rss_mib.append(int(rss_mib()))
                logger.info("%d faults, %d MiB", self.injected.total(), self.rss_mib[-1])
            return fault


@dataclass
class FaultTally:
    """What became of the recordings."""

    right: int = 0
    wrong: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def files(self) -> int:
        return self.right + self.wrong + self.errors.total()


def main() -> int:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="keep the result, fill the table")
    # The stand-in makes sessions in short-lived threads, and the C library keeps an arena for each:
    # that would be taken for a leak, or hide one.
    _C.mallopt(_M_ARENA_MAX, 1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = soak(Path(folder), wanted.faults, wanted.seed, wanted.streams)
    if wanted.write:
        runs = json.loads(RESULT.read_text(encoding="utf-8"))
        made = {"seed": wanted.seed, "streams": wanted.streams, **facts}
        keep(RESULT, with_run(runs, made), indent=1)
    if wanted.json:
        emit_json(facts)
    else:
        emit("".join(f"{key}: {value}\n" for key, value in facts.items()))
    return 0 if facts["verdict"] == "ok" else 1


def soak(folder: Path, n_faults: int, seed: int, n_streams: int) -> dict[str, Any]:
    """Run until that many faults have happened; what was seen."""
    model, machine = folder / "micro", stand_in_chip()
    convert_checkpoint(MICRO, model, ConvertOptions("none", hailo=HailoOptions()))
    encoder, _ = stand_in_hefs(model, folder / "hefs")
    files = recordings("unseen")[:6]
    plan = FaultPlan(seed, n_faults)
    machine.set(late_s=0.6)
    machine.plan = plan
    engine = EngineOptions(encoder=encoder, hailo=OPTIONS)
    patient = EngineOptions(encoder=encoder)
    with Transcriber.from_model(str(model), engine=patient, threads=1) as transcriber:
        texts = {path: transcriber.transcribe(path).text for path in files}
    # As many at once as later: each thread keeps memory of its own that it never gives back.
    _at_once(n_streams, lambda: _warm(model, patient, files))
    before = _resources()
    plan.armed = True
    start, tally = time.monotonic(), FaultTally()
    _at_once(n_streams, lambda: _stream(model, engine, texts, plan, tally))
    seconds, after = time.monotonic() - start, _resources()
    good = tally.wrong == 0 and not machine.violations and tally.longest_s < _LONGEST_FILE_S
    return {
        "verdict": "ok" if good and not _leaks(before, after) else "FAILED",
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


def _at_once(count: int, work: Callable[[], None]) -> None:
    """The same work in so many threads, to their ends."""
    streams = [threading.Thread(target=work) for _ in range(count)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()


def _leaks(before: dict[str, int], after: dict[str, int]) -> bool:
    """Whether something is still held, or more memory than that of a warm process."""
    grown = {name: after[name] - before[name] for name in before}
    held = any(held.users or held.chip is not None for held in HELD_CHIPS.values())
    return (
        held
        or grown["fds"] > 0
        or grown["threads"] > 0
        or grown["rss_mib"] > _MOST_GROWTH_MIB
        or grown["heap_mib"] > _MOST_HEAP_MIB
    )


def _warm(model: Path, engine: EngineOptions, files: list[Path]) -> None:
    """Transcribes without faults until memory has its size."""
    with Transcriber.from_model(str(model), engine=engine, threads=1) as transcriber:
        for path in files * (_WARM_FILES // len(files) + 1):
            transcriber.transcribe(path)


def _stream(
    model: Path, engine: EngineOptions, texts: dict[Path, str], plan: FaultPlan, tally: FaultTally
) -> None:
    """One stream's recordings, one after another, as `transcribe` does with several files."""
    while not plan.done:
        try:
            transcriber = Transcriber.from_model(str(model), engine=engine, threads=1).open()
        except WhisperHailoError as error:
            with tally.lock:
                tally.errors[f"open: {type(error).__name__}"] += 1
            continue
        with transcriber:
            for path, text in list(texts.items()) * 8:
                _one(transcriber, path, text, tally)
                if plan.done:
                    break


def _one(transcriber: Transcriber, path: Path, text: str, tally: FaultTally) -> None:
    start = time.monotonic()
    try:
        same = transcriber.transcribe(path).text == text
        outcome = "right" if same else "wrong"
    except WhisperHailoError as error:
        outcome = type(error).__name__
    with tally.lock:
        tally.longest_s = max(tally.longest_s, time.monotonic() - start)
        if outcome in {"right", "wrong"}:
            setattr(tally, outcome, getattr(tally, outcome) + 1)
        else:
            tally.errors[outcome] += 1


def _resources() -> dict[str, int]:
    """Open files, threads, and memory in MiB of this process."""
    gc.collect()
    _C.malloc_trim(0)
    heap = _C.mallinfo2()
    return {
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "rss_mib": int(rss_mib()),
        "heap_mib": (heap.uordblks + heap.hblkhd) >> 20,
    }


if __name__ == "__main__":
    sys.exit(run(main))
