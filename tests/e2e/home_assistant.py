"""Home Assistant itself, started with an empty configuration, and what a user does with it."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.e2e.conftest import PATIENCE_S, ROOT


@dataclass(frozen=True)
class Installation:
    """One that `make lab` installed.

    Attributes:
        lane: of `make lab`.
        program: relative to the root.
        root: of the Debian that it runs in; `/` is this machine's.
    """

    lane: str
    program: Path
    root: Path = Path("/")

    @property
    def is_there(self) -> bool:
        return (self.root / self.program).exists()

    def command(self, folder: Path) -> list[str | Path]:
        """Return the command for a folder of its configuration, which is in the root."""
        before = [] if self.root == Path("/") else ["chroot", self.root]
        place = Path("/") / folder.relative_to(self.root)
        return [*before, Path("/") / self.program, "--skip-pip", "-c", place]


_DEBIAN = ROOT / ".venv-homeassistant-today"
INSTALLATIONS = (
    Installation("home-assistant", ROOT / ".venv-homeassistant" / "bin" / "hass"),
    Installation("home-assistant-today", Path("hass/bin/hass"), _DEBIAN),
)

_CHUNK_BYTES = 4096
_BYTES_PER_SECOND = 32_000

CONFIGURATION = """
http:
  server_host: 127.0.0.1
  server_port: {port}
frontend:
config:
assist_pipeline:
conversation:
input_boolean:
"""


@dataclass
class HomeAssistant:
    """One that runs.

    Attributes:
        address: without the protocol.
        token: of its owner, once there is one.
    """

    address: str
    token: str = ""

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        """What its API answers; to an object, or to bytes.

        Raises:
            HTTPError: another status than 200.
        """
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - http, see above
            return json.load(answer)

    def onboard(self) -> None:
        """Make an owner, as its first page does."""
        client = f"http://{self.address}/"
        owner = {
            "client_id": client,
            "name": "Test",
            "username": "test",
            "password": "secret",
        }
        code = self.ask("/api/onboarding/users", {**owner, "language": "en"})[
            "auth_code"
        ]
        grant = {"grant_type": "authorization_code", "code": code, "client_id": client}
        self.token = self.ask("/auth/token", urllib.parse.urlencode(grant).encode())[
            "access_token"
        ]

    def add_wyoming(self, host: str, port: int) -> Any:
        """Add its own Wyoming integration, as its settings do."""
        flows = "/api/config/config_entries/flow"
        flow = self.ask(flows, {"handler": "wyoming", "show_advanced_options": False})
        return self.ask(f"{flows}/{flow['flow_id']}", {"host": host, "port": port})

    def text_of(self, engine: str, sound: bytes, language: str) -> Any:
        """What a speech-to-text engine hears, by its API."""
        form = "format=wav; codec=pcm; sample_rate=16000; bit_rate=16; channel=1"
        content = {"X-Speech-Content": f"{form}; language={language}"}
        return self.ask(f"/api/stt/{engine}", sound, **content)

    @contextmanager
    def talk(self) -> Iterator[Talk]:
        """A WebSocket, as its pages and satellites have."""
        with connect(f"ws://{self.address}/api/websocket", max_size=None) as socket:
            json.loads(socket.recv())
            socket.send(json.dumps({"type": "auth", "access_token": self.token}))
            assert json.loads(socket.recv())["type"] == "auth_ok"
            yield Talk(socket)


class Talk:
    """A conversation over a WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._id = 0

    def ask(self, **message: Any) -> Any:
        """The result of a command."""
        self._id += 1
        self._socket.send(json.dumps({"id": self._id, **message}))
        answer = json.loads(self._socket.recv(PATIENCE_S))
        assert answer["success"], answer
        return answer["result"]

    def pipeline(self, engine: str, language: str) -> str:
        """Make an Assist pipeline that hears with an engine."""
        nothing = dict.fromkeys(
            (
                "tts_engine",
                "tts_language",
                "tts_voice",
                "wake_word_entity",
                "wake_word_id",
            )
        )
        made = self.ask(
            type="assist_pipeline/pipeline/create", name=language, language=language,
            conversation_engine="homeassistant", conversation_language=language,
            stt_engine=engine, stt_language=language, **nothing,
        )  # fmt: skip
        return str(made["id"])

    def run(self, pipeline: str, sound: bytes) -> list[dict[str, Any]]:
        """Run the speech-to-text stage of a pipeline on a recording; all of its events."""
        events = self._begin(pipeline, no_vad=True)
        number = bytes([events[0]["data"]["runner_data"]["stt_binary_handler_id"]])
        for at in range(0, len(sound), _CHUNK_BYTES):
            self._socket.send(number + sound[at : at + _CHUNK_BYTES])
        self._socket.send(number)
        self._receive(events)
        return events

    def speak(self, pipeline: str, sound: bytes) -> list[dict[str, Any]]:
        """Send sound as it is spoken, and silence behind it, until somebody finds the end."""
        events = self._begin(pipeline, no_vad=False)
        number = bytes([events[0]["data"]["runner_data"]["stt_binary_handler_id"]])
        receiver = threading.Thread(target=self._receive, args=(events,))
        receiver.start()
        start_s = time.monotonic()
        at = 0
        while receiver.is_alive():
            chunk = sound[at : at + _CHUNK_BYTES].ljust(_CHUNK_BYTES, b"\0")
            at += _CHUNK_BYTES
            receiver.join(max(0.0, start_s + at / _BYTES_PER_SECOND - time.monotonic()))
            self._socket.send(number + chunk)
        return events

    def _begin(self, pipeline: str, *, no_vad: bool) -> list[dict[str, Any]]:
        self.ask(
            type="assist_pipeline/run", start_stage="stt", end_stage="stt", pipeline=pipeline,
            timeout=PATIENCE_S, input={"sample_rate": 16_000, "no_vad": no_vad},
        )  # fmt: skip
        return self._receive([], until={"stt-start", "error"})

    def _receive(
        self,
        events: list[dict[str, Any]],
        until: Collection[str] = ("run-end", "error"),
    ) -> list[dict[str, Any]]:
        """Add events to a list until one of a type has come."""
        while not events or events[-1]["type"] not in until:
            events.append(json.loads(self._socket.recv(PATIENCE_S))["event"])
        return events


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def home_assistant(installed: Installation) -> Iterator[HomeAssistant]:
    """Start one with an empty configuration."""
    with tempfile.TemporaryDirectory(dir=installed.root / "tmp") as folder:
        yield from _started(installed, Path(folder))


def _started(installed: Installation, folder: Path) -> Iterator[HomeAssistant]:
    port = _free_port()
    (folder / "configuration.yaml").write_text(CONFIGURATION.format(port=port))
    log = folder / "said.log"
    with (
        log.open("w") as said,
        subprocess.Popen(
            installed.command(folder), stdout=said, stderr=said
        ) as process,
    ):
        try:
            home = HomeAssistant(f"127.0.0.1:{port}")
            end_s = time.monotonic() + PATIENCE_S
            while not _answers(home):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end_s, "it does not answer"
                time.sleep(0.2)
            home.onboard()
            while home.ask("/api/config")["state"] != "RUNNING":
                assert time.monotonic() < end_s, "it does not get ready"
                time.sleep(0.2)
            yield home
        finally:
            process.terminate()


def _answers(home: HomeAssistant) -> bool:
    try:
        home.ask("/api/onboarding")
    except urllib.error.HTTPError:
        raise
    except (urllib.error.URLError, ConnectionError):
        return False
    return True
