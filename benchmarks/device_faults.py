"""Faults of the chip at random points of a long run: nothing leaks or goes missing.

Recordings are transcribed over and over by an encoder on the stand-in for Hailo's binding and our
decoder on the CPU. Whatever fails, a recording ends with its right text or with a reported error.

    python benchmarks/device_faults.py --faults 1000 --seed 0 [--streams 1] [--json] [--write]

Memory is looked at twice, before and after all of it: bytes that the C library has handed out, and
the resident set once it has given back what it keeps for later. With `--write` the run goes into
`results/device_faults.json` and the table of docs/hailo-device.md.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "standin")]

from hailo_platform._machine import MACHINE  # noqa: E402
from tests.standin.make_hef import write_hefs  # noqa: E402

from benchmarks import device_faults_table as kept  # noqa: E402
from whisper_hailo.backends.hailo.lease import _HELD  # noqa: E402
from whisper_hailo.backends.hailo.options import ChipOptions  # noqa: E402
from whisper_hailo.backends.options import EngineOptions  # noqa: E402
from whisper_hailo.convert.convert import convert_checkpoint  # noqa: E402
from whisper_hailo.convert.options import ConvertOptions, HailoOptions  # noqa: E402
from whisper_hailo.core.errors import WhisperHailoError  # noqa: E402
from whisper_hailo.transcription.transcriber import Transcriber  # noqa: E402

MICRO = ROOT / "src" / "whisper_hailo" / "assets" / "micro"
SPEECH = ROOT / "tests" / "data" / "micro" / "unseen"
OPTIONS = ChipOptions(timeout_s=0.4, recovery_s=2.0)

FAULTS = {
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


class Plan:
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
        return self.injected.total() >= self._wanted

    def __call__(self, place: str, _count: int) -> str | None:
        with self._lock:
            chance = 0.5 if place == "run" else 0.12
            if place not in FAULTS or not self.armed or self.done:
                return None
            if self._random.random() > chance:
                return None
            fault = self._random.choice(FAULTS[place])
            self.injected[f"{place}: {fault}"] += 1
            if self.injected.total() % _LOOK_EVERY == 0:
                self.rss_mib.append(_rss_mib())
                print(f"{self.injected.total()} faults, {self.rss_mib[-1]} MiB", file=sys.stderr)
            return fault


@dataclass
class Tally:
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
    parser = argparse.ArgumentParser(description=__doc__)
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
        kept.keep({"seed": wanted.seed, "streams": wanted.streams, **facts})
    if wanted.json:
        print(json.dumps(facts))
    else:
        print("\n".join(f"{key}: {value}" for key, value in facts.items()))
    return 0 if facts["verdict"] == "ok" else 1


def soak(folder: Path, n_faults: int, seed: int, n_streams: int) -> dict[str, Any]:
    """Run until that many faults have happened; what was seen."""
    model = folder / "micro"
    convert_checkpoint(MICRO, model, ConvertOptions(hailo=HailoOptions()))
    encoder, _ = write_hefs(model, folder / "hefs")
    files = sorted(SPEECH.glob("*.ogg"))[:6]
    plan = Plan(seed, n_faults)
    MACHINE.set(late_s=0.6)
    MACHINE.plan = plan
    engine = EngineOptions(encoder=encoder, hailo=OPTIONS)
    patient = EngineOptions(encoder=encoder)
    with Transcriber.from_model(str(model), engine=patient, threads=1) as transcriber:
        texts = {path: transcriber.transcribe(path).text for path in files}
    # As many at once as later: each thread keeps memory of its own that it never gives back.
    warming = [
        threading.Thread(target=_warm, args=(model, patient, files)) for _ in range(n_streams)
    ]
    for stream in warming:
        stream.start()
    for stream in warming:
        stream.join()
    before = _resources()
    plan.armed = True
    start, tally = time.monotonic(), Tally()
    streams = [
        threading.Thread(target=_stream, args=(model, engine, texts, plan, tally))
        for _ in range(n_streams)
    ]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()
    after = _resources()
    closed = all(held.users == 0 and held.chip is None for held in _HELD.values())
    leaks = after["fds"] > before["fds"] or after["threads"] > before["threads"] or not closed
    leaks = leaks or after["rss_mib"] - before["rss_mib"] > _MOST_GROWTH_MIB
    leaks = leaks or after["heap_mib"] - before["heap_mib"] > _MOST_HEAP_MIB
    good = tally.wrong == 0 and not leaks and not MACHINE.violations
    good = good and tally.longest_s < _LONGEST_FILE_S
    return {
        "verdict": "ok" if good else "FAILED",
        "faults": plan.injected.total(),
        "by_kind": dict(sorted(plan.injected.items())),
        "files": tally.files,
        "right_text": tally.right,
        "wrong_text": tally.wrong,
        "reported": dict(tally.errors),
        "longest_file_s": round(tally.longest_s, 2),
        "seconds": round(time.monotonic() - start, 1),
        "violations": MACHINE.violations,
        "before": before,
        "after": after,
        "rss_mib_every_100": plan.rss_mib,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _warm(model: Path, engine: EngineOptions, files: list[Path]) -> None:
    """Transcribes without faults until memory has its size."""
    with Transcriber.from_model(str(model), engine=engine, threads=1) as transcriber:
        for path in files * (_WARM_FILES // len(files) + 1):
            transcriber.transcribe(path)


def _stream(
    model: Path, engine: EngineOptions, texts: dict[Path, str], plan: Plan, tally: Tally
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


def _one(transcriber: Transcriber, path: Path, text: str, tally: Tally) -> None:
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
        "rss_mib": _rss_mib(),
        "heap_mib": (heap.uordblks + heap.hblkhd) >> 20,
    }


def _rss_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


if __name__ == "__main__":
    sys.exit(main())
