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
    Untranscribed,
    as_json,
)

Message: TypeAlias = dict[str, Any]

HISTORY: Final = 200
"""Completed segments, and losses between them, that a browser gets when it comes or comes back."""

_MAX_FIGURES: Final = 60  # points of the page's graphs
_MAX_WAITING: Final = 64  # messages that may wait for one browser

STILL: Final[Message] = {"event": "still"}
"""The connection lives; a page that receives nothing for long connects again."""

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
        """Queue a message."""
        if message["event"] == "level":
            self._level = message
        else:
            self._queue_message(message)
        self._wake()

    def _queue_message(self, message: Message) -> None:
        newest = self._waiting[-1]["event"] if self._waiting else ""
        if message["event"] == newest == "partial":
            self._waiting.pop()
        self._waiting.append(message)
        if len(self._waiting) > _MAX_WAITING:
            self._waiting = deque(self._broadcast.summary())

    def take(self) -> Message | None:
        """Return the next message; `None` when nothing waits."""
        if self._waiting:
            return self._waiting.popleft()
        level = self._level
        self._level = None
        return level


class Broadcast:
    """Keeps the recent past and hands every event to all clients; used from one thread only.

    Args:
        browser_microphone: a browser's microphone may be captioned.
        settings: what may be changed while captions run, as it is at first.
    """

    def __init__(
        self,
        *,
        browser_microphone: bool = False,
        settings: dict[str, str] | None = None,
    ) -> None:
        # Ids count from 0 again when the program restarts.
        self._run_id = secrets.token_hex(8)
        self._browser_microphone = browser_microphone
        self._is_recording = False
        self._completed: deque[Message] = deque(maxlen=HISTORY)
        self._has_dropped = False  # there was more than the history holds
        self._figures: deque[Message] = deque(maxlen=_MAX_FIGURES)
        self._partial: Message | None = None
        self._away: Message | None = None
        self._settings = settings or {}
        self._n_cleared = 0
        self._has_ended = False
        self._clients: set[Client] = set()

    def add_client(self, wake: Callable[[], None]) -> Client:
        """Return a new client; `wake` is called whenever something waits for it."""
        client = Client(self, wake)
        self._clients.add(client)
        return client

    @property
    def n_clients(self) -> int:
        """Number of clients that have joined and not left."""
        return len(self._clients)

    def remove_client(self, client: Client) -> None:
        """Send a client nothing more."""
        self._clients.discard(client)

    def put(self, event: Event, figures: Message | None = None) -> None:
        """Send an event, and the figures that came with it."""
        message = as_json(event)
        self._remember_event(event, message)
        self._send_message(message)
        if figures is not None:
            self._figures.append(figures)
            self._send_message({"event": "figures", **figures})

    def _remember_event(self, event: Event, message: Message) -> None:
        """Keep what a client that comes later has to know."""
        match event:
            case Completed():
                self._partial = None
                if event.text:
                    self._keep_message(message)
            case Partial():
                self._partial = message
            case Away():
                self._away = message
            case Back():
                self._away = None
                if not event.stalled:  # nothing is missing
                    self._keep_message(message)
            case Lost() | Marker() | Untranscribed():
                self._keep_message(message)
            case Cleared():
                self._completed.clear()
                self._has_dropped = False
                self._n_cleared += 1
            case SettingsChanged():
                self._settings = event.settings
            case _:
                pass  # a segment that started is known by its first partial

    def put_level(self, level_db: float) -> None:
        """Send a level in dB below full scale, which is not kept."""
        self._send_message({"event": "level", "level_db": round(level_db, 1)})

    def put_recording(self, is_recording: bool) -> None:
        """Send whether a browser's microphone is captioned."""
        self._is_recording = is_recording
        self._send_message({"event": "recording", "recording": is_recording})

    def end(self) -> None:
        """Send that the stream is over."""
        self._has_ended = True
        self._send_message(_END)

    def summary(self) -> list[Message]:
        """Return a snapshot for a page, and whether the stream is over."""
        snapshot = {
            "event": "snapshot",
            "run": self._run_id,
            "browser_microphone": self._browser_microphone,
            "recording": self._is_recording,
            "completed": list(self._completed),
            "more": self._has_dropped,
            "partial": self._partial,
            "away": self._away,
            "cleared": self._n_cleared,
            "settings": self._settings,
            "figures": list(self._figures),
        }
        return [snapshot, _END] if self._has_ended else [snapshot]

    def _keep_message(self, message: Message) -> None:
        if len(self._completed) == HISTORY:
            self._has_dropped = True
        self._completed.append(message)

    def _send_message(self, message: Message) -> None:
        for client in self._clients:
            client.put(message)
