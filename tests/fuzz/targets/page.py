"""The caption page's server: requests and frames that no browser sends."""

from __future__ import annotations

import json
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.mutate import mutated_bytes
from tests.fuzz.target import Input

PATHS: Final = (
    "/",
    "/page.js",
    "/events",
    "/audio",
    "/../x",
    "/%00",
    "*",
    "/" + "a" * 9000,
    "http://x/",
    "",
)
METHODS: Final = (
    "GET",
    "GET",
    "GET",
    "HEAD",
    "POST",
    "OPTIONS",
    "CONNECT",
    "PRI",
    "",
    "G\0T",
    "x" * 9000,
)
HOSTS: Final = (
    "127.0.0.1:PORT",
    "localhost",
    "evil.example",
    "[::1",
    "[",
    "a]b",
    "",
    "\xff",
    "x" * 9000,
    "1:2:3",
)
NAMES: Final = (
    "Host", "Origin", "Upgrade", "Connection", "Sec-WebSocket-Key", "Sec-WebSocket-Version",
    "Content-Length",
    "Transfer-Encoding", "Expect", "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol", "Cookie",
    "Range", "", ":",
)  # fmt: skip
VALUES: Final = (
    "0", "-1", "99999999999", "chunked", "websocket", "upgrade", "13", "", "\0", "http://[",
    "x" * 70_000, "permessage-deflate", "100-continue", "null", "http://127.0.0.1:PORT",
)  # fmt: skip
VERSIONS: Final = ("1.1", "1.0", "2", "9.9", "")
PATIENCE_S: Final = 5.0
SETTLE_S: Final = 0.02
"""What the server says of a talk that has ended is to come before the next one begins."""


class Fuzzed:
    """A conversation of some pieces, then one that has to be answered."""

    def prepare(self, base: Path) -> None:
        """Start the server, and have done what is slow the first time only."""
        from whisper_hailo.live.sources.network import BrowserSource
        from whisper_hailo.live.statistics import CaptionStatistics
        from whisper_hailo.serve.routes.captions.access import PageAddress
        from whisper_hailo.serve.routes.captions.view import WebView

        view = WebView(
            CaptionStatistics, PageAddress(port=0), browser=BrowserSource()
        ).open()
        self._port = int(view.address.rsplit(":", 1)[1].strip("/"))
        for path in ("/events", "/audio"):
            with socket.create_connection(("127.0.0.1", self._port)) as talk:
                talk.sendall(_upgrade(path).replace(b"PORT", str(self._port).encode()))
                talk.recv(1 << 16)

    def make(self, rng: Random, base: Path) -> Input:
        """Pieces as a list of Latin-1 texts: a request, and frames behind it."""
        request = (
            _upgrade(rng.choice(("/events", "/audio")))
            if rng.random() < 0.6
            else _request(rng)
        )
        if rng.random() < 0.4:
            request = mutated_bytes(rng, request)
        frames = [_frame(rng) for _ in range(rng.choice((0, 1, 2, 5)))]
        return "talk.json", json.dumps(
            [p.decode("latin-1") for p in (request, *frames)]
        ).encode()

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Say it, and look whether the page is still served."""
        port = self._port
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as talk:
            talk.settimeout(0.02)
            for piece in json.loads(content):
                raw = piece.encode("latin-1").replace(b"PORT", str(port).encode())
                with suppress(OSError):
                    talk.sendall(raw)
                    talk.recv(1 << 16)
        time.sleep(SETTLE_S)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as talk:
            talk.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            answer = talk.recv(64)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(f"the page is not served any more: {answer!r}")


def _upgrade(path: str) -> bytes:
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n{upgrade}{key}\r\n".encode()


def _request(rng: Random) -> bytes:
    lines = [f"{rng.choice(METHODS)} {rng.choice(PATHS)} HTTP/{rng.choice(VERSIONS)}"]
    if rng.random() < 0.8:
        lines.append(f"Host: {rng.choice(HOSTS)}")
    for _ in range(rng.choice((0, 1, 3, 200))):
        lines.append(f"{rng.choice(NAMES)}: {rng.choice(VALUES)}"[:2000])
    body = rng.choice(("", "x" * 100, "5\r\nhello\r\n0\r\n\r\n", "fffffffff\r\n"))
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1", "replace")


def _frame(rng: Random) -> bytes:
    """A WebSocket frame: any operation, honest or not about its length."""
    payload = rng.choice(
        (
            b"",
            b"x",
            b"\xff\xff",
            b"\x03\xe8bye",
            b"\x00\x01",
            bytes(3201),
            bytes(70_000),
        )
    )
    head = rng.choice((0x80, 0, 0x80, 0xF0)) | rng.choice(
        (0, 1, 2, 2, 2, 8, 9, 10, 3, 15)
    )
    length = len(payload) + rng.choice((0, 0, 0, 0, 1, -1, 2**40))
    mask = 0x80 if rng.random() < 0.9 else 0
    if length < 126:
        size = bytes([mask | max(length, 0)])
    elif length < 1 << 16:
        size = bytes([mask | 126]) + struct.pack(">H", length)
    else:
        size = bytes([mask | 127]) + struct.pack(">Q", length)
    return bytes([head]) + size + (bytes(4) if mask else b"") + payload
