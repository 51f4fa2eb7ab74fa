"""Clients of a speech server, for measurements: each asks once and gives the text."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Self, cast
from urllib.parse import urlsplit

import numpy as np
import soxr
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import read_event, write_event

from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.repository import ROOT

RECORDING: Final = ROOT / "src" / "whisper_hailo" / "assets" / "demo.flac"
PATIENCE_S: Final = 600.0

_CHUNK_BYTES: Final = 4096
_REALTIME_HZ: Final = 24_000
_DONE: Final = "conversation.item.input_audio_transcription.completed"

Ask = Callable[[], str]
"""Asks once; gives the text."""


class RefusedError(Exception):
    """The server says that it has no room now: 429 or 503."""


def openai_client(
    address: str,
    key: str = "",
    file: bytes | None = None,
    language: str = "en",
    response_format: str = "json",
) -> Ask:
    """One that uploads a file to OpenAI's API.

    Args:
        address: of the server.
        key: that it has.
        file: any that the server can read; `None` is the bundled recording.
        language: code.
        response_format: `json` or `verbose_json`.
    """
    fields = {"model": "whisper-1", "language": language, "response_format": response_format}
    body = _form("file", file or RECORDING.read_bytes(), fields)
    path = "/v1/audio/transcriptions"
    return lambda: str(json.loads(_posted(address, path, body, key))["text"]).strip()


def asr_client(address: str, file: bytes | None = None, language: str = "en") -> Ask:
    """One that uploads a file as Bazarr does; see `openai_client`."""
    body = _form("audio_file", file or RECORDING.read_bytes())
    path = f"/asr?output=txt&language={language}"
    return lambda: " ".join(_posted(address, path, body).decode().split())


def inference_client(address: str, file: bytes | None = None, language: str = "en") -> Ask:
    """One that uploads a file as whisper.cpp's server takes it; see `openai_client`."""
    fields = {"response_format": "json", "language": language}
    body = _form("file", file or RECORDING.read_bytes(), fields)
    return lambda: " ".join(json.loads(_posted(address, "/inference", body))["text"].split())


def batch_client(address: str, times: int) -> Ask:
    """One that uploads the recording as a film, so many times on end, behind all others."""
    samples = np.tile(load_audio(RECORDING), times)
    body = _form("audio_file", pcm(samples))
    return lambda: _posted(address, "/asr?encode=false", body).decode()


def _form(name: str, file: bytes, fields: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """An upload as browsers send it."""
    head = '--x\r\nContent-Disposition: form-data; name="'
    texts = "".join(f'{head}{field}"\r\n\r\n{value}\r\n' for field, value in fields.items())
    begin = f'{texts}{head}{name}"; filename="audio.flac"\r\n\r\n'
    return b"".join((begin.encode(), file, b"\r\n--x--\r\n"))


def _posted(address: str, path: str, body: bytes, key: str = "") -> bytes:
    headers = {"Content-Type": "multipart/form-data; boundary=x", "X-API-Key": key}
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE_S)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status in (429, 503):
        raise RefusedError(str(answer.status))
    if answer.status != http.client.OK:
        raise ConnectionError(f"the server answers {answer.status}")
    return content


def wyoming_client(address: str, samples: FloatArray | None = None, language: str = "en") -> Ask:
    """One that sends samples in chunks.

    Args:
        address: of the server.
        samples: `(n_samples,)` at 16 kHz; `None` is the bundled recording.
        language: code.
    """
    parts = urlsplit(address)
    place = (parts.hostname or "", parts.port or 0)
    data = pcm(load_audio(RECORDING) if samples is None else samples)
    form = (SAMPLE_RATE_HZ, 2, 1)

    def ask() -> str:
        with socket.create_connection(place, PATIENCE_S) as connection:
            wire = cast(BinaryIO, connection.makefile("rwb"))
            write_event(Transcribe(language=language).event(), wire)
            write_event(AudioStart(*form).event(), wire)
            for at in range(0, len(data), _CHUNK_BYTES):
                chunk = AudioChunk(*form, audio=data[at : at + _CHUNK_BYTES])
                write_event(chunk.event(), wire)
            write_event(AudioStop().event(), wire)
            while (event := read_event(wire)) is not None:
                if Transcript.is_type(event.type):
                    return str(Transcript.from_event(event).text)
                if event.type == "error" and event.data.get("code") in ("busy", "too_many"):
                    raise RefusedError(event.data["code"])
        raise ConnectionError("the server said nothing")

    return ask


def realtime_client(address: str, samples: FloatArray | None = None, language: str = "") -> Ask:
    """One that sends samples at 24 kHz by WebSocket, and commits them; see `wyoming_client`."""
    place = urlsplit(address)._replace(scheme="ws", path="/v1/realtime").geturl()
    audio = load_audio(RECORDING) if samples is None else samples
    data = pcm(soxr.resample(audio, SAMPLE_RATE_HZ, _REALTIME_HZ))
    messages = [
        json.dumps(
            {
                "type": "input_audio_buffer.append",
                "audio": base64.b64encode(data[at : at + 9_600]).decode(),
            }
        )
        for at in range(0, len(data), 9_600)
    ]
    heard: dict[str, Any] = {"turn_detection": None}
    if language:
        heard["transcription"] = {"model": "whisper-1", "language": language}
    update = {"type": "transcription", "audio": {"input": heard}}

    def ask() -> str:
        with _opened(place) as talk:
            talk.send(json.dumps({"type": "session.update", "session": update}))
            for message in messages:
                talk.send(message)
            talk.send('{"type": "input_audio_buffer.commit"}')
            while True:
                event = json.loads(talk.recv(PATIENCE_S))
                if event["type"] == _DONE:
                    return str(event["transcript"])
                if event["type"] in ("error", _DONE.replace("completed", "failed")):
                    raise ConnectionError(event["error"]["message"])

    return ask


@contextmanager
def _opened(address: str) -> Iterator[ClientConnection]:
    try:
        with connect(address, open_timeout=PATIENCE_S, close_timeout=1) as talk:
            yield talk
    except ConnectionClosed as error:
        raise ConnectionError(str(error)) from error
    except InvalidStatus as error:
        if error.response.status_code in (429, 503):
            raise RefusedError(str(error.response.status_code)) from None
        raise ConnectionError(str(error)) from error


def pcm(samples: FloatArray) -> bytes:
    """16-bit little-endian samples of float ones in -1 to 1."""
    return np.clip((samples * 32768).round(), -32768, 32767).astype("<i2").tobytes()


_MIB: Final = 1 << 20
_EVERY_S: Final = 0.5
_DOORS: Final = {"http": "--http", "tcp": "--wyoming"}

Held = tuple[float, int]
"""Memory in MiB, and open descriptors."""


@contextmanager
def serving(
    threads: int,
    *words: str,
    door: str | None = None,
    settings: Mapping[str, int] = MappingProxyType({}),
    model: str = "micro",
    program: Sequence[str] = ("-m", "whisper_hailo"),
) -> Iterator[tuple[int, list[str]]]:
    """A server's process, and the addresses of its doors.

    Args:
        threads: of the engine.
        words: more of the command.
        door: `http` or `tcp`, which is Wyoming; `None` is both, in this order.
        settings: keys of settings files, with `_` for `-`.
        model: that it serves.
        program: how Python starts it.

    Raises:
        ModelError: it does not start.
    """
    command = [sys.executable, *program, "serve", "--model", model]
    command += ["--threads", str(threads), *words]
    doors = [option for scheme, option in _DOORS.items() if door in (scheme, None)]
    for option in doors:
        command += [option, "127.0.0.1:0"]
    variables = {f"WHISPER_HAILO_SERVE_{key.upper()}": str(n) for key, n in settings.items()}
    environment = os.environ | variables
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            addresses: list[str] = []
            for line in process.stderr or ():
                if found := re.search(r"serving at (\S+)", line):
                    addresses.append(found[1])
                if len(addresses) == len(doors):
                    break
            else:
                raise ModelError("the server did not start; run whisper-hailo serve by hand")
            reader = threading.Thread(target=(process.stderr or sys.stderr).read, daemon=True)
            reader.start()  # or the server would wait for one
            yield process.pid, addresses
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


def resources(process: int) -> Held:
    """Memory of a process in MiB, and how many descriptors it has."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    rss = re.search(r"VmRSS:\s+(\d+)", status)
    descriptors = len(list(Path(f"/proc/{process}/fd").iterdir()))
    return round(int(rss[1]) * 1024 / _MIB, 1) if rss else 0.0, descriptors


def cpu_ms(process: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ProcessWatch:
    """Looks every half second at what a process holds, as long as the block lasts.

    Attributes:
        samples: what it held, in order.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self.samples: list[Held] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        self.samples.append(resources(self._process))
        while not self._over.wait(_EVERY_S):
            self.samples.append(resources(self._process))

    @property
    def peak_mib(self) -> float:
        """The most memory that was seen."""
        return max(mib for mib, _ in self.samples)

    @property
    def thirds(self) -> tuple[Held, Held]:
        """Medians of the first and of the last third of the time: equal where nothing leaks."""
        n = max(1, len(self.samples) // 3)
        first, last = (
            (
                statistics.median(mib for mib, _ in part),
                round(statistics.median(d for _, d in part)),
            )
            for part in (self.samples[:n], self.samples[-n:])
        )
        return first, last
