"""Messages of captions for browsers."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from whisper_hailo.live.events import (
    Away,
    Back,
    Cleared,
    Completed,
    Event,
    Lost,
    Marker,
    Partial,
    SettingsChanged,
    as_json,
)

Message: TypeAlias = dict[str, Any]

HISTORY: Final = 200
"""Completed segments, and losses between them, that a browser gets when it comes or comes back."""

_FIGURES: Final = 60  # points of the page's graphs
_LONGEST_QUEUE: Final = 64  # messages that may wait for one browser

STILL: Final[Message] = {"event": "still"}
"""The connection lives; a page that hears nothing for long connects again."""

_END: Final[Message] = {"event": "end"}


class Client:
    """Messages on their way to one browser.

    A newer partial takes the place of the one that waits, and so does a newer level. When too much
    waits, all of it is put in one snapshot, from which the page sees what it has already. That the
    stream is over always comes last.
    """

    def __init__(self, broadcast: Broadcast, wake: Callable[[], None]) -> None:
        self._broadcast = broadcast
        self._wake = wake
        self._waiting = deque(broadcast.summary())
        self._level: Message | None = None

    def put(self, message: Message) -> None:
        if message["event"] == "level":
            self._level = message
        else:
            newest = self._waiting[-1]["event"] if self._waiting else ""
            if message["event"] == newest == "partial":
                self._waiting.pop()
            self._waiting.append(message)
            if len(self._waiting) > _LONGEST_QUEUE:
                self._waiting = deque(self._broadcast.summary())
        self._wake()

    def take(self) -> Message | None:
        """Return the next message; `None` when nothing waits."""
        if self._waiting:
            return self._waiting.popleft()
        level, self._level = self._level, None
        return level


class Broadcast:
    """Keeps the recent past and hands every event to all clients; used from one thread only."""

    def __init__(
        self, *, browser_microphone: bool = False, settings: dict[str, str] | None = None
    ) -> None:
        self._run = secrets.token_hex(8)  # ids count from 0 again when the program restarts
        self._browser_microphone = browser_microphone
        self._recording = False
        self._completed: deque[Message] = deque(maxlen=HISTORY)
        self._dropped = False  # there was more than that
        self._figures: deque[Message] = deque(maxlen=_FIGURES)
        self._partial: Message | None = None
        self._away: Message | None = None
        self._settings = settings or {}
        self._n_cleared = 0
        self._ended = False
        self._clients: set[Client] = set()

    def join(self, wake: Callable[[], None]) -> Client:
        """Return a new client; `wake` is called whenever something waits for it."""
        client = Client(self, wake)
        self._clients.add(client)
        return client

    @property
    def n_clients(self) -> int:
        return len(self._clients)

    def leave(self, client: Client) -> None:
        self._clients.discard(client)

    def put(self, event: Event, figures: Message | None = None) -> None:
        message = as_json(event)
        if isinstance(event, Completed):
            self._partial = None
            if event.text:
                self._keep(message)
        elif isinstance(event, Lost | Back | Marker):
            self._keep(message)
        elif isinstance(event, Cleared):
            self._completed.clear()
            self._dropped = False
            self._n_cleared += 1
        elif isinstance(event, SettingsChanged):
            self._settings = event.settings
        if isinstance(event, Away | Back):
            self._away = message if isinstance(event, Away) else None
        if isinstance(event, Partial):
            self._partial = message
        self._tell(message)
        if figures is not None:
            self._figures.append(figures)
            self._tell({"event": "figures", **figures})

    def put_level(self, level_db: float) -> None:
        """Send a level in dB below full scale, which is not kept."""
        self._tell({"event": "level", "level_db": round(level_db, 1)})

    def put_recording(self, recording: bool) -> None:
        """Send whether a browser's microphone is captioned."""
        self._recording = recording
        self._tell({"event": "recording", "recording": recording})

    def end(self) -> None:
        self._ended = True
        self._tell(_END)

    def summary(self) -> list[Message]:
        """Return a snapshot for a page, and whether the stream is over."""
        snapshot = {
            "event": "snapshot",
            "run": self._run,
            "browser_microphone": self._browser_microphone,
            "recording": self._recording,
            "completed": list(self._completed),
            "more": self._dropped,
            "partial": self._partial,
            "away": self._away,
            "cleared": self._n_cleared,
            "settings": self._settings,
            "figures": list(self._figures),
        }
        return [snapshot, _END] if self._ended else [snapshot]

    def _keep(self, message: Message) -> None:
        self._dropped |= len(self._completed) == HISTORY
        self._completed.append(message)

    def _tell(self, message: Message) -> None:
        for client in self._clients:
            client.put(message)
