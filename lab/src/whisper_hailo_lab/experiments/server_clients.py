"""Clients of a speech server for measurements: each asks once and returns the text."""

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
from dataclasses import dataclass
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
from wyoming.event import Event, read_event, write_event

from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.repository import PACKAGE

PATIENCE_S: Final = 600.0

_WYOMING_BYTES: Final = 4096
_REALTIME_BYTES: Final = 9600
_REALTIME_HZ: Final = 24_000
_COMPLETED: Final = "conversation.item.input_audio_transcription.completed"
_FAILED: Final = "conversation.item.input_audio_transcription.failed"
_BUSY_STATUSES: Final = (429, 503)

Ask = Callable[[], str]
"""Asks once and returns the text."""


class RefusedError(Exception):
    """The server has no capacity now: 429 or 503."""


@dataclass(frozen=True, slots=True)
class SpokenFile:
    """A recording in a file that the server can read, with its language."""

    path: Path
    language: str = "en"

    def read_pcm(self, rate_hz: int) -> bytes:
        """Return its samples at a rate, 16 bits each."""
        return encode_pcm(soxr.resample(load_audio(self.path), SAMPLE_RATE_HZ, rate_hz))


DEMO: Final = SpokenFile(PACKAGE / "assets" / "demo.flac")
"""The bundled recording."""


def openai_client(
    address: str, file: SpokenFile = DEMO, response_format: str = "json"
) -> Ask:
    """Return a client that uploads a file to OpenAI's API, for `json` or `verbose_json`."""
    fields = {
        "model": "whisper-1",
        "language": file.language,
        "response_format": response_format,
    }
    body = _encode_form("file", file, fields)

    def ask() -> str:
        answer = _post_form(address, "/v1/audio/transcriptions", body)
        return str(json.loads(answer)["text"]).strip()

    return ask


def asr_client(address: str, file: SpokenFile = DEMO) -> Ask:
    """Return a client that uploads a file as Bazarr does."""
    body = _encode_form("audio_file", file, {})
    path = f"/asr?output=txt&language={file.language}"
    return lambda: " ".join(_post_form(address, path, body).decode().split())


def inference_client(address: str, file: SpokenFile = DEMO) -> Ask:
    """Return a client of whisper.cpp's protocol."""
    fields = {"response_format": "json", "language": file.language}
    body = _encode_form("file", file, fields)
    return lambda: " ".join(
        json.loads(_post_form(address, "/inference", body))["text"].split()
    )


def _encode_form(name: str, file: SpokenFile, fields: Mapping[str, str]) -> bytes:
    """Return the body of a multipart upload."""
    head = '--x\r\nContent-Disposition: form-data; name="'
    texts = ""
    for field, value in fields.items():
        texts += f'{head}{field}"\r\n\r\n{value}\r\n'
    begin = f'{texts}{head}{name}"; filename="audio.flac"\r\n\r\n'
    return b"".join((begin.encode(), file.path.read_bytes(), b"\r\n--x--\r\n"))


def _post_form(address: str, path: str, body: bytes) -> bytes:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    connection = http.client.HTTPConnection(
        urlsplit(address).netloc, timeout=PATIENCE_S
    )
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status in _BUSY_STATUSES:
        raise RefusedError(str(answer.status))
    if answer.status != http.client.OK:
        raise ConnectionError(f"the server answers {answer.status}")
    return content


def wyoming_client(address: str, file: SpokenFile = DEMO) -> Ask:
    """Return a client that sends a file's samples in chunks by Wyoming."""
    parts = urlsplit(address)
    server = (parts.hostname or "", parts.port or 0)
    data = file.read_pcm(SAMPLE_RATE_HZ)
    audio_format = (SAMPLE_RATE_HZ, 2, 1)
    events = [
        Transcribe(language=file.language).event(),
        AudioStart(*audio_format).event(),
    ]
    for start in range(0, len(data), _WYOMING_BYTES):
        chunk = data[start : start + _WYOMING_BYTES]
        events.append(AudioChunk(*audio_format, audio=chunk).event())
    events.append(AudioStop().event())

    def ask() -> str:
        with socket.create_connection(server, PATIENCE_S) as connection:
            stream = cast(BinaryIO, connection.makefile("rwb"))
            for event in events:
                write_event(event, stream)
            return _read_transcript(stream)

    return ask


def _read_transcript(stream: BinaryIO) -> str:
    while (event := read_event(stream)) is not None:
        if Transcript.is_type(event.type):
            return str(Transcript.from_event(event).text)
        _raise_if_busy(event)
    raise ConnectionError("the server sent no transcript")


def _raise_if_busy(event: Event) -> None:
    if event.type == "error" and event.data.get("code") in ("busy", "too_many"):
        raise RefusedError(event.data["code"])


def realtime_client(
    address: str, file: SpokenFile = DEMO, rate_hz: int = _REALTIME_HZ
) -> Ask:
    """Return a client that sends a file's samples by WebSocket, at OpenAI's rate by default."""
    url = urlsplit(address)._replace(scheme="ws", path="/v1/realtime").geturl()
    data = file.read_pcm(rate_hz)
    input_options = {
        "format": {"type": "audio/pcm", "rate": rate_hz},
        "transcription": {"model": "whisper-1", "language": file.language},
        "turn_detection": None,
    }
    session = {"type": "transcription", "audio": {"input": input_options}}
    messages: list[dict[str, Any]] = [{"type": "session.update", "session": session}]
    for start in range(0, len(data), _REALTIME_BYTES):
        chunk = base64.b64encode(data[start : start + _REALTIME_BYTES]).decode()
        messages.append({"type": "input_audio_buffer.append", "audio": chunk})
    messages.append({"type": "input_audio_buffer.commit"})
    texts = [json.dumps(message) for message in messages]

    def ask() -> str:
        with _open_session(url) as session:
            for text in texts:
                session.send(text)
            while True:
                event = json.loads(session.recv(PATIENCE_S))
                if event["type"] == _COMPLETED:
                    return str(event["transcript"])
                if event["type"] in ("error", _FAILED):
                    raise ConnectionError(event["error"]["message"])

    return ask


@contextmanager
def _open_session(url: str) -> Iterator[ClientConnection]:
    try:
        with connect(url, open_timeout=PATIENCE_S, close_timeout=1) as session:
            yield session
    except ConnectionClosed as error:
        raise ConnectionError(str(error)) from error
    except InvalidStatus as error:
        if error.response.status_code in _BUSY_STATUSES:
            raise RefusedError(str(error.response.status_code)) from None
        raise ConnectionError(str(error)) from error


def encode_pcm(samples: FloatArray) -> bytes:
    """Return 16-bit little-endian samples of float ones in -1 to 1."""
    levels = np.clip((samples * 32768).round(), -32768, 32767)
    return levels.astype("<i2").tobytes()


_MIB: Final = 1 << 20
_SAMPLE_S: Final = 0.5
_LISTEN_OPTIONS: Final = {"http": "--http", "tcp": "--wyoming"}

ProcessSample = tuple[float, int]
"""Memory in MiB, and open descriptors."""


@contextmanager
def start_server(
    threads: int,
    *options: str,
    scheme: str | None = None,
    settings: Mapping[str, int] = MappingProxyType({}),
    model: str = "micro",
    program: Sequence[str] = ("-m", "whisper_hailo"),
) -> Iterator[tuple[int, list[str]]]:
    """Yield the process id of a server, and its addresses.

    Args:
        threads: threads of the decoder.
        options: further options of the command.
        scheme: `http`, or `tcp` for Wyoming; `None` is both, in this order.
        settings: keys of settings files, with `_` for `-`.
        model: model that it serves.
        program: arguments of Python that start it.

    Raises:
        ModelError: it does not start.
    """
    command = [sys.executable, *program, "serve", "--model", model]
    command += ["--threads", str(threads), *options]
    schemes = list(_LISTEN_OPTIONS) if scheme is None else [scheme]
    for name in schemes:
        command += [_LISTEN_OPTIONS[name], "127.0.0.1:0"]
    variables = {}
    for key, value in settings.items():
        variables[f"WHISPER_HAILO_SERVE_{key.upper()}"] = str(value)
    environment = os.environ | variables
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        stderr = process.stderr or sys.stderr
        try:
            addresses = _read_addresses(stderr, len(schemes))
            # A pipe that nobody reads would block the server.
            reader = threading.Thread(target=stderr.read, daemon=True)
            reader.start()
            yield process.pid, addresses
            process.terminate()
            reader.join()
        finally:
            process.terminate()


def _read_addresses(lines: Any, count: int) -> list[str]:  # noqa: ANN401 - a text stream
    addresses: list[str] = []
    while len(addresses) < count:
        line = lines.readline()
        if not line:
            raise ModelError(
                "the server did not start; run whisper-hailo serve by hand"
            )
        match = re.search(r"serving at (\S+)", line)
        if match:
            addresses.append(match[1])
    return addresses


def command_text(threads: int) -> str:
    """Return the command's transcript of the recording."""
    command = [sys.executable, "-m", "whisper_hailo", "transcribe", "--model", "micro"]
    command += ["--threads", str(threads), "-l", "auto", str(DEMO.path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return " ".join(output.split())


def sample_process(pid: int) -> ProcessSample:
    """Return memory and number of open descriptors of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    rss = re.search(r"VmRSS:\s+(\d+)", status)
    n_descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return round(int(rss[1]) * 1024 / _MIB, 1) if rss else 0.0, n_descriptors


def processor_ms(pid: int) -> float:
    """Return the processor time of a process so far."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


class ProcessWatch:
    """Samples a process every half second until the block ends.

    Attributes:
        samples: samples in order.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.samples: list[ProcessSample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        self.samples.append(sample_process(self._pid))
        while not self._ended.wait(_SAMPLE_S):
            self.samples.append(sample_process(self._pid))

    @property
    def peak_mib(self) -> float:
        """Peak of memory."""
        return max(mib for mib, _ in self.samples)

    @property
    def thirds(self) -> tuple[ProcessSample, ProcessSample]:
        """Medians of the first and the last third: equal where nothing leaks."""
        size = max(1, len(self.samples) // 3)
        return _median_sample(self.samples[:size]), _median_sample(self.samples[-size:])


def _median_sample(samples: Sequence[ProcessSample]) -> ProcessSample:
    mib = statistics.median(mib for mib, _ in samples)
    n_descriptors = statistics.median(n_descriptors for _, n_descriptors in samples)
    return mib, round(n_descriptors)
