"""The doors of the server, with an engine that hears nothing: what no client sends them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import threading
import wave
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from tests.fuzz.mutate import mutated_bytes, mutated_json
from tests.fuzz.target import Input

PATIENCE_S: Final = 10.0
SOUND: Final = bytes(3200)

EVENTS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "describe"},
    {"type": "ping", "data": {"text": "there?"}},
    {
        "type": "transcribe",
        "data": {"language": "de", "name": "toy", "transcript_names": ["x"]},
    },
    {"type": "audio-start", "data": {"rate": 16_000, "width": 2, "channels": 1}},
    {
        "type": "audio-chunk",
        "data": {"rate": 16_000, "width": 2, "channels": 1},
        "payload_length": len(SOUND),
    },
    {"type": "audio-stop", "data": {"timestamp": 5}},
)

FIELDS: Final = (
    "model", "language", "prompt", "response_format", "temperature", "stream", "include[]",
    "timestamp_granularities[]", "chunking_strategy", "chunking_strategy[type]", "hotwords",
)  # fmt: skip
VALUES: Final = (
    "toy", "whisper-1", "de", "xx", "", "json", "srt", "verbose_json", "0", "0.5", "nan", "1e400",
    "-1", "true", "logprobs", "word", "auto", "server_vad", "{", "[]", '{"type": "server_vad"}',
    '{"type": "server_vad", "threshold": "x"}', "\0", "é", "x" * 5000, "9" * 400,
)  # fmt: skip
PATHS: Final = (
    "/v1/audio/transcriptions", "/v1/audio/translations", "/asr", "/detect-language", "/inference",
    "/asr?encode=false&output=srt", "/asr?encode=2&task=x", "/v1/models/%00", "/openapi.json",
)  # fmt: skip


MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {"type": "input_audio_buffer.append", "audio": base64.b64encode(SOUND).decode()},
    {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(48_000)).decode()},
    {"type": "input_audio_buffer.commit", "event_id": "a"},
    {"type": "input_audio_buffer.clear"},
    {
        "type": "session.update",
        "session": {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcmu"},
                    "noise_reduction": {"type": "near_field"},
                    "transcription": {"model": "toy", "language": "de", "prompt": "x"},
                    "turn_detection": {"type": "server_vad", "threshold": 0.5,
                                       "prefix_padding_ms": 300, "silence_duration_ms": 500},
                }
            },
            "include": ["item.input_audio_transcription.logprobs"],
        },
    },
    {
        "type": "session.update",
        "session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}},
    },
)  # fmt: skip
QUERIES: Final = ("?intent=transcription", "", "?model=toy", "?model=%00", "?intent=x")


LAST: Final = {
    "wyoming": b'{"type": "ping", "data": {"text": "over"}}\n',
    "http": b"",  # asks for the connection's end by itself
    "realtime": b"\x88\x80\0\0\0\0",
}
"""What a client says last: where that is understood, the answer tells that all before it was."""
LISTENS_S: Final = 0.05
"""To a door that waits for more."""


class Deaf:
    """An engine that says the same of everything; see `serve.service.TranscriptionService`."""

    def __init__(self) -> None:
        from whisper_hailo.serve.audio import AudioDecoders
        from whisper_hailo.serve.metrics import Metrics
        from whisper_hailo.serve.model_memory import ModelMemory
        from whisper_hailo.serve.options import LimitOptions
        from whisper_hailo.serve.quota import Quota
        from whisper_hailo.serve.served_model import ModelState

        self.default = DeafWorker()
        self.models = [self.default]
        self.listed = {"toy": self.default}
        self.ending = asyncio.Event()
        self.limits = LimitOptions(
            max_upload_mib=1, max_audio_s=10.0, max_stored_mib=64
        )
        self.quota = Quota(self.limits)
        self.wyoming_quota = Quota(self.limits.for_wyoming())
        self.decoders = AudioDecoders(self.limits)
        self.memory = ModelMemory()
        self.metrics = Metrics()
        self.speaker_finder = NoSpeakers()
        self.state = ModelState.READY
        self._defaults = self.default.defaults

    def find_model(self, name: str | None) -> Any:
        from whisper_hailo.serve.errors import UnknownModelError

        if name not in (None, "", "toy"):
            raise UnknownModelError("not served")
        return self.default

    def submit(
        self, audio: Any, choices: Any, caller: Any, *, is_early: bool = False
    ) -> Any:
        from whisper_hailo.core.types import Segment, Settings, Timings, Transcript
        from whisper_hailo.serve.ticket import EventChannel, Ticket

        self.find_model(choices.model)
        self._defaults.with_choices(choices)
        segment = Segment(0.0, 1.0, "Nothing.", (1,), 0.0, 0.0, language="en")
        settings = Settings("toy", "-", "-", 10.0, 1.0, 0, 1.0, 0.0, "none", 0)
        seconds = audio.size / 16_000
        events = EventChannel()
        events.emit(segment)
        events.emit(
            Transcript(
                "audio", seconds, "en", "transcribe", (segment,), Timings(), settings
            )
        )
        no_job: Any = None
        return Ticket(
            self.default, no_job, events, duration_s=seconds, deadline_s=PATIENCE_S
        )

    def is_idle(self) -> bool:
        """There is always other work."""
        return False

    def make_recognizer(self, choices: Any, caller: Any) -> Any:
        self._defaults.with_choices(choices)
        return DeafCaptions()


class NoSpeakers:
    """Speaker models that are not to be had; see `speakers.finder.SpeakerFinder`."""

    def load(self) -> Any:
        from whisper_hailo.core.errors import ModelError

        raise ModelError("there are no speaker models")


class DeafWorker:
    """A model that is never loaded; see `serve.served_model.ServedModel`."""

    def __init__(self) -> None:
        from whisper_hailo.decoding.options import DecodingOptions
        from whisper_hailo.serve.jobs import JobQueue
        from whisper_hailo.serve.request import RequestDefaults
        from whisper_hailo.serve.served_model import ModelState

        self.name = "toy"
        self.defaults = RequestDefaults(DecodingOptions())
        self.other_names = ()
        self.languages = ("en", "de")
        self.created_s = 0
        self.queue = JobQueue()
        self.state = ModelState.READY
        self.transcriber = SimpleNamespace(
            decoder=SimpleNamespace(limits=SimpleNamespace(aligns=False))
        )

    def record_item(self, *item: Any) -> None:
        """Nobody counts."""

    def cancel(self, job: Any) -> None:
        """Nothing is under way."""


class DeafCaptions:
    """Hears as much of a stream; see `live.recognizer.SpeechRecognizer`."""

    name = "toy"
    content_s = 10.0
    language = "en"
    model = DeafWorker()

    def transcribe_item(self, audio: Any, choices: Any) -> Any:
        del audio, choices
        return SimpleNamespace(text="Nothing.", segments=(), languages=("en",))

    def transcribe(self, buffer: Any, language: str | None = None) -> Any:
        from whisper_hailo.core.types import BufferText, BufferWord

        words = tuple(
            BufferWord(f" {n}", (n,)) for n in range(buffer.audio.size // 8_000)
        )
        return BufferText(words, language or self.language)

    def cancel(self) -> None:
        """Nothing is under way for long."""


class Fuzzed:
    """A talk at one of the listen, then one that has to be answered."""

    def prepare(self, base: Path) -> None:
        """Open them."""
        self._engine = Deaf()
        self._failures: list[BaseException] = []
        self._engine.metrics.count_failure = self._failures.append  # type: ignore[method-assign]
        opened: Future[None] = Future()
        threading.Thread(target=self._run, args=(opened,), daemon=True).start()
        opened.result(PATIENCE_S)

    def _run(self, opened: Future[None]) -> None:
        try:
            asyncio.run(self._serve(opened))
        except BaseException as error:
            # Else `prepare` would wait for a server that does not come.
            if not opened.done():
                opened.set_exception(error)
            raise

    async def _serve(self, opened: Future[None]) -> None:
        from whisper_hailo.http.addresses import Listener
        from whisper_hailo.http.connections import ConnectionLimiter
        from whisper_hailo.http.server import HttpServer
        from whisper_hailo.serve.app import make_app
        from whisper_hailo.serve.options import SafetyOptions
        from whisper_hailo.serve.routes.realtime.protocol import MAX_MESSAGE_BYTES
        from whisper_hailo.serve.routes.wyoming.server import WyomingServer

        limiter = ConnectionLimiter()
        listener, other = (Listener("127.0.0.1", 0, "tcp", "") for _ in range(2))
        await WyomingServer(self._engine, limiter).serve(other)
        self._ports = {
            "wyoming": other.getsockname()[1],
            "http": listener.getsockname()[1],
        }
        app = make_app(self._engine, "127.0.0.1", SafetyOptions())
        listener.listen()  # who connects before it serves waits
        opened.set_result(None)
        server = HttpServer(app, limiter, None, message_bytes=MAX_MESSAGE_BYTES)
        await server.serve([listener])

    def make(self, rng: Random, base: Path) -> Input:
        """The door, and what is said there as a Latin-1 text."""
        door = rng.choice(("wyoming", "http", "realtime"))
        make = {"wyoming": _events, "http": _request, "realtime": _frames}
        said = make[door](rng)
        if rng.random() < 0.4:
            said = mutated_bytes(rng, said)
        return "talk.json", json.dumps([door, said.decode("latin-1")]).encode()

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Say it, and look whether the door still answers."""
        door, said = json.loads(content)
        last = LAST[door]
        door = "http" if door == "realtime" else door
        self._failures.clear()
        with socket.create_connection(
            ("127.0.0.1", self._ports[door]), PATIENCE_S
        ) as talk:
            talk.settimeout(LISTENS_S)
            with suppress(OSError):
                talk.sendall(said.encode("latin-1") + last)
                while (heard := talk.recv(1 << 16)) and b'"over"' not in heard:
                    pass
        if door == "http":
            self._expect(
                "http", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200 OK"
            )
        else:
            self._expect("wyoming", b'{"type": "describe"}\n', b'"info"')
        self._expect_no_faults()

    def _expect(self, door: str, said: bytes, answer: bytes) -> None:
        with socket.create_connection(
            ("127.0.0.1", self._ports[door]), PATIENCE_S
        ) as talk:
            talk.sendall(said)
            heard = talk.recv(1 << 10)
        if answer not in heard:
            raise ConnectionError(f"{door} does not answer any more: {heard!r}")

    def _expect_no_faults(self) -> None:
        from fastapi.exceptions import RequestValidationError
        from starlette.exceptions import HTTPException

        from whisper_hailo.core.errors import WhisperHailoError

        for error in self._failures:
            if not isinstance(
                error, WhisperHailoError | HTTPException | RequestValidationError
            ):
                raise error


def _events(rng: Random) -> bytes:
    said = b""
    for _ in range(rng.choice((1, 2, 3, 6))):
        event = rng.choice(EVENTS)
        head = (
            mutated_json(rng, event)
            if rng.random() < 0.5
            else json.dumps(event).encode()
        )
        said += head + b"\n" + (SOUND if "payload_length" in event else b"")
    return said


def _frames(rng: Random) -> bytes:
    """A WebSocket's beginning, and frames with messages of all kinds."""
    said = (
        f"GET /v1/realtime{rng.choice(QUERIES)} HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()
    for _ in range(rng.choice((1, 2, 4, 8))):
        message = rng.choice(MESSAGES)
        text = (
            mutated_json(rng, message)
            if rng.random() < 0.5
            else json.dumps(message).encode()
        )
        said += _frame(rng, text)
    return said + (b"\x88\x80\0\0\0\0" if rng.random() < 0.5 else b"")


def _frame(rng: Random, data: bytes) -> bytes:
    """One that a client may send, mostly; its mask changes nothing."""
    head = rng.choice(
        (0x81, 0x81, 0x81, 0x81, 0x81, 0x82, 0x01, 0x80, 0x89, 0x8A, 0xC1, 0x83)
    )
    if len(data) < 126:
        size = bytes([0x80 | len(data)])
    elif len(data) < 1 << 16:
        size = b"\xfe" + len(data).to_bytes(2, "big")
    else:
        size = b"\xff" + len(data).to_bytes(8, "big")
    return bytes([head]) + size + bytes(4) + data


def _request(rng: Random) -> bytes:
    """An upload with fields of all kinds."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(SOUND)
    path = rng.choice(PATHS)
    file_field = "audio_file" if path.startswith(("/asr", "/detect")) else "file"
    content = (
        mutated_bytes(rng, sound.getvalue()) if rng.random() < 0.5 else sound.getvalue()
    )
    parts = [f'name="{file_field}"; filename="a.wav"\r\n\r\n'.encode() + content]
    for _ in range(rng.choice((0, 1, 2, 4))):
        field = rng.choice(FIELDS)
        value = rng.choice(VALUES)
        parts.append(f'name="{field}"\r\n\r\n{value}'.encode())
    if rng.random() < 0.8:
        parts.append(b'name="model"\r\n\r\ntoy')
    head = b"--x\r\nContent-Disposition: form-data; "
    body = b"".join(head + part + b"\r\n" for part in parts) + b"--x--\r\n"
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
