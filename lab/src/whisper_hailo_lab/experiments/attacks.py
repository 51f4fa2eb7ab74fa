"""Attacks on a server, each with what the server promises."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import signal
import socket
import struct
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.experiments.attacked_server import (
    AttackedServer,
    BrokenPromiseError,
    wait_until_closed,
)
from whisper_hailo_lab.experiments.server_clients import (
    DEMO,
    processor_ms,
    wyoming_client,
)

CLOCK: Final = Path(tempfile.gettempdir()) / "whisper-hailo-clock"
"""What the clock of an attacked server differs by."""

_N_CLIENTS: Final = 100
_MIB: Final = 1 << 20
_HALF_OPEN_S: Final = 60.0
_ROUTE: Final = "/v1/audio/transcriptions"
_HOST: Final = "Host: 127.0.0.1\r\n"
_UPGRADE: Final = (
    f"GET /v1/realtime?intent=transcription HTTP/1.1\r\n{_HOST}"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
).encode()
_HELLO_HEAD: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""Beginning of a TLS handshake: a client's hello of 512 bytes."""


@dataclass(frozen=True, slots=True)
class Attack:
    """What is tried.

    Attributes:
        name: of it, as in the table.
        promise: what the server promises.
        run: attacks; returns figures, or raises `BrokenPromiseError`.
        options: of the server's command.
        needs_tls: the server has a certificate.
        needs_clock: the server has the clock of `CLOCK`.
    """

    name: str
    promise: str
    run: Callable[[AttackedServer], str]
    options: Sequence[str] = ()
    needs_tls: bool = False
    needs_clock: bool = False


def _post(path: str, body: bytes, media_type: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers]
    lines += [f"Content-Type: {media_type}", f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def _upload(content: bytes, filename: str = "a.wav", *fields: tuple[str, str]) -> bytes:
    """Return a request that uploads a file."""
    head = '--x\r\nContent-Disposition: form-data; name="'
    text = "".join(f'{head}{name}"\r\n\r\n{value}\r\n' for name, value in fields)
    text += f'{head}file"; filename="{filename}"\r\n\r\n'
    body = text.encode() + content + b"\r\n--x--\r\n"
    return _post(_ROUTE, body, "multipart/form-data; boundary=x")


def _status(answer: bytes) -> int:
    """Return the status of an answer; 0 if there is none."""
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _expect(status: int, *expected: int) -> int:
    if status not in expected:
        raise BrokenPromiseError(f"answered {status or 'nothing'}")
    return status


def _expect_at_most(what: str, value: float, most: float) -> None:
    if value > most:
        raise BrokenPromiseError(f"{what}: {value:.1f}, expected {most:g} at most")


def _close_times(connections: Sequence[socket.socket]) -> list[float]:
    with ThreadPoolExecutor(len(connections)) as pool:
        return list(pool.map(wait_until_closed, connections))


def _stall_handshakes(server: AttackedServer) -> str:
    """Begin TLS handshakes, and send a byte a second of each."""
    with ExitStack() as stack:
        connections = []
        for _ in range(_N_CLIENTS):
            connection = stack.enter_context(server.connect(plain=True))
            connection.sendall(_HELLO_HEAD)
            connections.append(connection)
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(1):
                for connection in connections:
                    try:
                        connection.sendall(b"\0")
                    except OSError:  # closed, as it should be
                        continue

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            seconds = _close_times(connections)
        finally:
            ended.set()
            dripping.join()
    _expect_at_most("seconds", max(seconds), 20)
    return f"{_N_CLIENTS} connections, closed after {max(seconds):.0f} s"


def _break_handshakes(server: AttackedServer) -> str:
    """Send rubbish where a handshake is expected, and leave in the middle of one."""
    number = 300
    for index in range(number):
        with server.connect(plain=True) as connection:
            connection.sendall(_HELLO_HEAD if index % 2 else os.urandom(200))
    _expect(server.get("/health")[0], 200)
    return f"{number} handshakes broken off"


def _freeze_process(server: AttackedServer) -> str:
    """Stop the process as a suspended computer does, while a client waits."""
    seconds = 40.0
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(wyoming_client(server.wyoming, DEMO))
        time.sleep(0.05)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(server.pid, signal.SIGCONT)
        if answer.result() != server.text:
            raise BrokenPromiseError("another text")
    return f"{seconds:.0f} s, the request under way got its text"


def _move_clock(server: AttackedServer) -> str:
    """Move the system's clock while clients ask: a time server, a dead battery, a summer."""
    moves = ("+1h", "-1h", "-20y", "+80y", "-1d", "+0")
    ask = wyoming_client(server.wyoming, DEMO)
    with ThreadPoolExecutor(1) as pool:
        for move in moves:
            answer = pool.submit(ask)
            CLOCK.write_text(move)
            time.sleep(1.5)
            if answer.result() != server.text or ask() != server.text:
                raise BrokenPromiseError(f"another text after {move}")
    return ", ".join(moves)


@cache
def _silent_opus(seconds: int) -> bytes:
    file = io.BytesIO()
    with soundfile.SoundFile(
        file, "w", 8_000, 1, format="OGG", subtype="OPUS", compression_level=1.0
    ) as writer:
        minute = np.zeros(60 * 8_000, np.float32)
        for _ in range(seconds // 60):
            writer.write(minute)
    return file.getvalue()


def _send_opus_bomb(server: AttackedServer) -> str:
    """Send hours of silence in a few MiB."""
    hours = 5
    content = _silent_opus(hours * 3600)
    before_ms = processor_ms(server.pid)
    status = _status(server.send(_upload(content, "a.ogg")))
    cpu_s = (processor_ms(server.pid) - before_ms) / 1000
    _expect(status, 413)
    _expect_at_most("processor seconds", cpu_s, 60)
    return f"{hours} h in {len(content) / _MIB:.1f} MiB: {status} after {cpu_s:.1f} processor s"


def _send_flac_bomb(server: AttackedServer) -> str:
    """Send silence of eight channels at 192 kHz, of which a byte becomes thousands."""
    file = io.BytesIO()
    minutes = 5
    silence = np.zeros((192_000 * 10, 8), np.int16)
    with soundfile.SoundFile(file, "w", 192_000, 8, format="FLAC") as writer:
        for _ in range(6 * minutes):
            writer.write(silence)
    content = file.getvalue()
    decoded_mib = 192_000 * 60 * minutes * 8 * 2 / _MIB
    before_ms = processor_ms(server.pid)
    status = _status(server.send(_upload(content, "a.flac")))
    cpu_s = (processor_ms(server.pid) - before_ms) / 1000
    _expect(status, 200)
    return (
        f"{len(content) / _MIB:.1f} MiB that decode to {decoded_mib:,.0f}: "
        f"{status} after {cpu_s:.0f} processor s"
    )


def _send_zip_bombs(server: AttackedServer) -> str:
    """Send a zip file as a recording, and a body that says that it is compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.wav", bytes(256 * _MIB))
    zipped = _expect(_status(server.send(_upload(file.getvalue()))), 400, 415, 422)
    form = _upload(b"x").partition(b"\r\n\r\n")[2]
    request = _post(
        _ROUTE, form, "multipart/form-data; boundary=x", "Content-Encoding: gzip"
    )
    encoded = _expect(_status(server.send(request)), 400, 415, 422)
    return f"zip {zipped}, Content-Encoding {encoded}, nothing unpacked"


def _send_huge_json(server: AttackedServer) -> str:
    """Send JSON of 30 MiB in the shapes that parsers are slow at."""
    n_bytes = 30 * _MIB
    bodies = {
        "nested": b"[" * n_bytes,
        "objects": b'{"a":' * (n_bytes // 5),
        "values": b"[" + b"1," * (n_bytes // 2) + b"1]",
        "string": b'{"input_audio":{"data":"' + b"A" * n_bytes + b'"}}',
        "escapes": b'{"x":"' + b"\\u0041" * (n_bytes // 6) + b'"}',
        "digits": b'{"x":' + b"9" * n_bytes + b"}",
    }
    statuses = []
    for name, body in bodies.items():
        status = _status(server.send(_post(_ROUTE, body, "application/json")))
        statuses.append(f"{name} {_expect(status, 400, 413, 422)}")
    return ", ".join(statuses)


def _send_huge_messages(server: AttackedServer) -> str:
    """Send realtime messages of 20 MiB that are no JSON, or JSON of a million values."""
    n_bytes = 20 * _MIB
    kind = b'{"type":"session.update","session":'
    texts = (
        b"[" * n_bytes,
        kind + b"[" + b"1," * (n_bytes // 2 - 20) + b"1]}",
        kind + b'{"a":' * (n_bytes // 6) + b"}",
        b'{"type":"input_audio_buffer.append","audio":"'
        + b"A=" * (n_bytes // 2 - 40)
        + b'"}',
    )
    with server.connect() as connection:
        connection.sendall(_UPGRADE)
        _expect(_status(connection.recv(1 << 12)), 101)
        reading = threading.Thread(target=wait_until_closed, args=(connection,))
        reading.start()
        for text in texts:
            connection.sendall(
                b"\x81\xff" + struct.pack(">Q", len(text)) + bytes(4) + text
            )
        connection.sendall(b"\x88\x80" + bytes(4))
        reading.join()
    return f"{len(texts)} messages of {n_bytes // _MIB} MiB"


def _flood_frames(server: AttackedServer) -> str:
    """Send pings, and a message in empty pieces."""
    number = 200_000
    with server.connect() as connection:
        connection.sendall(_UPGRADE)
        _expect(_status(connection.recv(1 << 12)), 101)
        reading = threading.Thread(target=wait_until_closed, args=(connection,))
        reading.start()
        with suppress(OSError):  # refused, which is right, too
            connection.sendall((b"\x89\x80" + bytes(4)) * number)
            connection.sendall(b"\x01\x80" + bytes(4))
            connection.sendall((b"\x00\x80" + bytes(4)) * number)
            connection.sendall(b"\x80\x80" + bytes(4) + b"\x88\x80" + bytes(4))
        reading.join()
    return f"{number:,} pings and as many empty pieces of a message"


def _leave_websockets_open(server: AttackedServer) -> str:
    """Open WebSockets of all live places whose client answers nothing, not even pings."""
    number = 16
    with ExitStack() as stack:
        connections = []
        for _ in range(number):
            connection = stack.enter_context(server.connect())
            connection.sendall(_UPGRADE)
            connection.recv(1 << 12)
            connections.append(connection)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_wait_for_live_place, server)
            seconds = waiting.result()
    return f"{number} of them; a place is free after {seconds:.0f} s"


def _wait_for_live_place(server: AttackedServer) -> float:
    begin_s = time.monotonic()
    while time.monotonic() - begin_s < 2 * _HALF_OPEN_S:
        if _status(server.send(_UPGRADE)) == http.client.SWITCHING_PROTOCOLS:
            seconds = time.monotonic() - begin_s
            _expect_at_most("seconds", seconds, _HALF_OPEN_S)
            return seconds
        time.sleep(0.5)
    raise BrokenPromiseError(f"no place after {2 * _HALF_OPEN_S:g} s")


def _flood_headers(server: AttackedServer) -> str:
    """Send many headers, a long one, and one that never ends."""
    long = "x".ljust(8 * _MIB, "x")
    many = "".join(f"X-{index}: {index}\r\n" for index in range(100_000))
    requests = {
        "100,000 headers": f"GET /health HTTP/1.1\r\n{_HOST}{many}\r\n",
        "one of 8 MiB": f"GET /health HTTP/1.1\r\n{_HOST}X: {long}\r\n\r\n",
        "path of 8 MiB": f"GET /{long} HTTP/1.1\r\n{_HOST}\r\n",
    }
    told = []
    for name, request in requests.items():
        status = _status(server.send(request.encode()))
        # 0: it was closed before all of it was read, and the answer was lost with that.
        told.append(f"{name} {_expect(status, 0, 400, 414, 431) or 'closed'}")
    with server.connect() as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\n{_HOST}X: ".encode())
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.2):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        seconds = wait_until_closed(connection)
        ended.set()
        dripping.join()
    _expect_at_most("seconds", seconds, 15)
    return ", ".join(told) + f", dripping closed after {seconds:.0f} s"


def _flood_pipeline(server: AttackedServer) -> str:
    """Send requests in one go without reading an answer."""
    number = 20_000
    request = f"GET /health HTTP/1.1\r\n{_HOST}\r\n".encode()
    with server.connect() as connection:
        connection.settimeout(10)
        with suppress(OSError):  # the server has stopped reading
            connection.sendall(request * number)
        time.sleep(3)
    return f"{number:,} requests whose answers are not read"


def _send_tiny_chunks(server: AttackedServer) -> str:
    """Send a body in chunks of a byte."""
    number = 200_000
    head = (
        f"POST {_ROUTE} HTTP/1.1\r\n{_HOST}Transfer-Encoding: chunked\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nConnection: close\r\n\r\n"
    )
    before_ms = processor_ms(server.pid)
    status = _status(server.send(head.encode() + b"1\r\nx\r\n" * number + b"0\r\n\r\n"))
    cpu_s = (processor_ms(server.pid) - before_ms) / 1000
    _expect(status, 400, 422)
    return f"{number:,} chunks: {status} after {cpu_s:.1f} processor s"


def _send_odd_names(server: AttackedServer) -> str:
    """Upload the recording under names of all kinds, then with parts whose heads are too long."""
    content = DEMO.path.read_bytes()
    names = (
        "../../etc/passwd",
        "C:\\windows\\a.wav",
        "a\\r\\nX: y.wav",
        "\u202egpj.wav",
        "\U0001f3a4" * 500,
        "",
        ".",
        "a%0d%0ab.wav",
        "$(reboot).wav",
        "-rf",
        "CON",
    )
    statuses: Counter[int] = Counter()
    for name in names:
        statuses[
            _expect(_status(server.send(_upload(content, name))), 200, 400, 422)
        ] += 1
    for name in ("x" * 5 * _MIB, "\0" * 100):
        _expect(_status(server.send(_upload(content, name))), 0, 200, 400, 422)
    fields = tuple((f"f{index}", "x") for index in range(1000))
    _expect(_status(server.send(_upload(content, "a.wav", *fields))), 0, 400)
    body = b"--x\r\n" + b"A" * (20 * _MIB)
    request = _post(_ROUTE, body, "multipart/form-data; boundary=x")
    _expect(_status(server.send(request)), 0, 400)
    return ", ".join(f"{count} x {status}" for status, count in statuses.items())


def _upload_long_files(server: AttackedServer) -> str:
    """Upload 50 recordings of an hour at once, then ask for a command, then leave."""
    number = 50
    demo = load_audio(DEMO.path)
    hour = np.tile(demo, 3600 * SAMPLE_RATE_HZ // demo.size + 1)
    file = io.BytesIO()
    soundfile.write(file, hour, SAMPLE_RATE_HZ, format="OGG", subtype="OPUS")
    request = _upload(file.getvalue(), "a.ogg")
    with ExitStack() as stack:
        connections = []
        for _ in range(number):
            connection = stack.enter_context(server.connect())
            connection.settimeout(300)
            with suppress(ConnectionError):  # refused before it was read
                connection.sendall(request)
            connections.append(connection)
        time.sleep(5)
        statuses = Counter(_answer_so_far(connection) for connection in connections)
        begin_ms = processor_ms(server.pid)
        begin_s = time.monotonic()
        status = _status(server.send(_upload(DEMO.path.read_bytes(), "a.flac")))
        cpu_s = (processor_ms(server.pid) - begin_ms) / 1000
        took_s = time.monotonic() - begin_s
    told = ", ".join(
        f"{count} x {status}" for status, count in sorted(statuses.items())
    )
    return f"{told}; a command meanwhile: {status} after {cpu_s:.2f} processor s ({took_s:.1f} s)"


def _answer_so_far(connection: socket.socket) -> str:
    connection.settimeout(0.2)
    try:
        return str(_status(connection.recv(1 << 12)) or "closed")
    except TimeoutError:
        return "in progress"
    except OSError:
        return "closed"


def _forge_addresses(server: AttackedServer) -> str:
    """Name another address with each request, to have a rate limit for each."""
    statuses: Counter[int] = Counter()
    for index in range(30):
        address = f"10.0.0.{index}"
        lines = [f"X-Forwarded-For: {address}", f"X-Real-IP: {address}"]
        lines.append(f"Forwarded: for={address}")
        request = _post(_ROUTE, b"{}", "application/json", *lines)
        statuses[_status(server.send(request))] += 1
    _expect_at_most("requests within the limit", 30 - statuses[429], 12)
    return ", ".join(f"{count} x {status}" for status, count in statuses.items())


def _send_mp3_without_header(server: AttackedServer) -> str:
    """Upload an MP3 file of a variable bit rate whose length is guessed wrongly."""
    rate_hz = 44_100
    seconds = 300
    sound = np.zeros(rate_hz * seconds, np.float32)
    noise = np.random.default_rng(0).standard_normal(rate_hz * seconds // 2)
    sound[sound.size // 2 :] = 0.3 * noise.clip(-1, 1)
    file = io.BytesIO()
    soundfile.write(
        file,
        sound,
        rate_hz,
        format="MP3",
        bitrate_mode="VARIABLE",
        compression_level=0.0,
    )
    content = file.getvalue()
    tag = content.index(b"Xing")
    start = content.index(content[:2], tag)
    answer = server.send(_upload(content[start:], "a.mp3"))
    return f"{seconds} s: {_expect(_status(answer), 200)}"


def _flood_base64(server: AttackedServer) -> str:
    """Upload the recording as JSON, with a number for every option and a file of no sound."""
    data = base64.b64encode(bytes(_MIB)).decode()
    bodies = (
        {"input_audio": {"data": data, "format": "wav"}},
        {"input_audio": {"data": data, "format": "x" * 100}},
        {"input_audio": {"data": data}, "temperature": 1e308},
        {"input_audio": {"data": data}, "language": ["de"] * 60},
        {"input_audio": [data] * 20},
    )
    statuses = []
    for body in bodies:
        request = _post(_ROUTE, json.dumps(body).encode(), "application/json")
        statuses.append(str(_expect(_status(server.send(request)), 400, 413, 422)))
    return ", ".join(statuses)


ATTACKS: Final = (
    Attack(
        "TLS handshakes, a byte a second",
        "closed within 20 s, others are served",
        _stall_handshakes,
        needs_tls=True,
    ),
    Attack(
        "broken TLS handshakes",
        "others are served",
        _break_handshakes,
        needs_tls=True,
    ),
    Attack(
        "forged X-Forwarded-For",
        "one client has one rate limit",
        _forge_addresses,
        ("--rate", "10"),
    ),
    Attack(
        "system clock moved",
        "requests go on, nothing ends early",
        _move_clock,
        needs_clock=True,
    ),
    Attack("process stopped for 40 s", "requests go on", _freeze_process),
    Attack("header floods", "refused, closed within 15 s", _flood_headers),
    Attack("pipelined requests", "bounded memory", _flood_pipeline),
    Attack("body in chunks of a byte", "refused, others are served", _send_tiny_chunks),
    Attack("names in multipart", "a text, or refused", _send_odd_names),
    Attack("JSON of 30 MiB", "refused, no stall", _send_huge_json),
    Attack("JSON uploads of no sound", "refused", _flood_base64),
    Attack("realtime messages of 20 MiB", "refused, no stall", _send_huge_messages),
    Attack("WebSocket frames", "no stall", _flood_frames),
    Attack(
        "half-open WebSockets", "a place is free within 60 s", _leave_websockets_open
    ),
    Attack("zip bombs", "refused", _send_zip_bombs),
    Attack("Opus bomb", "refused as too long", _send_opus_bomb),
    Attack("FLAC bomb", "bounded memory, others are served", _send_flac_bomb),
    Attack("MP3 without a length", "its text", _send_mp3_without_header),
    Attack("50 recordings of an hour", "a command is answered", _upload_long_files),
)
"""All attacks, in the order of the table."""
