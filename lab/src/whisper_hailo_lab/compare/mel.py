"""Log-mel implementations: time in turns, and the distance from the formula in float64.

Every implementation runs where it is installed, ours included, in a process of its own that answers
orders, so that all of them see the same samples.
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
"""The study's clip, and Whisper's window."""

ROUNDS: Final = 30
SCRIPTS: Final = {"transformers": "mel_transformers.py", "openai-whisper": "mel_openai.py"}
SYSTEMS: Final = (*HERE, *SCRIPTS)


def compare_mel(progress: Progress) -> ComparisonRecord:
    """Time every implementation that is installed, here or in its own environment."""
    alive: dict[str, AnsweringProcess] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name in SYSTEMS:
            try:
                process = AnsweringProcess(_command(name), _one_thread())
                stack.callback(process.stop)
                process.ask("1.0")
                alive[name] = process
            except WhisperHailoError as error:
                missing[name] = str(error)
        rows = [row for seconds in LENGTHS_S for row in _rows(alive, seconds, progress)]
    settings = {"n_mels": N_MELS, "rounds": ROUNDS, "threads": 1, "not_measured": missing}
    return ComparisonRecord("mel", settings, tuple(rows))


def _one_thread() -> dict[str, str]:
    return process.variables(threads=1) | {"OPENBLAS_NUM_THREADS": "1"}


def _command(name: str) -> list[str]:
    """Words that start an implementation on one thread; `OptionError` without its environment."""
    python = process.interpreter(name)
    if name in SCRIPTS:
        if python is None:
            raise OptionError(
                f"its environment is missing: make lab NAME=rivals makes .venv-rivals/{name}"
            )
        return [str(python), str(process.script(SCRIPTS[name]))]
    return [str(python or sys.executable), "-m", "whisper_hailo_lab.compare.mel_worker", name]


def _rows(
    alive: dict[str, AnsweringProcess], seconds: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Every implementation on audio of one length."""

    def asking(process: AnsweringProcess) -> Callable[[], float]:
        return lambda: float(process.ask(str(seconds))["ms"])

    facts = {name: process.ask(str(seconds)) for name, process in alive.items()}
    times = time_in_turns(
        {name: asking(process) for name, process in alive.items()},
        ROUNDS,
        lambda number: progress(number, ROUNDS, f"mel: {seconds:g} s"),
    )
    for name in alive:
        yield {
            "audio_s": seconds,
            "implementation": name,
            "ms": times.median_ms(name),
            "ratio": times.ratio(name, OURS),
            "largest_difference": facts[name]["largest_difference"],
            "frames": facts[name]["frames"],
        }
