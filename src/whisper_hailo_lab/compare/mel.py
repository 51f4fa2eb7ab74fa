"""Log-mel implementations: time in turns, and the distance from the formula in float64.

Every implementation runs where it is installed, ours included, in a process of its own that answers
orders, so that all of them see the same samples.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from whisper_hailo_lab import environments
from whisper_hailo_lab.compare.mel_worker import HERE, N_MELS, OURS
from whisper_hailo_lab.compare.paired import paired
from whisper_hailo_lab.harness import Progress
from whisper_hailo_lab.records import ComparisonRecord

LENGTHS_S: Final = (8.0, 30.0)
"""The study's clip, and Whisper's window."""

ROUNDS: Final = 30


SCRIPTS: Final = {"transformers": "mel_transformers.py", "openai-whisper": "mel_openai.py"}
SYSTEMS: Final = (*HERE, *SCRIPTS)


def compare_mel(progress: Progress) -> ComparisonRecord:
    """Time every implementation that is installed, here or in its own environment."""
    processes = {name: _Process(name) for name in SYSTEMS}
    missing = {name: p.error for name, p in processes.items() if p.error}
    alive = {name: p for name, p in processes.items() if not p.error}
    try:
        rows = [row for seconds in LENGTHS_S for row in _rows(alive, seconds, progress)]
    finally:
        for process in processes.values():
            process.close()
    settings = {"n_mels": N_MELS, "rounds": ROUNDS, "threads": 1, "not_measured": missing}
    return ComparisonRecord("mel", settings, tuple(rows))


def _rows(
    alive: dict[str, _Process], seconds: float, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Every implementation on audio of one length."""

    def asking(process: _Process) -> Callable[[], float]:
        return lambda: float(process.ask(seconds)["ms"])

    facts = {name: process.ask(seconds) for name, process in alive.items()}
    times = paired(
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


class _Process:
    """One implementation in a process of its own, on one thread."""

    def __init__(self, name: str) -> None:
        self.error = ""
        python = environments.interpreter(name)
        if name in SCRIPTS and python is None:
            self._popen = None
            self.error = f"its environment is missing: make rivals makes .venv-rivals/{name}"
            return
        words = [str(environments.script(SCRIPTS[name]))] if name in SCRIPTS else [
            "-m", "whisper_hailo_lab.compare.mel_worker", name
        ]  # fmt: skip
        self._popen = subprocess.Popen(
            [str(python or sys.executable), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environments.variables(threads=1) | {"OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            self.ask(1.0)
        except ValueError as error:
            self.error = str(error)

    def ask(self, seconds: float) -> dict[str, Any]:
        """One transform of so many seconds."""
        popen = self._popen
        if popen is None or popen.stdin is None or popen.stdout is None or popen.stderr is None:
            raise ValueError(self.error)
        try:
            popen.stdin.write(f"{seconds}\n")
            popen.stdin.flush()
        except BrokenPipeError:
            pass  # the reason is on its standard error
        line = popen.stdout.readline()
        if not line:
            raise ValueError((popen.stderr.read().strip().splitlines() or ["it ended"])[-1][:200])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End of input ends the process."""
        if self._popen is not None:
            self._popen.communicate()
