"""Concurrent clients of every protocol: throughput, latency, memory, and the same text.

    python -m whisper_hailo_lab.experiments.server_load [--protocols openai] [--clients 16 64]

Starts `whisper-hailo serve` with the bundled model and asks for the bundled recording, for some
time with each number of clients of each protocol. Every text has to be the command's. `--above`
sets limits below the number of clients. `--keep` puts each row into the result that
`docs/measurements/server.md` shows.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, Final

from whisper_hailo.audio import load_audio
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    DEMO,
    Ask,
    ProcessWatch,
    RefusedError,
    asr_client,
    command_text,
    inference_client,
    openai_client,
    realtime_client,
    start_server,
    wyoming_client,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.results import read_result, update_result

logger = logging.getLogger(__name__)

PROTOCOLS: Final = ("openai", "wyoming", "realtime", "asr", "inference")
_HIGH_LIMITS: Final = {"queue_each": 1024, "queue": 1024, "max_live": 1024}
_LOW_LIMITS: Final = {"queue_each": 4, "queue": 4, "max_live": 4}
_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """Outcome of a number of clients.

    Attributes:
        door: protocol.
        clients: concurrent clients.
        n_done: requests with the right text.
        n_in_time: those of them that ended before the time was over.
        n_wrong: requests with another text.
        n_failed: requests that were neither answered nor refused.
        refused: refused requests by code, 429 or 503.
        per_s: answered requests a second.
        median_s: median latency of answered requests.
        last_s: 99th percentile of their latency.
        rss_mib: memory of the server, medians of the first and the last third of the time.
        descriptors: its open descriptors, as `rss_mib`.
        peak_mib: its peak of memory.
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

    def describe(self, audio_s: float) -> str:
        """Return one line about the load of a recording of some length."""
        return (
            f"{self.door:>8} {self.clients:>3} clients: {self.per_s:6.2f} requests/s, "
            f"{audio_s * self.per_s:6.1f} x real time, median {self.median_s:6.3f} s, "
            f"99th percentile {self.last_s:6.3f} s, {self.n_wrong} wrong, {self.n_failed} failed, "
            f"refused {self.refused or 0}; {self.rss_mib[1]:5.0f} MiB, "
            f"{self.descriptors[1]} descriptors"
        )


@dataclass(slots=True)
class _ClientLog:
    """Latencies of one client's answers, and its requests by outcome."""

    took_s: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


def measure_load(
    protocol: str,
    ask: Ask,
    clients: int,
    *,
    seconds: float,
    server: int,
    expected: str,
) -> Load:
    """Ask for some time with concurrent clients.

    Args:
        protocol: name for the result.
        ask: asks once.
        clients: number of clients.
        seconds: time after which no client asks again.
        server: process id of the server.
        expected: the right text.
    """
    begin_s = time.perf_counter()
    end_s = begin_s + seconds
    with ProcessWatch(server) as watch, ThreadPoolExecutor(clients) as pool:
        futures = [
            pool.submit(_ask_until, end_s, ask, expected) for _ in range(clients)
        ]
        logs = [future.result() for future in futures]
    whole_s = time.perf_counter() - begin_s
    took_s = sorted(latency for log in logs for latency in log.took_s) or [0.0]
    outcomes = sum((log.outcomes for log in logs), Counter())
    first, last = watch.thirds
    return Load(
        door=protocol,
        clients=clients,
        n_done=outcomes.pop("done", 0),
        n_in_time=outcomes.pop("in time", 0),
        n_wrong=outcomes.pop("wrong", 0),
        n_failed=outcomes.pop("failed", 0),
        refused=dict(outcomes),
        per_s=round(len(took_s) / whole_s, 2),
        median_s=round(statistics.median(took_s), 3),
        last_s=round(_percentile(took_s, 0.99), 3),
        rss_mib=(first[0], last[0]),
        descriptors=(first[1], last[1]),
        peak_mib=watch.peak_mib,
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * len(ordered)))]


def _ask_until(end_s: float, ask: Ask, expected: str) -> _ClientLog:
    """Ask repeatedly, as one client."""
    log = _ClientLog()
    while (asked_s := time.perf_counter()) < end_s:
        try:
            text = ask()
        except RefusedError as error:
            log.outcomes[str(error)] += 1
            time.sleep(_RETRY_S)
            continue
        except (OSError, KeyError, ValueError) as error:
            logger.info("a request failed (%s)", error)
            log.outcomes["failed"] += 1
            continue
        answered_s = time.perf_counter()
        log.took_s.append(answered_s - asked_s)
        if text != expected:
            log.outcomes["wrong"] += 1
            continue
        log.outcomes["done"] += 1
        if answered_s < end_s:
            log.outcomes["in time"] += 1
    return log


def make_clients(http_address: str, wyoming_address: str) -> dict[str, Ask]:
    """Return a client of each protocol."""
    return {
        "openai": openai_client(http_address),
        "wyoming": wyoming_client(wyoming_address),
        "realtime": realtime_client(http_address),
        "asr": asr_client(http_address),
        "inference": inference_client(http_address),
    }


def merge_rows(
    kept: list[dict[str, Any]], new: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest row of each protocol and number of clients, in order."""
    rows = {(row["door"], row["clients"]): row for row in [*kept, *new]}
    return sorted(
        rows.values(), key=lambda row: (PROTOCOLS.index(row["door"]), row["clients"])
    )


def main() -> None:
    """Print a line for each protocol and number of clients, and keep each at once."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument(
        "--protocols", nargs="+", default=list(PROTOCOLS), choices=PROTOCOLS
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="for each number of clients"
    )
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument(
        "--above", action="store_true", help="of the limits, instead of below"
    )
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    audio_s = load_audio(DEMO.path).size / SAMPLE_RATE_HZ
    expected = command_text(arguments.threads)
    name = "above" if arguments.above else "below"
    limits = _LOW_LIMITS if arguments.above else _HIGH_LIMITS
    with start_server(arguments.threads, settings=limits) as (server, addresses):
        clients = make_clients(*addresses)
        for protocol, number in product(arguments.protocols, arguments.clients):
            load = measure_load(
                protocol,
                clients[protocol],
                number,
                seconds=arguments.seconds,
                server=server,
                expected=expected,
            )
            emit(f"{load.describe(audio_s)}\n")
            if arguments.keep:
                rows = merge_rows(read_result(RESULT).get(name, []), [asdict(load)])
                update_result(RESULT, **{name: rows}, audio_s=round(audio_s, 2))


if __name__ == "__main__":
    sys.exit(run_program(main))
