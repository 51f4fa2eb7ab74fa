"""Guarantees of every stream of caption events, and their check.

They hold whatever the audio, the engine and its speed. `violations` checks them; the tests run it
over random streams, engines and faults.

1. Every segment starts once and completes once, in this order; its partials lie in between.
2. At most one segment is active.
3. Ids count 0, 1, 2 ... in order of start; all events of a segment carry its id.
4. Nothing follows a completed segment's `Completed`: its text never changes.
5. The committed text of a partial begins with the committed text of the one before, and the
   completed text begins with that of the last: what was committed never changes.
6. Times do not run backwards: `heard_s` and `at_s` never decrease, a segment starts no earlier than
   the one before ended, and `start_s <= end_s <= heard_s`.
7. Audio is not skipped: when computing falls behind, there are fewer partials, of more audio each.
8. A source that can wait loses nothing, however far computing falls behind. Of one that cannot,
   such as a microphone, `live.sources.source` buffers a limited amount. `Lost` reports what is
   lost beyond that, with its position in the stream: the segment before it is completed, no
   segment reaches into it, and later times include it.
9. A source that stops is reported by `Away`, and by `Back` when it is open again, in turns. In
   between no segment is active and there are no events of the stream; later times include the
   gap.
10. `Untranscribed` follows the `Completed` of its segment, lies in it, and none overlaps another.
11. Actions of users, `Marker`, `Cleared` and `SettingsChanged`, may come at any time, at the
   current position of the stream; they begin and end nothing.
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
    Untranscribed,
)


def find_violations(events: Iterable[Event]) -> Iterator[str]:
    """Check the guarantees of this module.

    Args:
        events: events of one whole stream, in order.

    Yields:
        one line for each breach.
    """
    checker = EventChecker()
    for event in events:
        yield from checker.check_event(event)
    yield from checker.check_end()


@dataclass(slots=True)
class EventChecker:
    """Checks the guarantees event by event, in constant memory.

    Attributes:
        active: segment that has started and is not completed.
        committed: its committed text so far.
        last_end_s: end of the previous segment or loss.
        next_id: id of the segment that starts next.
        heard_s: position of the previous event.
        at_s: time of the previous event.
        away: event of the source's absence, while it lasts.
        completed: the segment that was completed last.
        untranscribed_s: end of its last speech without text.
    """

    active: Started | None = None
    committed: str = ""
    last_end_s: float = 0.0
    next_id: int = 0
    heard_s: float = 0.0
    at_s: float = -math.inf
    away: Away | None = None
    completed: Completed | None = None
    untranscribed_s: float = 0.0

    def check_event(self, event: Event) -> Iterator[str]:
        """Take the next event and yield a line for each guarantee that it breaks."""
        if event.at_s < self.at_s or event.heard_s < self.heard_s:
            yield f"time runs backwards at {event}"
        self.at_s = event.at_s
        self.heard_s = event.heard_s
        if isinstance(event, Control):
            if event.start_s != event.heard_s:
                yield f"{event} is not at the position of the stream"
            return
        if self.away is not None and not isinstance(event, Back):
            yield f"{event} comes while the source is away"
        if isinstance(event, Started):
            yield from self._check_started(event)
        elif isinstance(event, Lost):
            yield from self._check_lost(event)
        elif isinstance(event, Away):
            yield from self._check_away(event)
        elif isinstance(event, Back):
            yield from self._check_back(event)
        elif isinstance(event, Untranscribed):
            yield from self._check_untranscribed(event)
        else:
            yield from self._check_text(event)

    def check_end(self) -> Iterator[str]:
        """Check the state after the last event."""
        if self.active is not None:
            yield f"segment {self.active.segment_id} is never completed"

    def _check_started(self, event: Started) -> Iterator[str]:
        if self.active is not None:
            yield f"segment {event.segment_id} starts within segment {self.active.segment_id}"
        if event.segment_id != self.next_id:
            yield f"segment {event.segment_id} starts, expected {self.next_id}"
        if not self.last_end_s <= event.start_s <= event.heard_s:
            yield f"{event} starts before {self.last_end_s} s or after it was heard"
        self.active = event
        self.next_id = event.segment_id + 1
        self.committed = ""

    def _check_lost(self, event: Lost) -> Iterator[str]:
        if self.active is not None:
            yield f"audio is lost within segment {self.active.segment_id}"
        if not self.last_end_s <= event.start_s < event.end_s <= event.heard_s:
            yield f"{event} begins before {self.last_end_s} s or is not a span of the stream"
        self.last_end_s = event.end_s

    def _check_away(self, event: Away) -> Iterator[str]:
        if self.active is not None:
            yield f"the source goes away within segment {self.active.segment_id}"
        if not self.last_end_s <= event.start_s <= event.heard_s:
            yield f"{event} begins before {self.last_end_s} s or after it was heard"
        self.away = event
        self.last_end_s = event.start_s

    def _check_back(self, event: Back) -> Iterator[str]:
        if self.away is None or event.start_s != self.away.start_s:
            yield f"{event} comes back from where it did not go"
        if not event.start_s <= event.end_s <= event.heard_s:
            yield f"{event} is not a span of the stream"
        self.away = None
        self.last_end_s = event.end_s

    def _check_text(self, event: Partial | Completed) -> Iterator[str]:
        if self.active is None or event.segment_id != self.active.segment_id:
            yield f"segment {event.segment_id} has text while it is not active"
            return
        if not self.active.start_s == event.start_s <= event.end_s <= event.heard_s:
            yield f"times of {event} do not fit {self.active}"
        text = event.committed_text if isinstance(event, Partial) else event.text
        if not text.startswith(self.committed):
            yield f"committed {self.committed!r} became {text!r} in segment {event.segment_id}"
        self.committed = text
        if isinstance(event, Completed):
            self.active = None
            self.completed = event
            self.untranscribed_s = event.start_s
            self.last_end_s = event.end_s

    def _check_untranscribed(self, event: Untranscribed) -> Iterator[str]:
        completed = self.completed
        if completed is None or completed.segment_id != event.segment_id:
            yield f"{event} does not follow its segment"
            return
        if not self.untranscribed_s <= event.start_s < event.end_s <= completed.end_s:
            yield f"{event} lies outside of {completed} or overlaps another"
        self.untranscribed_s = event.end_s
