"""Our server beside another one: the same weights, clips and threads, in turns.

    python -m whisper_hailo_lab.experiments.server_rival NAME PROGRAM [--pairs 5]

NAME is one of `server_rivals`; PROGRAM is the Python of an environment that has it, or the binary
of whisper.cpp's server. Both servers run with the bundled model, 8 bits and one thread, and have
one door, the same; each pair asks first one, then the other, the next the other way round. Commands
are the first three seconds of the bundled recording. `--keep` writes the result that
`docs/measurements/server.md` has its table of.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
import time
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from whisper_hailo.audio import load_audio
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    RECORDING,
    Ask,
    pcm,
    serving,
    wyoming_client,
)
from whisper_hailo_lab.experiments.server_rivals import RIVALS, Rival, SentClip
from whisper_hailo_lab.program import description, run

COMMAND_S: Final = 3.0
CLIENTS: Final = 8
_ASKED: Final = 4
"""Commands one after the other, and of each of the clients at once."""

_FIGURES: Final = {
    "latency": ("s for a command of 3 s", "4 x"),
    "work": ("processor s for such a command", ""),
    "rate": ("commands/s of 8 clients", "3 x"),
    "memory": ("MiB after them", "2 x"),
    "own memory": ("of these, in no file", ""),
}
"""What is measured, how it is told, and the target."""

Pairs = tuple[list[float], list[float]]
"""Of ours, and of the other, as often."""


def latency_s(ask: Ask) -> float:
    """Median of some commands, one after the other."""
    took_s = []
    for _ in range(_ASKED):
        begin_s = time.perf_counter()
        ask()
        took_s.append(time.perf_counter() - begin_s)
    return statistics.median(took_s)


def per_s(ask: Ask) -> float:
    """Commands a second, of several clients at once."""
    begin_s = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda _number: ask(), range(CLIENTS * _ASKED)))
    return CLIENTS * _ASKED / (time.perf_counter() - begin_s)


def compared(pairs: Pairs, target: str, *, less: bool) -> dict[str, Any]:
    """Medians, and how many times better ours is, pair by pair."""
    ours, theirs = pairs
    ratios = [their / our if less else our / their for our, their in zip(ours, theirs, strict=True)]
    return {
        "ours": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "range": (min(ratios), max(ratios)),
        "target": target,
    }


def busy_s(process: int) -> float:
    """Processor time of a process so far: of what else the machine does there is little in it."""
    words = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def held(process: int) -> tuple[float, float]:
    """What a process has of memory, and what of that is its own alone and in no file; in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    kinds = dict(line.split(":", 1) for line in status.splitlines())
    rss, own = (int(kinds[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))
    return rss, own


def measured(rival: Rival, program: str, threads: int, n_pairs: int) -> dict[str, Pairs]:
    """Each pair of each figure, ours first.

    Args:
        rival: the other server.
        program: that starts it.
        threads: of each engine.
        n_pairs: how often each is asked.
    """
    samples = load_audio(RECORDING)[: round(COMMAND_S * SAMPLE_RATE_HZ)]
    clip = SentClip(wav(samples), lambda address: wyoming_client(address, samples))
    found: dict[str, Pairs] = {name: ([], []) for name in _FIGURES}
    words = ("--language", "en")
    settings = {"queue_each": 1024}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(threads, *words, door=rival.scheme, settings=settings) as (us, (here,)),
        rival.serving(program, threads, Path(folder)) as (they, there),
    ):
        processes = (us, they)
        asks = [rival.client(address, clip) for address in (here, there)]
        emit(f"ours: {asks[0]()!r}\ntheirs: {asks[1]()!r}\n")
        for pair in range(n_pairs):
            for which in (0, 1) if pair % 2 else (1, 0):
                begin_s = busy_s(processes[which])
                found["latency"][which].append(latency_s(asks[which]))
                found["work"][which].append((busy_s(processes[which]) - begin_s) / _ASKED)
                found["rate"][which].append(per_s(asks[which]))
        for which, process in enumerate(processes):
            for name, mib in zip(("memory", "own memory"), held(process), strict=True):
                found[name][which].append(mib)
    return found


def wav(samples: FloatArray) -> bytes:
    """A file that every server can read."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
        writer.writeframes(pcm(samples))
    return file.getvalue()


def main() -> None:
    """Print the ratios of the pairs, each with the target that it is held to."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("name", choices=RIVALS)
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    rival = RIVALS[arguments.name]
    load = os.getloadavg()[0]
    found = measured(rival, arguments.program, arguments.threads, arguments.pairs)
    emit(f"load average {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end\n")
    result = {
        told: compared(found[name], target, less=name != "rate")
        for name, (told, target) in _FIGURES.items()
    }
    for name, one in result.items():
        emit(f"{name}: {one}\n")
    if arguments.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        kept["rivals"] = kept.get("rivals", {}) | {arguments.name: result}
        write_file(RESULT, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
