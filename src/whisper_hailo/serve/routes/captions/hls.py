"""Captions for players: WebVTT over HLS, in pieces that appear as soon as nothing changes in them.

Source: RFC 8216, sections 3.5 (WebVTT segments) and 4 (playlists).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from whisper_hailo.live.events import Completed, Event, Started
from whisper_hailo.live.outputs.files import CUES, cues_of
from whisper_hailo.text.subtitles import Cue, Layout, vtt_cue

PIECE_S: Final = 4.0
"""Of one media segment."""

N_PIECES: Final = 45
"""That a playlist has: three minutes."""

_LATE_S: Final = 1.0
"""Speech may have begun so long before it is told."""


@dataclass(frozen=True, slots=True)
class MediaSegment:
    """A media segment.

    Attributes:
        number: of the stream's first piece is 0.
        cues: all that are shown in its time, as a whole.
    """

    number: int
    cues: tuple[Cue, ...]

    def text(self) -> str:
        """As a file of its own; times are those of the stream."""
        return "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n" + "".join(
            map(vtt_cue, self.cues)
        )


class MediaSegments:
    """The last pieces of a stream; used from one thread only.

    A piece is there when the stream has come beyond it and no segment is under way that began in
    it: it never changes then. What is told too late for its piece is in the next one.

    Args:
        layout: of the cues.
    """

    def __init__(self, layout: Layout = CUES) -> None:
        self._layout = layout
        self._heard_s = 0.0
        self._cues: deque[Cue] = deque()
        self._running_s = math.inf  # where the segment begins that is under way
        self._wall_s: float | None = None  # when the stream began, in seconds since 1970
        self._pieces: deque[MediaSegment] = deque(maxlen=N_PIECES)
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
            self._cues += (_not_before(shown_from_s, cue) for cue in cues_of(event, self._layout))

    def come_to(self, heard_s: float) -> None:
        """The stream has come so far."""
        self._heard_s = heard_s
        self._advance()

    def end(self) -> None:
        """Nothing follows: the last piece is there, too."""
        self._ended = True
        self._advance()

    def playlist(self, suffix: str = "") -> str:
        """The pieces that there are."""
        first = self._pieces[0].number if self._pieces else 0
        lines = [
            "#EXTM3U",
            "#EXT-X-VERSION:3",
            f"#EXT-X-TARGETDURATION:{math.ceil(PIECE_S)}",
            f"#EXT-X-MEDIA-SEQUENCE:{first}",
        ]
        if self._wall_s is not None and self._pieces:
            began = datetime.fromtimestamp(self._wall_s + first * PIECE_S, UTC)
            lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{began.isoformat(timespec='milliseconds')}")
        for piece in self._pieces:
            lines += [f"#EXTINF:{PIECE_S:.3f},", f"captions/{piece.number}.vtt{suffix}"]
        if self._ended:
            lines.append("#EXT-X-ENDLIST")
        return "\n".join(lines) + "\n"

    def piece(self, number: int) -> MediaSegment | None:
        """One of them; `None`: it is not there yet, or not any more."""
        return next((piece for piece in self._pieces if piece.number == number), None)

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
            shown = tuple(cue for cue in self._cues if cue.start_s < begin_s + PIECE_S)
            self._pieces.append(MediaSegment(self._n_pieces, shown))
            self._n_pieces += 1


def _not_before(start_s: float, cue: Cue) -> Cue:
    """A cue in a piece that is still to come."""
    if cue.start_s >= start_s:
        return cue
    return replace(cue, start_s=start_s, end_s=max(cue.end_s, start_s + 1.0))
