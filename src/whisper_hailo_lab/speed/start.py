"""From the start of a process to its first text, and the most memory that it ever held.

Each system has a program of a dozen lines under `benchmarks/rivals`, which does what its README
says and nothing else. Both hear the same 3 s; they take turns, each time in a fresh process.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from whisper_hailo_lab.systems import environments
from whisper_hailo_lab.systems.process import output_of

WARM_UPS = 1


@dataclass(frozen=True, slots=True)
class Program:
    """One way to a first text.

    Attributes:
        label: name for tables.
        size: of the model, such as `tiny`.
        command: words that start it.
        model: directory of what it loads.
        expects_json: whether it tells its peak memory.
    """

    label: str
    size: str
    command: tuple[str, ...]
    model: Path
    expects_json: bool = True


def measure(programs: Sequence[Program], rounds: int) -> list[dict[str, Any]]:
    """Start every program so many times, in turns.

    Before, the models are taken out of memory, and read from where they lie by a start that does
    not count: files that were just written lie there in large pieces, and Linux counts the whole
    piece when one row of a mapped table is read, which came to 11 MiB.
    """
    wall_ms: dict[int, list[float]] = {i: [] for i in range(len(programs))}
    cpu_ms: dict[int, list[float]] = {i: [] for i in range(len(programs))}
    said: dict[int, dict[str, Any]] = {}
    for program in programs:
        _forget(program.model)
    for number in range(WARM_UPS + rounds):
        first = number % len(programs)
        for index in (*range(first, len(programs)), *range(first)):
            answer, taken_ms, busy_ms = _start(programs[index])
            said[index] = answer
            if number >= WARM_UPS:
                wall_ms[index].append(taken_ms)
                cpu_ms[index].append(busy_ms)
    return [
        {
            "label": program.label,
            "size": program.size,
            "ms": float(np.median(wall_ms[index])),
            "least_ms": min(wall_ms[index]),
            "cpu_ms": float(np.median(cpu_ms[index])),
            "times_ms": wall_ms[index],
            "peak_mib": said[index].get("peak_mib"),
            "text": said[index]["text"],
        }
        for index, program in enumerate(programs)
    ]


def _start(program: Program) -> tuple[dict[str, Any], float, float]:
    """What a program says, its milliseconds, and its processor milliseconds."""
    before = _children_s()
    begin = perf_counter()
    environment = environments.compiling() | {"OMP_NUM_THREADS": "1"}
    text = output_of(program.command, environment, f"{program.label} failed").strip()
    taken_ms = (perf_counter() - begin) * 1000.0
    busy_ms = (_children_s() - before) * 1000.0
    return json.loads(text) if program.expects_json else {"text": text}, taken_ms, busy_ms


def _forget(directory: Path) -> None:
    """Let the system drop the files of a directory from its memory."""
    for file in filter(Path.is_file, directory.iterdir()):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def programs(size: str, model: str, rival: str, audio: Path) -> tuple[Program, ...]:
    """Ours from a model directory, ours on the command line, and faster-whisper.

    Args:
        size: of the model.
        model: a model directory, already converted.
        rival: the same weights for CTranslate2; empty where its environment is missing.
        audio: what is heard.
    """
    words = (str(audio), "1")
    ours, script = sys.executable, environments.script("first_text_ours.py")
    found = [
        Program("ours", size, (ours, str(script), model, *words), Path(model)),
        Program(
            "ours, command line", size,
            (ours, "-m", "whisper_hailo", "transcribe", str(audio), "--model", model,
             "--language", "en", "--threads", "1",
             "--max-new-tokens", "28", "--fallback", "0"),
            Path(model), expects_json=False,
        ),
    ]  # fmt: skip
    python = environments.interpreter("faster-whisper")
    if rival and python:
        script = environments.script("first_text_faster_whisper.py")
        command = (str(python), str(script), rival, *words)
        found.append(Program("faster-whisper", size, command, Path(rival)))
    return tuple(found)
