"""A server under attack: how it answers others meanwhile, and what it needs."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from whisper_hailo_lab.experiments.server_clients import (
    DEMO,
    sample_process,
    start_server,
    wyoming_client,
)

PATIENCE_S: Final = 60.0
_PROBE_PAUSE_S: Final = 0.02
_NS_PER_MS: Final = 1e6

_UNDER_FAKETIME: Final = """
import os, sys
clock, *words = sys.argv[1:]
variables = {
    "LD_PRELOAD": "/usr/$LIB/faketime/libfaketime.so.1",
    "FAKETIME_TIMESTAMP_FILE": clock,
    "FAKETIME_CACHE_DURATION": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
}
command = [sys.executable, "-m", "whisper_hailo", *words]
os.execve(sys.executable, command, os.environ | variables)
"""
"""Starts the command with another clock; time since a moment is left as it is, as in reality."""


class BrokenPromiseError(Exception):
    """The server did not do what it promises."""


@dataclass(frozen=True, slots=True)
class AttackedServer:
    """A server, and how to reach it.

    Attributes:
        pid: its process.
        http: address of HTTP, `https` with a certificate.
        wyoming: address of Wyoming.
        certificate: that its clients trust; `None` for plain HTTP.
        text: text of the bundled recording before the attack.
    """

    pid: int
    http: str
    wyoming: str
    certificate: Path | None = None
    text: str = ""

    def connect(self, *, plain: bool = False) -> socket.socket:
        """Return a connection to HTTP; `plain` leaves TLS to the caller."""
        parts = urlsplit(self.http)
        raw = socket.create_connection((parts.hostname, parts.port), PATIENCE_S)
        if self.certificate is None or plain:
            return raw
        trusting = ssl.create_default_context(cafile=str(self.certificate))
        return trusting.wrap_socket(raw, server_hostname="127.0.0.1")

    def send(self, request: bytes) -> bytes:
        """Return the first bytes of the answer to a request; empty if it was closed or reset."""
        with self.connect() as connection:
            with suppress(OSError):  # it was refused before all of it was read
                connection.sendall(request)
            try:
                return connection.recv(1 << 16)
            except ConnectionError:
                return b""

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        parts = urlsplit(self.http)
        make: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        options: dict[str, ssl.SSLContext] = {}
        if self.certificate is not None:
            make = http.client.HTTPSConnection
            options["context"] = ssl.create_default_context(
                cafile=str(self.certificate)
            )
        connection = make(parts.hostname, parts.port, timeout=PATIENCE_S, **options)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def start_attacked(
    *options: str,
    certificate: tuple[Path, Path] | None = None,
    clock: Path | None = None,
) -> Iterator[AttackedServer]:
    """Start a server with this certificate and its key, or without.

    A file in place of its `clock` has the difference from the true time, as libfaketime takes it.
    """
    if certificate is not None:
        options += ("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    program = ["-m", "whisper_hailo"]
    if clock is not None:
        program = ["-c", _UNDER_FAKETIME, str(clock)]
    with start_server(1, *options, program=program) as (pid, (http, wyoming)):
        trusted = None if certificate is None else certificate[0]
        text = wyoming_client(wyoming, DEMO)()
        yield AttackedServer(pid, http, wyoming, trusted, text)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a new certificate of this machine, and its key."""
    certificate = folder / "cert.pem"
    key = folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "1"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@dataclass
class Watch:
    """Asks `/health` all the time while the block lasts.

    Attributes:
        stall_ms: most processor time of the event loop's thread between a question and its answer:
            what the machine does else does not matter.
        delay_s: longest time of an answer.
        peak_mib: most memory of the server.
        n_failed: questions without a right answer.
        n_asked: all questions.
    """

    server: AttackedServer
    stall_ms: float = 0.0
    delay_s: float = 0.0
    peak_mib: float = 0.0
    n_failed: int = 0
    n_asked: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._ask_until_the_end)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _ask_until_the_end(self) -> None:
        while not self._ended.wait(_PROBE_PAUSE_S):
            self._ask()

    def _ask(self) -> None:
        begin_ms = self._loop_ms()
        begin_s = time.monotonic()
        try:
            status, _ = self.server.get("/health")
        except OSError:
            status = 0
        self.delay_s = max(self.delay_s, time.monotonic() - begin_s)
        self.stall_ms = max(self.stall_ms, self._loop_ms() - begin_ms)
        self.peak_mib = max(self.peak_mib, sample_process(self.server.pid)[0])
        self.n_asked += 1
        self.n_failed += status != http.client.OK

    def _loop_ms(self) -> float:
        """Return the processor time of the event loop's thread, which is the process's first."""
        pid = self.server.pid
        stat = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii")
        return int(stat.split()[0]) / _NS_PER_MS


def wait_until_closed(connection: socket.socket) -> float:
    """Return the seconds until the server closes a connection, whose data is dropped."""
    begin_s = time.monotonic()
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        raise BrokenPromiseError(f"open after {PATIENCE_S:g} s") from None
    except OSError:
        pass
    return time.monotonic() - begin_s
