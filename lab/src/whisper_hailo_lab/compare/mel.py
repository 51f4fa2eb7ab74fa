"""Log-mel implementations: times in turns, and the difference from the formula in float64.

Each implementation runs in a process of its own, ours included, in the environment that it is
installed in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo_lab.compare.mel_worker import HERE, N_MELS, OURS
from whisper_hailo_lab.compare.paired import time_in_turns
from whisper_hailo_lab.harness.evaluate import Progress
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.process import AnsweringProcess

LENGTHS_S: Final = (8.0, 30.0)
"""Lengths of the study's clip and of Whisper's window."""

ROUNDS: Final = 30
SCRIPTS: Final = {
    "transformers": "mel_transformers.py",
    "openai-whisper": "mel_openai.py",
}
SYSTEMS: Final = (*HERE, *SCRIPTS)


def compare_mel(progress: Progress) -> ComparisonRecord:
    """Time every implementation that is installed, here or in its own environment."""
    processes: dict[str, AnsweringProcess] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name in SYSTEMS:
            try:
                worker = AnsweringProcess(_worker_command(name), _one_thread())
                stack.callback(worker.stop)
                worker.ask("1.0")
                processes[name] = worker
            except WhisperHailoError as error:
                missing[name] = str(error)
        rows = [
            row
            for seconds in LENGTHS_S
            for row in _measure_rows(processes, seconds, progress)
        ]
    settings = {
        "n_mels": N_MELS,
        "rounds": ROUNDS,
        "threads": 1,
        "not_measured": missing,
    }
    return ComparisonRecord("mel", settings, tuple(rows))


def _one_thread() -> dict[str, str]:
    return process.make_environment(threads=1) | {"OPENBLAS_NUM_THREADS": "1"}


def _worker_command(name: str) -> list[str]:
    """Return the command of an implementation.

    Raises:
        OptionError: its environment is missing.
    """
    python = process.find_interpreter(name)
    if name in SCRIPTS:
        if python is None:
            raise OptionError(
                f"its environment is missing: make lab NAME=rivals makes .venv-rivals/{name}"
            )
        return [str(python), str(process.find_script(SCRIPTS[name]))]
    return [
        str(python or sys.executable),
        "-m",
        "whisper_hailo_lab.compare.mel_worker",
        name,
    ]


def _measure_rows(
    processes: dict[str, AnsweringProcess], seconds: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Yield a row for each implementation on audio of one length."""

    def timed(worker: AnsweringProcess) -> Callable[[], float]:
        return lambda: float(worker.ask(str(seconds))["ms"])

    facts = {name: worker.ask(str(seconds)) for name, worker in processes.items()}
    times = time_in_turns(
        {name: timed(worker) for name, worker in processes.items()},
        ROUNDS,
        lambda number: progress(number, ROUNDS, f"mel: {seconds:g} s"),
    )
    for name in processes:
        yield {
            "audio_s": seconds,
            "implementation": name,
            "ms": times.median_ms(name),
            "ratio": times.ratio(name, OURS),
            "largest_difference": facts[name]["largest_difference"],
            "frames": facts[name]["frames"],
        }
