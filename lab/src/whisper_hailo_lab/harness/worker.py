"""The process of one case: JSON lines in, JSON lines out.

    python -m whisper_hailo_lab.harness.worker < orders > answers

Orders are `open`, `warm-up`, `transcribe` and `close`, answers tell what came of them. A script of
another environment gives `serve` a system of its own; it needs NumPy, soundfile and soxr.
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
from whisper_hailo_lab.runs.machine import cpu_s, package_versions, peak_rss_mib, rss_mib
from whisper_hailo_lab.runs.records import Case
from whisper_hailo_lab.systems.protocol import Loading, System

Answer: TypeAlias = dict[str, Any]
Factory: TypeAlias = Callable[[Loading], System]


class MemoryWatch:
    """Growth of resident memory per component; what shrinks counts as nothing."""

    def __init__(self) -> None:
        self.growth_mib: dict[str, float] = {}

    def __call__(self, component: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Do `work` and give back what it gives."""
        before = rss_mib()
        try:
            return work()
        finally:
            grown = max(0.0, rss_mib() - before)
            self.growth_mib[component] = self.growth_mib.get(component, 0.0) + grown


class SystemWorker:
    """Carries orders out for one system."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._system: System | None = None
        self._crop_s: float | None = None

    def answer(self, order: dict[str, Any]) -> Answer:
        """Carry one order out; a failure is an answer, too."""
        doing: dict[str, Callable[..., Answer]] = {
            "open": self._open,
            "warm-up": self._warm_up,
            "transcribe": self._transcribe,
            "close": self._close,
        }
        try:
            return doing[order.pop("order")](**order)
        except WhisperHailoError as error:
            return {"error": str(error), "exit_code": int(error.exit_code)}
        except Exception as error:  # engines raise what they like
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return {"error": what, "exit_code": int(ExitCode.INTERNAL)}

    def _open(self, case: dict[str, Any], path: str) -> Answer:
        made = Case(**case)
        self._crop_s = made.crop_s
        system = self._factory(Loading(case=made, path=path))
        before, watch, begin = rss_mib(), MemoryWatch(), perf_counter()
        heard_as = system.open(watch)
        load_ms = (perf_counter() - begin) * 1000.0
        self._system = system
        return {
            "load_ms": load_ms,
            "before_mib": before,
            "load_mib": watch.growth_mib,
            "versions": package_versions(system.packages),
            "heard_as": heard_as,
        }

    def _warm_up(self, audio: str, runs: int) -> Answer:
        samples, watch, times_ms = self._audio(audio), MemoryWatch(), []
        for _ in range(runs):
            begin = perf_counter()
            self._opened().warm_up(samples, watch)
            times_ms.append((perf_counter() - begin) * 1000.0)
        return {"warm_up_ms": times_ms, "warm_up_mib": watch.growth_mib}

    def _transcribe(self, audio: str, language: str) -> Answer:
        samples = self._audio(audio)
        cpu_begin, begin = cpu_s(), perf_counter()
        result = self._opened().transcribe(samples, language)
        total_ms = (perf_counter() - begin) * 1000.0
        return {
            "duration_s": samples.size / SAMPLE_RATE_HZ,
            "total_ms": total_ms,
            "cpu_s": cpu_s() - cpu_begin,
        } | asdict(result)

    def _close(self) -> Answer:
        peak = peak_rss_mib()
        if self._system is not None:
            self._system.close()
        return {"peak_mib": peak}

    def _audio(self, path: str) -> FloatArray:
        """The same samples for every system, cut to what its row hears."""
        samples = load_audio(Path(path))
        return samples if self._crop_s is None else samples[: round(self._crop_s * SAMPLE_RATE_HZ)]

    def _opened(self) -> System:
        if self._system is None:
            raise WhisperHailoError("nothing is open; send the order 'open' first")
        return self._system


def answer_orders(factory: Factory) -> None:
    """Answer orders until standard input ends; engines that print are sent to standard error."""
    answers = claim_stdout()
    worker = SystemWorker(factory)
    for line in sys.stdin:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def claim_stdout() -> TextIO:
    """Keep the real standard output for answers; everything else printed goes to the log."""
    claimed = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return claimed


def _from_table(loading: Loading) -> System:
    from whisper_hailo_lab.systems.table import find_system

    return find_system(loading.case.system).make(loading)


if __name__ == "__main__":
    answer_orders(_from_table)
