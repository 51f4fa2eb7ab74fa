"""A browser of the caption page that reads slowly, leaves and comes back."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Final, Self

import numpy as np
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from whisper_hailo.core.protocols import Closing

_READ_S: Final = 0.5
_PATIENCE_S: Final = 300.0
"""A text that has not come by then is lost; a busy machine is no excuse."""


class Browser(Closing):
    """Reads the page's events over a socket on a thread of its own, one text per segment id.

    Attributes:
        runs: final texts by segment id, for each run of the program, in order.
        twice: ids that came with two texts.
        n_visits: number of connections.
    """

    def __init__(self, address: str, seed: int) -> None:
        self._address = address.replace("http", "ws", 1) + "events"
        self._rng = np.random.default_rng(seed)
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._stay_connected, name="browser", daemon=True
        )
        self._is_leaving = False
        self.runs: dict[str, dict[int, str]] = {}
        self.twice: set[int] = set()
        self.n_visits = 0

    def open(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._closed.set()
        self._thread.join(_PATIENCE_S)

    @property
    def texts(self) -> dict[int, str]:
        """Texts of the latest run."""
        return list(self.runs.values())[-1] if self.runs else {}

    def reload(self) -> None:
        """Leave at the next message, and connect again."""
        self._is_leaving = True

    def read_to(self, segment_id: int) -> None:
        """Wait until a segment's text has come, or long enough to call it lost."""
        end_s = time.monotonic() + _PATIENCE_S
        while (
            segment_id >= 0
            and segment_id not in self.texts
            and time.monotonic() < end_s
        ):
            time.sleep(0.05)

    def _stay_connected(self) -> None:
        while not self._closed.is_set():
            self.n_visits += 1
            n_messages = int(self._rng.integers(5, 100))
            try:
                with connect(
                    self._address,
                    max_size=None,
                    open_timeout=_PATIENCE_S,
                    close_timeout=1,
                ) as socket:
                    self._visit(socket, n_messages)
            except (OSError, WebSocketException):
                # The program is not running; the page tries again.
                self._closed.wait(_READ_S)

    def _visit(self, socket: Any, n_messages: int) -> None:  # noqa: ANN401 - a socket's class
        """Read some messages, a few of them late, and leave without a close frame."""
        for _ in range(n_messages):
            if self._closed.is_set() or self._is_leaving:
                self._is_leaving = False
                return
            try:
                message = json.loads(socket.recv(timeout=_READ_S))
            except TimeoutError:
                continue
            except ConnectionClosed:
                return
            if message["event"] == "snapshot":
                self.runs.setdefault(message["run"], {})
            for entry in (message, *message.get("completed", [])):
                self._note(entry)
            if self._rng.random() < 0.05:
                time.sleep(float(self._rng.uniform(0.05, 0.5)))

    def _note(self, entry: dict[str, Any]) -> None:
        if entry["event"] != "completed" or not entry["text"]:
            return
        known = self.texts.setdefault(entry["segment_id"], entry["text"])
        if known != entry["text"]:
            self.twice.add(entry["segment_id"])
