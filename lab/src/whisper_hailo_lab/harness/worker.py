"""The process of one case: JSON lines in, JSON lines out.

    python -m whisper_hailo_lab.harness.worker < orders > answers

Orders are `open`, `warm-up`, `transcribe` and `close`. A script of another environment calls
`answer_orders` with a system of its own; it needs NumPy, soundfile and soxr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO, TypeAlias

from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import ExitCode, WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.runs.machine import (
    cpu_s,
    package_versions,
    peak_rss_mib,
    rss_mib,
)
from whisper_hailo_lab.runs.records import Case
from whisper_hailo_lab.systems.protocol import Loading, System

Answer: TypeAlias = dict[str, Any]
Factory: TypeAlias = Callable[[Loading], System]


class MemoryWatch:
    """Growth of resident memory per component; shrinking counts as no growth."""

    def __init__(self) -> None:
        self.growth_mib: dict[str, float] = {}

    def __call__(self, component: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what `work` returns."""
        before = rss_mib()
        try:
            return work()
        finally:
            growth = max(0.0, rss_mib() - before)
            self.growth_mib[component] = self.growth_mib.get(component, 0.0) + growth


class SystemWorker:
    """Executes orders with one system."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._system: System | None = None
        self._crop_s: float | None = None

    def answer(self, order: dict[str, Any]) -> Answer:
        """Execute one order and return its answer, which may be an error."""
        actions: dict[str, Callable[..., Answer]] = {
            "open": self._open,
            "warm-up": self._warm_up,
            "transcribe": self._transcribe,
            "close": self._close,
        }
        try:
            action = actions[order.pop("order")]
            return action(**order)
        except WhisperHailoError as error:
            return {"error": str(error), "exit_code": int(error.exit_code)}
        except Exception as error:
            # Engines raise exceptions of any class.
            message = " ".join(str(error).split())[:300]
            text = f"{type(error).__name__}: {message}"
            return {"error": text, "exit_code": int(ExitCode.INTERNAL)}

    def _open(self, case: dict[str, Any], path: str) -> Answer:
        options = Case(**case)
        self._crop_s = options.crop_s
        system = self._factory(Loading(case=options, path=path))
        watch = MemoryWatch()
        before_mib = rss_mib()
        begin = perf_counter()
        heard_as = system.open(watch)
        load_ms = (perf_counter() - begin) * 1000.0
        self._system = system
        return {
            "load_ms": load_ms,
            "before_mib": before_mib,
            "load_mib": watch.growth_mib,
            "versions": package_versions(system.packages),
            "heard_as": heard_as,
        }

    def _warm_up(self, audio: str, runs: int) -> Answer:
        samples = self._read_audio(audio)
        watch = MemoryWatch()
        times_ms = []
        for _ in range(runs):
            begin = perf_counter()
            self._opened().warm_up(samples, watch)
            times_ms.append((perf_counter() - begin) * 1000.0)
        return {"warm_up_ms": times_ms, "warm_up_mib": watch.growth_mib}

    def _transcribe(self, audio: str, language: str) -> Answer:
        samples = self._read_audio(audio)
        begin_cpu_s = cpu_s()
        begin = perf_counter()
        result = self._opened().transcribe(samples, language)
        total_ms = (perf_counter() - begin) * 1000.0
        return {
            "duration_s": samples.size / SAMPLE_RATE_HZ,
            "total_ms": total_ms,
            "cpu_s": cpu_s() - begin_cpu_s,
            **asdict(result),
        }

    def _close(self) -> Answer:
        peak = peak_rss_mib()
        if self._system is not None:
            self._system.close()
        return {"peak_mib": peak}

    def _read_audio(self, path: str) -> FloatArray:
        """Return the samples of a recording, cut if the case's row has it so."""
        samples = load_audio(Path(path))
        if self._crop_s is None:
            return samples
        return samples[: round(self._crop_s * SAMPLE_RATE_HZ)]

    def _opened(self) -> System:
        if self._system is None:
            raise WhisperHailoError("nothing is open; send the command 'open' first")
        return self._system


def answer_orders(factory: Factory) -> None:
    """Answer orders until standard input ends; other output of engines goes to standard error."""
    answers = claim_stdout()
    worker = SystemWorker(factory)
    for line in sys.stdin:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def claim_stdout() -> TextIO:
    """Return standard output for answers; everything else that is printed goes to the log."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _make_system(loading: Loading) -> System:
    from whisper_hailo_lab.systems.table import find_system

    return find_system(loading.case.system).make(loading)


if __name__ == "__main__":
    answer_orders(_make_system)
