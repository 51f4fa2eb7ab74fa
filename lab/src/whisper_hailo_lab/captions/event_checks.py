"""What holds for every stream of events, and what checks it.

These hold for every stream of events, whatever the audio, the engine and its speed. `violations`
checks them; the tests run it over random streams, engines and faults.

1. Every segment starts once and completes once, in this order; its partials lie in between.
2. At most one segment is active.
3. Ids count 0, 1, 2 ... in order of start; all events of a segment carry its id.
4. Nothing follows a completed segment's `Completed`: its text never changes.
5. The committed text of a partial begins with the committed text of the one before, and the
   completed text begins with that of the last: what was committed never changes.
6. Times do not run backwards: `heard_s` and `at_s` never decrease, a segment starts no earlier than
   the one before ended, and `start_s <= end_s <= heard_s`.
7. Audio is not skipped: when computing falls behind, fewer partials are made, of more audio each.
8. What can wait loses nothing, however far computing falls behind. Of what cannot, such as a
   microphone, so much waits as `live.sources.source` has room for. What is lost beyond that is
   told by `Lost`, with its place in the stream: the segment before it is completed, no segment
   reaches into it, and the times of what follows count it.
9. A source that gives nothing any more is `Away`, when it is opened again `Back`, in turns. While
   it is away no segment is active and nothing of the stream is told; the times of what follows
   count how long it was.
10. What users do, `Marker`, `Cleared` and `SettingsChanged`, comes at any time, at the place that
   the stream has come to; no segment begins or ends with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whisper_hailo.live.events import (
    Away,
    Back,
    Completed,
    Control,
    Event,
    Lost,
    Partial,
    Started,
)


def violations(events: Iterable[Event]) -> Iterator[str]:
    """Check the guarantees of this page.

    Args:
        events: of one whole stream, in order.

    Yields:
        one line for each breach; nothing for a good stream.
    """
    watch = EventChecker()
    for event in events:
        yield from watch.see(event)
    yield from watch.end()


@dataclass(slots=True)
class EventChecker:
    """Checks the guarantees event by event; what it remembers does not grow.

    Attributes:
        active: the segment that has started and is not completed.
        committed: its committed text so far.
        last_end_s: where the segment before ended, or the loss.
        next_id: of the segment that starts next.
        heard_s: of the event before.
        at_s: likewise.
        away: the source is.
    """

    active: Started | None = None
    committed: str = ""
    last_end_s: float = 0.0
    next_id: int = 0
    heard_s: float = 0.0
    at_s: float = -math.inf
    away: Away | None = None

    def see(self, event: Event) -> Iterator[str]:
        """Take the next event; a line for each guarantee that it breaks."""
        if event.at_s < self.at_s or event.heard_s < self.heard_s:
            yield f"time runs backwards at {event}"
        self.at_s, self.heard_s = event.at_s, event.heard_s
        if isinstance(event, Control):
            if event.start_s != event.heard_s:
                yield f"{event} is not where the stream is"
            return
        if self.away is not None and not isinstance(event, Back):
            yield f"{event} is told while the source is away"
        if isinstance(event, Started):
            yield from self._started(event)
        elif isinstance(event, Lost):
            yield from self._lost(event)
        elif isinstance(event, Away):
            yield from self._away(event)
        elif isinstance(event, Back):
            yield from self._back(event)
        else:
            yield from self._told(event)

    def end(self) -> Iterator[str]:
        """Check what must hold after the last event."""
        if self.active is not None:
            yield f"segment {self.active.segment_id} is never completed"

    def _started(self, event: Started) -> Iterator[str]:
        if self.active is not None:
            yield f"segment {event.segment_id} starts within segment {self.active.segment_id}"
        if event.segment_id != self.next_id:
            yield f"segment {event.segment_id} starts, expected {self.next_id}"
        if not self.last_end_s <= event.start_s <= event.heard_s:
            yield f"{event} starts before {self.last_end_s} s or after it was heard"
        self.active, self.next_id = event, event.segment_id + 1
        self.committed = ""

    def _lost(self, event: Lost) -> Iterator[str]:
        if self.active is not None:
            yield f"audio is lost within segment {self.active.segment_id}"
        if not self.last_end_s <= event.start_s < event.end_s <= event.heard_s:
            yield f"{event} begins before {self.last_end_s} s or is no stretch of the stream"
        self.last_end_s = event.end_s

    def _away(self, event: Away) -> Iterator[str]:
        if self.active is not None:
            yield f"the source goes away within segment {self.active.segment_id}"
        if not self.last_end_s <= event.start_s <= event.heard_s:
            yield f"{event} begins before {self.last_end_s} s or after it was heard"
        self.away, self.last_end_s = event, event.start_s

    def _back(self, event: Back) -> Iterator[str]:
        if self.away is None or event.start_s != self.away.start_s:
            yield f"{event} comes back from where it did not go"
        if not event.start_s <= event.end_s <= event.heard_s:
            yield f"{event} is no stretch of the stream"
        self.away, self.last_end_s = None, event.end_s

    def _told(self, event: Partial | Completed) -> Iterator[str]:
        if self.active is None or event.segment_id != self.active.segment_id:
            yield f"segment {event.segment_id} is told of while it is not active"
            return
        if not self.active.start_s == event.start_s <= event.end_s <= event.heard_s:
            yield f"times of {event} do not fit {self.active}"
        text = event.committed_text if isinstance(event, Partial) else event.text
        if not text.startswith(self.committed):
            yield f"committed {self.committed!r} became {text!r} in segment {event.segment_id}"
        self.committed = text
        if isinstance(event, Completed):
            self.active, self.last_end_s = None, event.end_s
