"""A server for hours: every protocol, clients that leave, inputs that are refused.

    python -m whisper_hailo_lab.experiments.server_soak --minutes 120 [--model tiny.en] [--keep]

A few clients ask in turns, with pauses between two requests. Every protocol has to give the text
of its first answer again. Memory, descriptors and threads are sampled all the time; they are flat
where nothing is lost. `--state FILE` is written every minute, so that a run that is stopped keeps
what it measured.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from websockets.sync.client import connect

from whisper_hailo.cli.streams import emit
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    RefusedError,
    asr_client,
    inference_client,
    openai_client,
    processor_ms,
    realtime_client,
    sample_process,
    start_server,
    wyoming_client,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import update_result, write_result

_N_CLIENTS: Final = 4
_PAUSE_S: Final = 4.0
_SAMPLE_S: Final = 10.0
_WARM_UP: Final = 0.1
"""Share of the time in which memory still grows: arenas, caches, imports of a first request."""

_TIMEOUT_S: Final = 60.0

Sample: TypeAlias = dict[str, float]


def make_clients(http: str, wyoming: str) -> dict[str, Ask]:
    """Return clients that ask, that leave, and that send what is refused."""
    return {
        "openai": openai_client(http),
        "openai verbose": openai_client(http, response_format="verbose_json"),
        "wyoming": wyoming_client(wyoming),
        "realtime": realtime_client(http),
        "asr": asr_client(http),
        "inference": inference_client(http),
        "leaves an upload": lambda: _leave_upload(http),
        "leaves Wyoming": lambda: _leave_wyoming(wyoming),
        "leaves realtime": lambda: _leave_realtime(http),
        "no sound": lambda: _send_request(http, _broken_upload()),
        "no route": lambda: _send_request(
            http, b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ),
    }


def _connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), _TIMEOUT_S)


def _leave_upload(address: str) -> str:
    """Leave in the middle of an upload."""
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9000000\r\n\r\n"
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    )
    with _connect(address) as connection:
        connection.sendall(head.encode() + bytes(4 << 20))
    return ""


def _leave_wyoming(address: str) -> str:
    """Leave in the middle of a recording of half a minute."""
    data = {"rate": 16000, "width": 2, "channels": 1}
    start = {"type": "audio-start", "data": data}
    chunk = {"type": "audio-chunk", "data": data, "payload_length": 1 << 20}
    with _connect(address) as connection:
        connection.sendall(json.dumps(start).encode() + b"\n")
        connection.sendall(json.dumps(chunk).encode() + b"\n" + bytes(1 << 20))
    return ""


def _leave_realtime(address: str) -> str:
    """Leave while the server transcribes what was sent."""
    url = urlsplit(address)._replace(scheme="ws", path="/v1/realtime").geturl()
    audio = base64.b64encode(bytes(2 << 20)).decode()
    with connect(url, open_timeout=_TIMEOUT_S) as session:
        message = {"type": "input_audio_buffer.append", "audio": audio}
        session.send(json.dumps(message))
        session.socket.close()
    return ""


def _broken_upload() -> bytes:
    body = (
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        "RIFF, but no sound\r\n--x--\r\n"
    )
    return (
        "POST /v1/audio/transcriptions HTTP/1.1\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {len(body)}\r\nHost: localhost\r\n\r\n{body}"
    ).encode()


def _send_request(address: str, request: bytes) -> str:
    """Send a request; return the status of the answer."""
    with _connect(address) as connection:
        connection.sendall(request)
        return connection.recv(1 << 16).split(b" ")[1].decode()


class Soak:
    """Asks with some clients until the time is over, and samples the server meanwhile."""

    def __init__(self, clients: Mapping[str, Ask], server: int, end_s: float) -> None:
        self._clients = clients
        self._server = server
        self._end_s = end_s
        self._first_texts: dict[str, str] = {}
        self.outcomes: dict[str, Counter[str]] = {name: Counter() for name in clients}
        self.samples: list[Sample] = []

    def run(self, pause_s: float, state: Path | None) -> None:
        """Ask, and write the state from time to time."""
        for name, ask in self._clients.items():
            self._first_texts[name] = ask()
        begin_s = time.monotonic()
        with ThreadPoolExecutor(_N_CLIENTS) as pool:
            futures = [
                pool.submit(self._ask_in_turns, index, pause_s)
                for index in range(_N_CLIENTS)
            ]
            for number in count(1):
                if time.monotonic() >= self._end_s:
                    break
                time.sleep(_SAMPLE_S)
                self._sample(time.monotonic() - begin_s)
                if state is not None and not number % 6:
                    write_result(state, self.make_row())
            for future in futures:
                future.result()

    def _ask_in_turns(self, index: int, pause_s: float) -> None:
        names = list(self._clients)
        for number in count(index * len(names) // _N_CLIENTS):
            if time.monotonic() >= self._end_s:
                return
            self._ask(names[number % len(names)])
            time.sleep(pause_s)

    def _ask(self, name: str) -> None:
        try:
            text = self._clients[name]()
        except RefusedError:
            outcome = "refused"
        except (OSError, KeyError, ValueError):
            outcome = "failed"
        else:
            outcome = "same" if text == self._first_texts[name] else "other"
        self.outcomes[name][outcome] += 1

    def _sample(self, elapsed_s: float) -> None:
        rss_mib, n_descriptors = sample_process(self._server)
        sample = {
            "elapsed_s": round(elapsed_s, 1),
            "rss_mib": rss_mib,
            "descriptors": n_descriptors,
            "threads": len(os.listdir(f"/proc/{self._server}/task")),
            "processor_s": round(processor_ms(self._server) / 1000, 1),
        }
        self.samples.append(sample)

    def make_row(self) -> dict[str, Any]:
        """Return what the page shows, and the samples."""
        return summarize(self.samples) | {
            "outcomes": {name: dict(counts) for name, counts in self.outcomes.items()},
            "samples": self.samples,
        }


def summarize(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return medians of the first and the last quarter after the warm-up, peak and slope."""
    rest = samples[int(len(samples) * _WARM_UP) :]
    size = max(1, len(rest) // 4)
    row: dict[str, Any] = {
        "minutes": round(samples[-1]["elapsed_s"] / 60, 1),
        "peak_mib": max(sample["rss_mib"] for sample in samples),
        "mib_an_hour": round(_slope(rest, "rss_mib") * 3600, 2),
    }
    for name in ("rss_mib", "descriptors", "threads"):
        first = statistics.median(sample[name] for sample in rest[:size])
        last = statistics.median(sample[name] for sample in rest[-size:])
        row[name] = [first, last]
    return row


def _slope(samples: Sequence[Sample], name: str) -> float:
    """Return the change of a figure in a second: the slope of the regression line."""
    times = [sample["elapsed_s"] for sample in samples]
    if len(set(times)) < 2:
        return 0.0
    values = [sample[name] for sample in samples]
    return statistics.linear_regression(times, values).slope


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--pause", type=float, default=_PAUSE_S, metavar="S")
    parser.add_argument("--state", type=Path, metavar="FILE")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    with start_server(1, model=arguments.model) as (server, addresses):
        end_s = time.monotonic() + 60 * arguments.minutes
        soak = Soak(make_clients(*addresses), server, end_s)
        soak.run(arguments.pause, arguments.state)
    row = soak.make_row() | {"model": arguments.model, "machine": this_machine().label}
    emit(json.dumps({key: row[key] for key in row if key != "samples"}) + "\n")
    if arguments.keep:
        del row["samples"]
        update_result(RESULT, soak=row)


if __name__ == "__main__":
    sys.exit(run_program(main))
