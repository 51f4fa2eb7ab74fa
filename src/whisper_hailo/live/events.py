"""What captioning tells: segments and their text, lost audio, an absent source, what users set.

`docs/reference/caption-events.md` has what holds for every stream of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

Reason: TypeAlias = Literal["silence", "turn", "length", "loss", "away", "end"]
"""Why a segment was completed: a pause, another speaker, its greatest length, lost audio, a source
that went away, the end of the stream."""


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A word as it is shown.

    Attributes:
        text: with its leading blank.
        probability: in [0, 1]; `None` where the engine does not say.
        start_s: where it begins in the stream; `None` in partials, and where the engine does not
            say.
        end_s: likewise, where it ends.
    """

    text: str
    probability: float | None = None
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """Speech has begun.

    Attributes:
        segment_id: 0 for the first segment.
        start_s: where the segment begins in the stream, pre-roll included.
        heard_s: how far the stream has come, in seconds.
        at_s: when this was told, on a clock that began with the captioner.
        wall_s: when `start_s` was said, in seconds since 1970; see `live.clock`.
        speaker: channel that is louder than the others; `None` where they are not told apart.
    """

    segment_id: int
    start_s: float
    heard_s: float
    at_s: float
    wall_s: float | None = None
    speaker: int | None = None


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
        wall_s: as in `Started`.
        language: code; of the whole segment, as far as it was heard.
        speaker: as in `Started`.
    """

    segment_id: int
    start_s: float
    end_s: float
    committed: tuple[CaptionWord, ...]
    tentative: tuple[CaptionWord, ...]
    n_skipped: int
    heard_s: float
    at_s: float
    language: str = ""
    wall_s: float | None = None
    speaker: int | None = None

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
        wall_s: as in `Started`.
        translation: the same in English, where that was asked for.
        speaker: as in `Started`.
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
    wall_s: float | None = None
    translation: str | None = None
    speaker: int | None = None

    @property
    def text(self) -> str:
        """The words, as one text."""
        return text_of(self.words)


@dataclass(frozen=True, slots=True)
class Unheard:
    """A stretch of the stream that was lost.

    Attributes:
        start_s: where it begins in the stream.
        end_s: where it ends, and hearing goes on.
        heard_s: as in `Started`.
        at_s: when this was told.
        wall_s: as in `Started`.
    """

    start_s: float
    end_s: float
    heard_s: float
    at_s: float
    wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Lost(Unheard):
    """Too much waited, and it could not."""


@dataclass(frozen=True, slots=True)
class Away:
    """The source gives nothing any more, and is opened again and again; or somebody paused it.

    Attributes:
        start_s: how far the stream had come.
        why: what is wrong, in words for the user.
        heard_s: as in `Started`.
        at_s: when this was told.
        wall_s: as in `Started`.
        paused: nothing is wrong: it is not to be heard.
    """

    start_s: float
    why: str
    heard_s: float
    at_s: float
    wall_s: float | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Back(Unheard):
    """The source gives sound again; it was away since the `Away` before, where this begins.

    Attributes:
        paused: somebody had paused it.
    """

    paused: bool = False


@dataclass(frozen=True, slots=True)
class Marker:
    """Somebody marked a place of the stream.

    Attributes:
        start_s: how far the stream had come.
        label: what they called it; may be empty.
        heard_s: as in `Started`.
        at_s: when this was told.
        wall_s: as in `Started`.
    """

    start_s: float
    label: str
    heard_s: float
    at_s: float
    wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Cleared:
    """What is shown is to be taken away; what is written stays.

    Attributes:
        start_s: how far the stream had come.
        heard_s: as in `Started`.
        at_s: when this was told.
        wall_s: as in `Started`.
    """

    start_s: float
    heard_s: float
    at_s: float
    wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Somebody changed how is heard, from the next segment on.

    Attributes:
        start_s: how far the stream had come.
        settings: all that can be changed, by name.
        heard_s: as in `Started`.
        at_s: when this was told.
        wall_s: as in `Started`.
    """

    start_s: float
    settings: dict[str, float | str]
    heard_s: float
    at_s: float
    wall_s: float | None = None


Control: TypeAlias = Marker | Cleared | Settings
"""Told because somebody asked for it; it begins and ends nothing."""

Event: TypeAlias = Started | Partial | Completed | Lost | Away | Back | Control


def text_of(words: Iterable[CaptionWord]) -> str:
    """Words joined, without surrounding blanks."""
    return "".join(word.text for word in words).strip()


def as_json(event: Event) -> dict[str, Any]:
    """An event as it stands in a JSON Lines file or goes over a socket."""
    fields = _rounded(asdict(event))
    wall_s = fields.pop("wall_s", None)
    if wall_s is not None:
        fields["at"] = (
            datetime.fromtimestamp(wall_s).astimezone().isoformat(timespec="milliseconds")
        )
    if isinstance(event, Partial):
        fields["text"], fields["committed_text"] = event.text, event.committed_text
    elif isinstance(event, Completed):
        fields["text"] = event.text
    return {"event": type(event).__name__.lower(), **fields}


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers with as many digits as mean something; what is not known has no field."""
    for words in ("committed", "tentative", "words"):
        if words in fields:
            fields[words] = tuple(map(_rounded, fields[words]))
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in fields.items()
        if value is not None or name == "probability"
    }
