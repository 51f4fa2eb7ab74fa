"""Clients of every door at once, on this machine: throughput, waiting, memory, and the same text.

    python -m whisper_hailo_lab.experiments.server_load [--clients 1 4 16 64] [--seconds 10]

Starts `whisper-hailo serve` with the bundled model and asks for the bundled recording, for so many
seconds by each number of clients: by OpenAI's API, Wyoming and realtime. Every text has to be the
one that the command prints. Then more clients than there are places ask, and a live stream and a
request are answered beside recordings. `--keep` writes the result that
`docs/measurements/server.md` has its tables of.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.audio import load_audio
from whisper_hailo.cli.stdout import emit
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import write_file
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    RECORDING,
    Ask,
    RefusedError,
    batch_client,
    openai_client,
    realtime_client,
    wyoming_client,
)
from whisper_hailo_lab.program import description, run

logger = logging.getLogger(__name__)

_MIB: Final = 1 << 20
_LOOSE: Final = ("--queue-each", "1024", "--queue", "1024", "--max-live", "1024")
_STRICT: Final = ("--queue-each", "4", "--queue", "4", "--max-live", "4")


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a number of clients.

    Attributes:
        door: that they asked at.
        clients: at once.
        n_done: requests with the right text.
        n_wrong: those with another one.
        n_failed: neither answered nor refused.
        refused: by 429 or 503.
        per_s: requests that were done.
        median_s: of those.
        last_s: the 99th percentile, likewise.
        rss_mib: memory of the server before and after.
        descriptors: that it has open, likewise, a moment later.
    """

    door: str
    clients: int
    n_done: int
    n_wrong: int
    n_failed: int
    refused: dict[str, int]
    per_s: float
    median_s: float
    last_s: float
    rss_mib: tuple[float, float]
    descriptors: tuple[int, int]

    def line(self, audio_s: float) -> str:
        """For people."""
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
    before = resources(server)
    begin_s = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        asking = [pool.submit(_ask_until, begin_s + seconds, ask, expected) for _ in range(clients)]
        results = [client.result() for client in asking]
    all_s = time.perf_counter() - begin_s
    took_s = sorted(took for times, _ in results for took in times) or [0.0]
    became = sum((counted for _, counted in results), Counter())
    after = resources(server)
    return Load(
        door,
        clients,
        became.pop("done", 0),
        became.pop("wrong", 0),
        became.pop("failed", 0),
        dict(became),
        round(len(took_s) / all_s, 2),
        round(statistics.median(took_s), 3),
        round(took_s[min(len(took_s) - 1, round(0.99 * len(took_s)))], 3),
        (before[0], after[0]),
        (before[1], after[1]),
    )


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
        took_s.append(time.perf_counter() - asked_s)
    return took_s, became


def resources(process: int) -> tuple[float, int]:
    """Memory of a process in MiB, and how many descriptors it has."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    rss = re.search(r"VmRSS:\s+(\d+)", status)
    descriptors = len(list(Path(f"/proc/{process}/fd").iterdir()))
    return round(int(rss[1]) * 1024 / _MIB, 1) if rss else 0.0, descriptors


@contextmanager
def serving(threads: int, *words: str) -> Iterator[tuple[int, str, str]]:
    """A server's process, and its addresses of HTTP and Wyoming.

    Raises:
        ModelError: it does not start.
    """
    command = [sys.executable, "-m", "whisper_hailo", "serve", "--model", "micro"]
    command += ["--threads", str(threads), "--http", "127.0.0.1:0", "--wyoming", "127.0.0.1:0"]
    with subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            addresses = []
            for line in process.stderr or ():
                if found := re.search(r"serving at (\S+)", line):
                    addresses.append(found[1])
                if len(addresses) == 2:
                    break
            else:
                raise ModelError("the server did not start; run whisper-hailo serve by hand")
            reader = threading.Thread(target=(process.stderr or sys.stderr).read, daemon=True)
            reader.start()  # or the server would wait for one
            yield process.pid, addresses[0], addresses[1]
            process.terminate()
            reader.join()
        finally:
            process.terminate()


def printed(threads: int) -> str:
    """What the command says of the recording."""
    command = [sys.executable, "-m", "whisper_hailo", "transcribe", "--model", "micro"]
    command += ["--threads", str(threads), "-l", "auto", str(RECORDING)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return " ".join(said.split())


def beside_batch(threads: int, seconds: float, expected: str) -> dict[str, Any]:
    """Live and interactive clients alone, then while recordings are transcribed behind them."""
    found: dict[str, Any] = {}
    with serving(threads, *_LOOSE) as (server, http_address, _):
        asks = {"realtime": realtime_client(http_address), "openai": openai_client(http_address)}
        for name, ask in asks.items():
            found[f"{name}, alone"] = asdict(
                measure(name, ask, 1, seconds=seconds, server=server, expected=expected)
            )
        ending = threading.Event()
        batch = batch_client(http_address, 40)

        def work() -> None:
            while not ending.is_set():
                batch()

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for name, ask in asks.items():
            found[f"{name}, beside 4 recordings"] = asdict(
                measure(name, ask, 1, seconds=seconds, server=server, expected=expected)
            )
        ending.set()
        for worker in workers:
            worker.join()
    return found


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    audio_s, expected = load_audio(RECORDING).size / SAMPLE_RATE_HZ, printed(arguments.threads)
    loads: dict[str, list[Load]] = {"below": [], "above": []}
    for name, words, clients in (
        ("below", _LOOSE, arguments.clients),
        ("above", _STRICT, arguments.clients[-1:]),
    ):
        with serving(arguments.threads, *words) as (server, http_address, wyoming_address):
            for door, ask in (
                ("openai", openai_client(http_address)),
                ("wyoming", wyoming_client(wyoming_address)),
                ("realtime", realtime_client(http_address)),
            ):
                for number in clients:
                    load = measure(
                        door,
                        ask,
                        number,
                        seconds=arguments.seconds,
                        server=server,
                        expected=expected,
                    )
                    loads[name].append(load)
                    emit(load.line(audio_s) + "\n")
    beside = beside_batch(arguments.threads, arguments.seconds, expected)
    for name, one in beside.items():
        emit(f"{name}: median {one['median_s']} s, 99th percentile {one['last_s']} s\n")
    if arguments.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        kept |= {name: list(map(asdict, those)) for name, those in loads.items()}
        kept |= {"beside": beside, "seconds": arguments.seconds, "audio_s": round(audio_s, 2)}
        write_file(RESULT, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
