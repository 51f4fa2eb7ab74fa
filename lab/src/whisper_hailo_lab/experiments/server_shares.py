"""Clients that get in each other's way: quick ones beside films, few requests beside many.

    python -m whisper_hailo_lab.experiments.server_shares [--seconds 20] [--keep]

Starts `whisper-hailo serve` with the bundled model. A live stream and a request are answered alone,
and beside recordings; then clients that have many, some and few requests at once ask for as long,
each with a key of its own. `--keep` writes the result that `docs/measurements/server.md` has
its tables of.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    batch_client,
    openai_client,
    printed,
    realtime_client,
    serving,
)
from whisper_hailo_lab.experiments.server_load import LOOSE, measure
from whisper_hailo_lab.program import description, run

_AT_ONCE: Final = {"many": 24, "some": 8, "few": 2}
"""Requests of a client."""


def beside_batch(threads: int, seconds: float, expected: str) -> dict[str, Any]:
    """Live and interactive clients alone, then while recordings are transcribed behind them."""
    found: dict[str, Any] = {}
    with serving(threads, settings=LOOSE) as (server, (http_address, _)):
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


def shares(threads: int, seconds: float, expected: str) -> dict[str, Any]:
    """Clients that always wait for so many requests at once."""
    words = [word for key in _AT_ONCE for word in ("--api-key", key)]
    with serving(threads, *words, settings=LOOSE) as (server, (http_address, _)):

        def ask(name: str) -> dict[str, Any]:
            client = openai_client(http_address, name)
            load = measure(
                name, client, _AT_ONCE[name], seconds=seconds, server=server, expected=expected
            )
            return asdict(load)

        with ThreadPoolExecutor() as pool:
            return dict(zip(_AT_ONCE, pool.map(ask, _AT_ONCE), strict=True))


def main() -> None:
    """Print a line for each kind of client, alone and beside others."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--seconds", type=float, default=20.0, help="for each of them")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    expected = printed(arguments.threads)
    results = {
        "beside": beside_batch(arguments.threads, arguments.seconds, expected),
        "shares": shares(arguments.threads, arguments.seconds, expected),
    }
    for name, one in (pair for part in results.values() for pair in part.items()):
        emit(
            f"{name}: {one['clients']} at once, {one['n_in_time']} done, "
            f"median {one['median_s']} s, 99th percentile {one['last_s']} s\n"
        )
    if arguments.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        write_file(RESULT, json.dumps(kept | results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
