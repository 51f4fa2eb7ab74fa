"""Clients of every door at once, on this machine: throughput, waiting, memory, and the same text.

    python -m whisper_hailo_lab.experiments.server_load [--clients 1 4 16] [--requests 32]

Starts `whisper-hailo serve` with the bundled model and asks for the bundled recording, so many
times in all for each number of clients, first by OpenAI's API, then by Wyoming. Every text has to
be the one that one client alone gets. Prints a line each; memory and descriptors are those of the
server behind it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import logging
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast
from urllib.parse import urlsplit

from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import read_event, write_event

from whisper_hailo.audio import load_audio
from whisper_hailo.cli.stdout import emit
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import ROOT

logger = logging.getLogger(__name__)

RECORDING: Final = ROOT / "src" / "whisper_hailo" / "assets" / "demo.flac"
CHUNK_BYTES: Final = 4096
PATIENCE_S: Final = 600.0
_MIB: Final = 1 << 20

Ask = Callable[[], str]
"""Asks once; gives the text."""


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a number of clients.

    Attributes:
        door: that they asked at.
        clients: at once.
        took_s: of each request.
        all_s: of all of them.
        failures: requests that failed, or whose text was another.
        rss_mib: memory of the server afterwards.
        descriptors: that it has open then.
    """

    door: str
    clients: int
    took_s: tuple[float, ...]
    all_s: float
    failures: int
    rss_mib: float
    descriptors: int

    def line(self, audio_s: float) -> str:
        """For people."""
        ordered = sorted(self.took_s)
        last = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
        return (
            f"{self.door:>8} {self.clients:>3} clients: "
            f"{len(ordered) / self.all_s:6.2f} requests/s, "
            f"{audio_s * len(ordered) / self.all_s:6.1f} x real time, "
            f"median {statistics.median(ordered):6.3f} s, 99th percentile {last:6.3f} s, "
            f"{self.failures} failed; {self.rss_mib:5.0f} MiB, {self.descriptors} descriptors"
        )


def openai_client(address: str) -> Ask:
    """One that uploads the file."""
    content = RECORDING.read_bytes()
    parts = (
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="demo.flac"\r\n\r\n',
        content,
        b"\r\n--x--\r\n",
    )
    body, headers = b"".join(parts), {"Content-Type": "multipart/form-data; boundary=x"}

    def ask() -> str:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/v1/audio/transcriptions", body, headers)
            return str(json.load(connection.getresponse())["text"])
        finally:
            connection.close()

    return ask


def wyoming_client(address: str) -> Ask:
    """One that sends samples in chunks."""
    parts = urlsplit(address)
    place = (parts.hostname or "", parts.port or 0)
    data = (load_audio(RECORDING) * 32767).round().astype("<i2").tobytes()
    form = (SAMPLE_RATE_HZ, 2, 1)

    def ask() -> str:
        with socket.create_connection(place, PATIENCE_S) as connection:
            wire = cast(BinaryIO, connection.makefile("rwb"))
            write_event(Transcribe().event(), wire)
            write_event(AudioStart(*form).event(), wire)
            for at in range(0, len(data), CHUNK_BYTES):
                chunk = AudioChunk(*form, audio=data[at : at + CHUNK_BYTES])
                write_event(chunk.event(), wire)
            write_event(AudioStop().event(), wire)
            while (event := read_event(wire)) is not None:
                if Transcript.is_type(event.type):
                    return str(Transcript.from_event(event).text)
        raise ConnectionError("the server said nothing")

    return ask


def measure(door: str, ask: Ask, clients: int, requests: int, server: int) -> Load:
    """Ask so many times by so many at once.

    Args:
        door: for the result.
        ask: asks once.
        clients: at once.
        requests: in all.
        server: its process.
    """
    expected = ask()

    def one(_number: int) -> tuple[float, bool]:
        begin_s = time.perf_counter()
        try:
            heard: str | None = ask()
        except (OSError, KeyError, ValueError) as error:
            logger.info("a request failed (%s)", error)
            heard = None
        return time.perf_counter() - begin_s, heard == expected

    begin_s = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        results = list(pool.map(one, range(requests)))
    all_s = time.perf_counter() - begin_s
    status = Path(f"/proc/{server}/status").read_text(encoding="ascii")
    rss = re.search(r"VmRSS:\s+(\d+)", status)
    return Load(
        door,
        clients,
        tuple(took_s for took_s, _ in results),
        all_s,
        sum(not right for _, right in results),
        int(rss[1]) * 1024 / _MIB if rss else 0.0,
        len(list(Path(f"/proc/{server}/fd").iterdir())),
    )


@contextmanager
def serving(threads: int) -> Iterator[tuple[int, str, str]]:
    """A server's process, and its addresses of HTTP and Wyoming.

    Raises:
        ModelError: it does not start.
    """
    command = [sys.executable, "-m", "whisper_hailo", "serve", "--model", "micro"]
    command += ["--threads", str(threads), "--http", "127.0.0.1:0", "--wyoming", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--queue-each", "1024", "--queue", "1024"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            addresses = []
            for line in process.stderr or ():
                if found := re.search(r"serving at (\S+)", line):
                    addresses.append(found[1])
                if len(addresses) == 2:
                    break
            else:
                raise ModelError("the server did not start; run whisper-hailo serve by hand")
            rest = iter(process.stderr or ())
            threading.Thread(target=list, args=(rest,), daemon=True).start()  # or it would wait
            yield process.pid, addresses[0], addresses[1]
        finally:
            process.terminate()


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--requests", type=int, default=32, help="for each number of clients")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    arguments = parser.parse_args()
    audio_s = load_audio(RECORDING).size / SAMPLE_RATE_HZ
    with serving(arguments.threads) as (server, http_address, wyoming_address):
        for door, ask in (
            ("openai", openai_client(http_address)),
            ("wyoming", wyoming_client(wyoming_address)),
        ):
            for clients in arguments.clients:
                load = measure(door, ask, clients, arguments.requests, server)
                emit(load.line(audio_s) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
