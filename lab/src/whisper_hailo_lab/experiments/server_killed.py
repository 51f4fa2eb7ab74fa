"""Clients killed at any moment, while one that is healthy goes on getting its text.

    python -m whisper_hailo_lab.experiments.server_killed [--seconds 600] [--keep]

Starts `whisper-hailo serve` with the bundled model. Processes ask at every door, for short and long
recordings, and get SIGKILL after a random time: in the middle of an upload, of the wait, or of the
answer. `--keep` writes the result that `docs/measurements/server.md` has its table of.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any, Final

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    RefusedError,
    batch_client,
    printed,
    serving,
)
from whisper_hailo_lab.experiments.server_load import LOOSE, clients_of, measure
from whisper_hailo_lab.program import description, run

_AT_ONCE: Final = 6
_LOOK_S: Final = 0.01
_LONGEST_S: Final = (0.05, 0.5, 5.0)
"""A client lives for at most one of these."""
_SETTLE_S: Final = 30.0
_LEFT: Final = ("unfinished", "queue_depth", "live_streams")
"""Gauges that have to be 0 when all clients are gone."""

_FORK: Final = multiprocessing.get_context("fork")
"""Clients hold a recording that is large to send to another process."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """A client that is going to be killed.

    Attributes:
        process: of it.
        door: that it asks at.
        end_s: when, by `time.monotonic`.
    """

    process: BaseProcess
    door: str
    end_s: float


def _ask(ask: Ask) -> None:
    with suppress(OSError, RefusedError, ValueError):
        ask()


def doomed(asks: dict[str, Ask], rng: Random) -> Doomed:
    """A client at some door."""
    door = rng.choice(list(asks))
    process = _FORK.Process(target=_ask, args=(asks[door],), daemon=True)
    process.start()
    return Doomed(process, door, time.monotonic() + rng.uniform(0, rng.choice(_LONGEST_S)))


def kill_for(seconds: float, asks: dict[str, Ask], rng: Random) -> dict[str, Counter[str]]:
    """Kill clients, several at once, for so long; how many were killed and how many were done."""
    killed, done = Counter[str](), Counter[str]()
    over_s = time.monotonic() + seconds
    living: list[Doomed] = []
    while time.monotonic() < over_s or living:
        for one in [*living]:
            if one.process.is_alive() and time.monotonic() < one.end_s:
                continue
            (killed if one.process.is_alive() else done)[one.door] += 1
            one.process.kill()
            one.process.join()
            living.remove(one)
        if time.monotonic() < over_s and len(living) < _AT_ONCE:
            living.append(doomed(asks, rng))
        time.sleep(_LOOK_S)
    return {"killed": killed, "done": done}


def left_behind(address: str) -> dict[str, float]:
    """What the server still has under way, once it had time to notice."""
    begin_s = time.monotonic()
    while True:
        with urllib.request.urlopen(f"{address}/metrics") as answer:  # noqa: S310 - of our own server
            page = answer.read().decode()
        left = {name: _gauge(page, name) for name in _LEFT}
        if not any(left.values()) or time.monotonic() > begin_s + _SETTLE_S:
            return left
        time.sleep(0.1)


def _gauge(page: str, name: str) -> float:
    found = re.search(rf"^whisper_hailo_{name} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else float("nan")


def main() -> None:
    """Print what became of clients, and what was left of them, as JSON."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    expected = printed(arguments.threads)
    with serving(arguments.threads, settings=LOOSE) as (server, addresses):
        asks = clients_of(*addresses)
        healthy = asks["openai"]
        ours, theirs = _FORK.Pipe(duplex=False)

        def stay_healthy(pipe: Connection) -> None:
            load = measure(
                "openai", healthy, 1, seconds=arguments.seconds, server=server, expected=expected
            )
            pipe.send(asdict(load))

        _FORK.Process(target=stay_healthy, args=(theirs,), daemon=True).start()
        films = {"film": batch_client(addresses[0], 10)}
        counts = kill_for(arguments.seconds, asks | films, Random(arguments.seed))  # noqa: S311 - nobody guesses it
        result: dict[str, Any] = {
            **counts,
            "healthy": ours.recv(),
            "left": left_behind(addresses[0]),
            "seconds": arguments.seconds,
        }
    emit(f"{json.dumps(result)}\n")
    if arguments.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        write_file(RESULT, json.dumps(kept | {"killed": result}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
