"""Feeds of captions: messages for browsers, and WebVTT pieces for players.

Source: RFC 8216, sections 3.5 (WebVTT segments) and 4 (playlists).
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
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
    Settings,
    Started,
    as_json,
)
from whisper_hailo.live.outputs.files import CUES, cues_of
from whisper_hailo.text.subtitles import Cue, Layout, vtt_cue

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

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast
        self._waiting = deque(broadcast.summary())
        self._level: Message | None = None

    def put(self, message: Message) -> None:
        if message["event"] == "level":
            self._level = message
            return
        newest = self._waiting[-1]["event"] if self._waiting else ""
        if message["event"] == "partial" and newest == "partial":
            self._waiting.pop()
        self._waiting.append(message)
        if len(self._waiting) > _LONGEST_QUEUE:
            self._waiting = deque(self._broadcast.summary())

    def take(self) -> Message | None:
        """Return the next message; `None` when nothing waits."""
        if self._waiting:
            return self._waiting.popleft()
        level, self._level = self._level, None
        return level


class Broadcast:
    """Keeps the recent past and hands every event to all clients; used from one thread only."""

    def __init__(
        self, *, browser_microphone: bool = False, settings: dict[str, float | str] | None = None
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
        self._clients: dict[Client, Callable[[], None]] = {}

    def join(self, wake: Callable[[], None]) -> Client:
        """Return a new client; `wake` is called whenever something waits for it."""
        client = Client(self)
        self._clients[client] = wake
        return client

    @property
    def n_clients(self) -> int:
        return len(self._clients)

    def leave(self, client: Client) -> None:
        self._clients.pop(client, None)

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
        elif isinstance(event, Settings):
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
        for client, wake in self._clients.items():
            client.put(message)
            wake()


PIECE_S: Final = 4.0
"""Of one media segment."""

N_PIECES: Final = 45
"""That a playlist has: three minutes."""

_LATE_S: Final = 1.0  # longest time from the start of speech to its first event

_VTT_HEAD: Final = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n"


class MediaSegments:
    """The last pieces of a stream; used from one thread only.

    A piece is there when the stream has come beyond it and no segment is under way that began in
    it: it never changes then. Text that comes too late for its piece is in the next one.
    """

    def __init__(self, layout: Layout = CUES) -> None:
        self._layout = layout
        self._heard_s = 0.0
        self._cues: deque[Cue] = deque()
        self._running_s = math.inf  # where the segment begins that is under way
        self._wall_s: float | None = None  # when the stream began, in seconds since 1970
        self._pieces: deque[str] = deque(maxlen=N_PIECES)  # WebVTT files, the last of all
        self._n_pieces = 0
        self._ended = False

    def put(self, event: Event) -> None:
        self.come_to(event.heard_s)
        if event.wall_s is not None:
            self._wall_s = event.wall_s - event.start_s
        if isinstance(event, Started):
            self._running_s = event.start_s
        elif isinstance(event, Completed):
            self._running_s = math.inf
            shown_from_s = self._n_pieces * PIECE_S
            for cue in cues_of(event, self._layout):
                if cue.start_s < shown_from_s:  # too late for its piece
                    end_s = max(cue.end_s, shown_from_s + 1.0)
                    cue = replace(cue, start_s=shown_from_s, end_s=end_s)  # noqa: PLW2901
                self._cues.append(cue)

    def come_to(self, heard_s: float) -> None:
        self._heard_s = heard_s
        self._advance()

    def end(self) -> None:
        """Nothing follows: the last piece is there, too."""
        self._ended = True
        self._advance()

    def playlist(self, suffix: str = "") -> str:
        first = self._n_pieces - len(self._pieces)
        lines = [
            "#EXTM3U",
            "#EXT-X-VERSION:3",
            f"#EXT-X-TARGETDURATION:{math.ceil(PIECE_S)}",
            f"#EXT-X-MEDIA-SEQUENCE:{first}",
        ]
        if self._wall_s is not None and self._pieces:
            began = datetime.fromtimestamp(self._wall_s + first * PIECE_S, UTC)
            lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{began.isoformat(timespec='milliseconds')}")
        for number in range(first, self._n_pieces):
            lines += [f"#EXTINF:{PIECE_S:.3f},", f"captions/{number}.vtt{suffix}"]
        if self._ended:
            lines.append("#EXT-X-ENDLIST")
        return "\n".join(lines) + "\n"

    def piece(self, number: int) -> str | None:
        """Return the WebVTT file of a piece; `None` if it is not there yet, or not any more.

        It has all cues that are shown in its time, as a whole; times are those of the stream.
        """
        index = number - (self._n_pieces - len(self._pieces))
        return self._pieces[index] if 0 <= index < len(self._pieces) else None

    def _advance(self) -> None:
        """Make the pieces that nothing changes any more."""
        known_s = self._heard_s if self._ended else self._heard_s - _LATE_S
        n_known = min(known_s, self._running_s) / PIECE_S
        n_wanted = math.ceil(n_known) if self._ended else math.floor(n_known)
        self._n_pieces = max(self._n_pieces, n_wanted - N_PIECES)  # those before would be gone
        while self._n_pieces < n_wanted:
            begin_s = self._n_pieces * PIECE_S
            while self._cues and self._cues[0].end_s <= begin_s:
                self._cues.popleft()
            shown = (vtt_cue(cue) for cue in self._cues if cue.start_s < begin_s + PIECE_S)
            self._pieces.append(_VTT_HEAD + "".join(shown))
            self._n_pieces += 1
