"""Our server beside wyoming-faster-whisper: the same weights, clips and threads, in turns.

    python -m whisper_hailo_lab.experiments.server_rival --python OTHER/bin/python [--pairs 5]

The other Python has `wyoming-faster-whisper`. Both servers run with the bundled model, int8 and one
thread; each pair asks first one, then the other, the next the other way round. Commands are the
first three seconds of the bundled recording. `--keep` writes the result that
`docs/measurements/server.md` has its table of.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from whisper_hailo.audio import load_audio
from whisper_hailo.cli.stdout import emit
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import write_file
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import RECORDING, Ask, wyoming_client
from whisper_hailo_lab.experiments.server_load import resources, serving
from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import MICRO

COMMAND_S: Final = 3.0
CLIENTS: Final = 8
_START_S: Final = 60.0
_ASKED: Final = 8
"""Commands one after the other, and of each of the clients at once."""

Pairs = tuple[list[float], list[float]]
"""Of ours, and of the other, as often."""


@contextmanager
def rival(python: str, threads: int, weights: Path) -> Iterator[tuple[int, str]]:
    """wyoming-faster-whisper's process, and its address.

    Raises:
        ModelError: it does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    command = [python, "-m", "wyoming_faster_whisper", "--uri", address, "--model", str(weights)]
    command += ["--data-dir", str(weights), "--language", "en", "--beam-size", "1"]
    command += ["--compute-type", "int8", "--cpu-threads", str(threads), "--local-files-only"]
    command += ["--stt-library", "faster-whisper"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            begin_s = time.monotonic()
            while process.poll() is None and time.monotonic() < begin_s + _START_S:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                except OSError:
                    time.sleep(0.1)
                    continue
                yield process.pid, address
                return
            raise ModelError(f"wyoming-faster-whisper did not start; run {' '.join(command)}")
        finally:
            process.terminate()


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


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--python", required=True, help="has wyoming-faster-whisper")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    clip = load_audio(RECORDING)[: round(COMMAND_S * SAMPLE_RATE_HZ)]
    found: dict[str, Pairs] = {name: ([], []) for name in ("latency", "rate", "memory")}
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "micro"
        write_ctranslate2(MICRO, weights, "int8")
        with (
            serving(arguments.threads, "--language", "en", "--queue-each", "1024") as (us, _, here),
            rival(arguments.python, arguments.threads, weights) as (they, there),
        ):
            asks = [wyoming_client(here, clip), wyoming_client(there, clip)]
            emit(f"ours: {asks[0]()!r}\ntheirs: {asks[1]()!r}\n")
            for pair in range(arguments.pairs):
                for which in (0, 1) if pair % 2 else (1, 0):
                    found["latency"][which].append(latency_s(asks[which]))
                    found["rate"][which].append(per_s(asks[which]))
            for which, process in enumerate((us, they)):
                found["memory"][which].append(resources(process)[0])
    rival_result = {
        "s for a command of 3 s": compared(found["latency"], "4 x", less=True),
        "commands/s of 8 clients": compared(found["rate"], "3 x", less=False),
        "MiB after them": compared(found["memory"], "2 x", less=True),
    }
    for name, one in rival_result.items():
        emit(f"{name}: {one}\n")
    if arguments.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        write_file(RESULT, json.dumps(kept | {"rival": rival_result}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
