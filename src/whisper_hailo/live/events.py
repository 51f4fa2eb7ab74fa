"""What captioning tells: a segment started, has a partial text, is completed; audio was lost.

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
7. Skipped partials are counted, and the count of a segment never decreases. Audio is not skipped:
   when computing falls behind, fewer partials are made, of more audio each.
8. What can wait loses nothing, however far computing falls behind. Of what cannot, such as a
   microphone, so much waits as `live.backlog` has room for; what is lost beyond that is told by
   `Lost`, with its place in the stream. The segment before it is completed, no segment reaches into
   it, and the times of what follows count it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Reason: TypeAlias = Literal["silence", "length", "loss", "end"]
"""Why a segment was completed: a pause, its greatest length, lost audio, the end of the stream."""


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A word as it is shown.

    Attributes:
        text: with its leading blank.
        probability: in [0, 1]; `None` where the engine does not say.
    """

    text: str
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """Speech has begun.

    Attributes:
        segment_id: 0 for the first segment.
        start_s: where the segment begins in the stream, pre-roll included.
        heard_s: how far the stream has come, in seconds.
        at_s: when this was told, on a clock that began with the captioner.
    """

    segment_id: int
    start_s: float
    heard_s: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Partial:
    """What the running segment holds so far.

    Attributes:
        segment_id: of the running segment.
        start_s: as in `Started`.
        end_s: end of the audio that this text is of.
        committed: words that stay.
        tentative: words that may still change.
        n_skipped: partials of this segment that were due but skipped, for want of time.
        heard_s: as in `Started`.
        at_s: when this was told.
    """

    segment_id: int
    start_s: float
    end_s: float
    committed: tuple[CaptionWord, ...]
    tentative: tuple[CaptionWord, ...]
    n_skipped: int
    heard_s: float
    at_s: float

    @property
    def committed_text(self) -> str:
        """The words that stay, as one text."""
        return text_of(self.committed)

    @property
    def text(self) -> str:
        """All words, as one text."""
        return text_of((*self.committed, *self.tentative))


@dataclass(frozen=True, slots=True)
class Completed:
    """The final text of a segment.

    Attributes:
        segment_id: of the segment, which is no longer active.
        start_s: as in `Started`.
        end_s: end of its audio, where the next segment may begin.
        words: empty where nothing was said after all.
        reason: what ended it.
        n_skipped: partials that were due but skipped.
        heard_s: as in `Started`.
        at_s: when this was told.
        language: code of the language that it was heard in; empty where the engine failed.
    """

    segment_id: int
    start_s: float
    end_s: float
    words: tuple[CaptionWord, ...]
    reason: Reason
    n_skipped: int
    heard_s: float
    at_s: float
    language: str = ""

    @property
    def text(self) -> str:
        """The words, as one text."""
        return text_of(self.words)


@dataclass(frozen=True, slots=True)
class Lost:
    """A stretch of the stream that nobody heard: too much waited, and it could not.

    Attributes:
        start_s: where it begins in the stream.
        end_s: where it ends, and hearing goes on.
        heard_s: as in `Started`.
        at_s: when this was told.
    """

    start_s: float
    end_s: float
    heard_s: float
    at_s: float


Event: TypeAlias = Started | Partial | Completed | Lost


def text_of(words: Iterable[CaptionWord]) -> str:
    """Words joined, without surrounding blanks."""
    return "".join(word.text for word in words).strip()


def as_json(event: Event) -> dict[str, Any]:
    """An event as it stands in a JSON Lines file or goes over a socket."""
    fields = asdict(event)
    for name in ("start_s", "end_s", "heard_s", "at_s"):
        if name in fields:
            fields[name] = round(fields[name], 4)
    for words in ("committed", "tentative", "words"):
        for word in fields.get(words, ()):
            if word["probability"] is not None:
                word["probability"] = round(word["probability"], 4)
    if isinstance(event, Partial):
        fields["text"], fields["committed_text"] = event.text, event.committed_text
    elif isinstance(event, Completed):
        fields["text"] = event.text
    return {"event": type(event).__name__.lower(), **fields}


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
        n_skipped: its skipped partials so far.
        last_end_s: where the segment before ended, or the loss.
        next_id: of the segment that starts next.
        heard_s: of the event before.
        at_s: likewise.
    """

    active: Started | None = None
    committed: str = ""
    n_skipped: int = 0
    last_end_s: float = 0.0
    next_id: int = 0
    heard_s: float = 0.0
    at_s: float = -math.inf

    def see(self, event: Event) -> Iterator[str]:
        """Take the next event; a line for each guarantee that it breaks."""
        if event.at_s < self.at_s or event.heard_s < self.heard_s:
            yield f"time runs backwards at {event}"
        self.at_s, self.heard_s = event.at_s, event.heard_s
        if isinstance(event, Started):
            yield from self._started(event)
        elif isinstance(event, Lost):
            yield from self._lost(event)
        else:
            yield from self._told(event)

    def end(self) -> Iterator[str]:
        """Likewise, after the last event."""
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
        self.committed, self.n_skipped = "", 0

    def _lost(self, event: Lost) -> Iterator[str]:
        if self.active is not None:
            yield f"audio is lost within segment {self.active.segment_id}"
        if not self.last_end_s <= event.start_s < event.end_s <= event.heard_s:
            yield f"{event} begins before {self.last_end_s} s or is no stretch of the stream"
        self.last_end_s = event.end_s

    def _told(self, event: Partial | Completed) -> Iterator[str]:
        if self.active is None or event.segment_id != self.active.segment_id:
            yield f"segment {event.segment_id} is told of while it is not active"
            return
        if not self.active.start_s == event.start_s <= event.end_s <= event.heard_s:
            yield f"times of {event} do not fit {self.active}"
        text = event.committed_text if isinstance(event, Partial) else event.text
        if not text.startswith(self.committed):
            yield f"committed {self.committed!r} became {text!r} in segment {event.segment_id}"
        if event.n_skipped < self.n_skipped:
            yield f"skipped partials of segment {event.segment_id} decrease"
        self.committed, self.n_skipped = text, event.n_skipped
        if isinstance(event, Completed):
            self.active, self.last_end_s = None, event.end_s
