"""Clients of every door at once, on this machine: throughput, waiting, memory, and the same text.

    python -m whisper_hailo_lab.experiments.server_load [--doors openai] [--clients 16 64]

Starts `whisper-hailo serve` with the bundled model and asks for the bundled recording, for so many
seconds by each number of clients, at each door. Every text has to be the one that the command
prints. `--above` lets more clients ask than there are places. `--keep` puts each row into the
result that `docs/measurements/server.md` has its tables of.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final

from whisper_hailo.audio import load_audio
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    RECORDING,
    Ask,
    ProcessWatch,
    RefusedError,
    asr_client,
    inference_client,
    openai_client,
    printed,
    realtime_client,
    serving,
    wyoming_client,
)
from whisper_hailo_lab.program import description, run

logger = logging.getLogger(__name__)

DOORS: Final = ("openai", "wyoming", "realtime", "asr", "inference")
LOOSE: Final = {"queue_each": 1024, "queue": 1024, "max_live": 1024}
_STRICT: Final = {"queue_each": 4, "queue": 4, "max_live": 4}


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a number of clients.

    Attributes:
        door: that they asked at.
        clients: at once.
        n_done: requests with the right text.
        n_in_time: those of them that were done before nobody asked any more.
        n_wrong: those with another one.
        n_failed: neither answered nor refused.
        refused: by 429 or 503.
        per_s: requests that were done.
        median_s: of those.
        last_s: the 99th percentile, likewise.
        rss_mib: memory of the server, median of the first and of the last third of the time.
        descriptors: that it has open, likewise.
        peak_mib: most memory that was seen.
    """

    door: str
    clients: int
    n_done: int
    n_in_time: int
    n_wrong: int
    n_failed: int
    refused: dict[str, int]
    per_s: float
    median_s: float
    last_s: float
    rss_mib: tuple[float, float]
    descriptors: tuple[int, int]
    peak_mib: float

    def line(self, audio_s: float) -> str:
        return (
            f"{self.door:>8} {self.clients:>3} clients: {self.per_s:6.2f} requests/s, "
            f"{audio_s * self.per_s:6.1f} x real time, median {self.median_s:6.3f} s, "
            f"99th percentile {self.last_s:6.3f} s, {self.n_wrong} wrong, {self.n_failed} failed, "
            f"refused {self.refused or 0}; {self.rss_mib[1]:5.0f} MiB, "
            f"{self.descriptors[1]} descriptors"
        )


def measure(
    door: str, ask: Ask, clients: int, *, seconds: float, server: int, expected: str
) -> Load:
    """Ask for so long by so many at once.

    Args:
        door: for the result.
        ask: asks once.
        clients: at once.
        seconds: after which nobody asks again.
        server: its process.
        expected: the right text.
    """
    begin_s = time.perf_counter()
    with ProcessWatch(server) as watch, ThreadPoolExecutor(clients) as pool:
        asking = [pool.submit(_ask_until, begin_s + seconds, ask, expected) for _ in range(clients)]
        results = [client.result() for client in asking]
    all_s = time.perf_counter() - begin_s
    took_s = sorted(took for times, _ in results for took in times) or [0.0]
    became = sum((counted for _, counted in results), Counter())
    first, last = watch.thirds
    return Load(
        door,
        clients,
        became.pop("done", 0),
        became.pop("in time", 0),
        became.pop("wrong", 0),
        became.pop("failed", 0),
        dict(became),
        round(len(took_s) / all_s, 2),
        round(statistics.median(took_s), 3),
        round(took_s[min(len(took_s) - 1, round(0.99 * len(took_s)))], 3),
        (first[0], last[0]),
        (first[1], last[1]),
        watch.peak_mib,
    )


def clients_of(http_address: str, wyoming_address: str) -> dict[str, Ask]:
    """What asks once at each door, by the name of the door."""
    return {
        "openai": openai_client(http_address),
        "wyoming": wyoming_client(wyoming_address),
        "realtime": realtime_client(http_address),
        "asr": asr_client(http_address),
        "inference": inference_client(http_address),
    }


def _ask_until(end_s: float, ask: Ask, expected: str) -> tuple[list[float], Counter[str]]:
    """One client: seconds of each answer, and how often what came of a request."""
    took_s, became = [], Counter[str]()
    while (asked_s := time.perf_counter()) < end_s:
        try:
            heard = ask()
        except RefusedError as error:
            became[str(error)] += 1
            time.sleep(0.05)  # a client that is told to come later
            continue
        except (OSError, KeyError, ValueError) as error:
            logger.info("a request failed (%s)", error)
            became["failed"] += 1
            continue
        became["done" if heard == expected else "wrong"] += 1
        became["in time"] += heard == expected and time.perf_counter() < end_s
        took_s.append(time.perf_counter() - asked_s)
    return took_s, became


def merged(kept: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of doors and numbers of clients, the newest of each, in the order of the doors."""
    rows = {(one["door"], one["clients"]): one for one in [*kept, *new]}
    return sorted(rows.values(), key=lambda one: (DOORS.index(one["door"]), one["clients"]))


def main() -> None:
    """Print a line for each door and number of clients, and keep each as soon as it is there."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--doors", nargs="+", default=list(DOORS), choices=DOORS)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=120.0, help="for each number of clients")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--above", action="store_true", help="of the limits, instead of below")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    audio_s, expected = load_audio(RECORDING).size / SAMPLE_RATE_HZ, printed(arguments.threads)
    name, settings = ("above", _STRICT) if arguments.above else ("below", LOOSE)
    with serving(arguments.threads, settings=settings) as (server, addresses):
        asks = clients_of(*addresses)
        for door, number in product(arguments.doors, arguments.clients):
            load = measure(
                door,
                asks[door],
                number,
                seconds=arguments.seconds,
                server=server,
                expected=expected,
            )
            emit(load.line(audio_s) + "\n")
            if arguments.keep:
                kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
                kept[name] = merged(kept.get(name, []), [asdict(load)])
                kept["audio_s"] = round(audio_s, 2)
                write_file(RESULT, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
