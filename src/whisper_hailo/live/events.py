"""Events of captions: segments and their text, lost audio, an absent source, what users set.

`docs/reference/caption-events.md` has what holds for every stream of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

from whisper_hailo.core.types import SAMPLE_RATE_HZ

Reason: TypeAlias = Literal[
    "silence", "clause", "length", "no_text", "loss", "away", "end"
]
"""Why a segment was completed: a pause, a clause after long speech, its greatest length, speech
that goes on without text, lost audio, a source that went away, the end of the stream."""


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A word as it is shown.

    Attributes:
        text: with its leading blank.
        probability: in [0, 1]; `None` where the recogniser gives none.
        start_s: in the stream, as `end_s`; `None` in partials and where the recogniser gives none.
    """

    text: str
    probability: float | None = None
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """Fields of all events.

    Attributes:
        name: of the event in JSON.
        start_s: where it begins in the stream, the pre-roll of a segment included.
        heard_s: how far the stream has come, in seconds.
        at_s: when the event was emitted, on a clock that began with the captioner.
        wall_s: when `start_s` was said, in seconds since 1970; see `StreamClock`.
    """

    name: ClassVar[str]
    start_s: float
    heard_s: float
    at_s: float
    wall_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(StreamEvent):
    """Speech has begun; the first segment is 0."""

    name: ClassVar[str] = "started"

    segment_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial(StreamEvent):
    """The text of the running segment so far.

    Attributes:
        end_s: end of the audio that was transcribed.
        committed: words that stay as they are; `tentative` ones may still change.
        language: code, as far as it is known.
    """

    name: ClassVar[str] = "partial"

    segment_id: int
    end_s: float
    committed: tuple[CaptionWord, ...]
    tentative: tuple[CaptionWord, ...]
    language: str = ""

    @property
    def committed_text(self) -> str:
        return text_of(self.committed)

    @property
    def text(self) -> str:
        return text_of((*self.committed, *self.tentative))


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(StreamEvent):
    """The final text of a segment.

    Attributes:
        end_s: end of its audio, where the next segment may begin.
        words: empty where nothing was said after all.
        language: code; empty where the device failed.
        translation: the English text, where it was requested.
    """

    name: ClassVar[str] = "completed"

    segment_id: int
    end_s: float
    words: tuple[CaptionWord, ...]
    reason: Reason
    language: str = ""
    translation: str | None = None

    @property
    def text(self) -> str:
        return text_of(self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Untranscribed(StreamEvent):
    """Speech up to `end_s` got no text; the segment that it is in is complete.

    Attributes:
        reason: `left_out`: the text around it skips it, `no_speech`: there is no text around it.
        language: code of the language in which it was heard.
    """

    name: ClassVar[str] = "untranscribed"

    segment_id: int
    end_s: float
    reason: str
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(StreamEvent):
    """Audio up to `end_s` was dropped, since the queue was full."""

    name: ClassVar[str] = "lost"

    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Away(StreamEvent):
    """The source is disconnected and being reopened, for the reason `why`, or a user paused it.

    Attributes:
        stalled: it is open, and no sound arrives from it.
    """

    name: ClassVar[str] = "away"

    why: str
    paused: bool = False
    stalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Back(StreamEvent):
    """The source gives audio again from `end_s` on; it was away from `start_s` on."""

    name: ClassVar[str] = "back"

    end_s: float
    paused: bool = False
    stalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker(StreamEvent):
    """A user marked a place of the stream; the label may be empty."""

    name: ClassVar[str] = "marker"

    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared(StreamEvent):
    """A user cleared what is shown; files stay as they are."""

    name: ClassVar[str] = "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(StreamEvent):
    """A user changed settings, from the next segment on.

    Attributes:
        settings: all that can be changed, by name.
    """

    name: ClassVar[str] = "settings"

    settings: dict[str, str]


Control: TypeAlias = Marker | Cleared | SettingsChanged
"""Events that users cause, at the place that the stream has come to; no segment begins or ends."""

Event: TypeAlias = (
    Started | Partial | Completed | Untranscribed | Lost | Away | Back | Control
)


def text_of(words: Iterable[CaptionWord]) -> str:
    """Join words, without surrounding blanks."""
    return "".join(word.text for word in words).strip()


def as_json(event: Event) -> dict[str, Any]:
    """Return an event as it stands in a JSON Lines file or goes over a socket."""
    fields = _round_numbers(asdict(event))
    wall_s = fields.pop("wall_s", None)
    if wall_s is not None:
        time_of_day = datetime.fromtimestamp(wall_s).astimezone()
        fields["at"] = time_of_day.isoformat(timespec="milliseconds")
    if isinstance(event, Partial | Completed):
        fields["text"] = event.text
    if isinstance(event, Partial):
        fields["committed_text"] = event.committed_text
    return {"event": event.name, **fields}


def _round_numbers(value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Round numbers to meaningful digits and drop fields that are `None`."""
    if isinstance(value, dict):
        fields = {name: _round_numbers(part) for name, part in value.items()}
        # `probability: null` says that the recogniser gives none.
        return {
            name: part
            for name, part in fields.items()
            if part is not None or name == "probability"
        }
    if isinstance(value, tuple):
        return tuple(map(_round_numbers, value))
    return round(value, 4) if isinstance(value, float) else value


class Moment(TypedDict):
    """The fields of `StreamEvent`."""

    start_s: float
    heard_s: float
    at_s: float
    wall_s: float


class StreamClock:
    """Knows when each sample of a stream was captured.

    `now` is a monotonic clock in seconds, `wall` has the seconds since 1970.
    """

    def __init__(
        self, now: Callable[[], float], wall: Callable[[], float] = time.time
    ) -> None:
        self.now = now
        self._wall = wall
        self._began_s = now()
        self._began_wall_s = wall()
        self._captured_s: float | None = (
            None  # when the stream's sample 0 would have been
        )

    @property
    def is_live(self) -> bool:
        """Whether the stream's samples have capture times."""
        return self._captured_s is not None

    def note_capture(self, captured_s: float, n_samples: int) -> None:
        """Note that `n_samples` of the stream had been captured at a time of `now`."""
        self._captured_s = captured_s - n_samples / SAMPLE_RATE_HZ

    def since(self, sample: int) -> float | None:
        """Return the seconds since the capture of a sample; `None` if the stream is not live."""
        if self._captured_s is None:
            return None
        return self.now() - (self._captured_s + sample / SAMPLE_RATE_HZ)

    def moment(self, start_s: float, heard_s: float) -> Moment:
        """Return the times of an event at `start_s` of a stream that has come to `heard_s`.

        Audio that is not live counts as said at its own speed, from when the clock began.
        """
        wall_s = self._began_wall_s + start_s
        if self._captured_s is not None:
            wall_s = self._wall() - (self.now() - (self._captured_s + start_s))
        at_s = self.now() - self._began_s
        return {"start_s": start_s, "heard_s": heard_s, "at_s": at_s, "wall_s": wall_s}
