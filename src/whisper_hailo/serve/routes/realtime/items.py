"""What is heard in a realtime session, as items and events of OpenAI's API."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import UNSPACED_LANGUAGES
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, Started
from whisper_hailo.serve.access import body_of
from whisper_hailo.serve.audio import expect_seconds
from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.request import Caller, StreamItemResult
from whisper_hailo.serve.routes.openai import word_logprobs
from whisper_hailo.serve.routes.realtime.protocol import (
    RealtimeSettings,
    SessionError,
    Sound,
    error_event,
)
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.serve.worker import EngineCaptions

ServerEvent: TypeAlias = dict[str, Any]
"""An event of the API, but for its id."""

_LEAST_S: Final = 0.1
"""Less is no recording."""

_BUFFER: Final = "input_audio_buffer."
_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription."


def new_id(kind: str) -> str:
    """Return a unique id."""
    return f"{kind}_{secrets.token_hex(10)}"


@dataclass(slots=True)
class _Item:
    """What was said in one go.

    Attributes:
        text: of its segments that are over.
        told: what the client was told of its text.
        language: code of the last of them.
    """

    item_id: str = field(default_factory=lambda: new_id("item"))
    text: str = ""
    told: str = ""
    words: list[CaptionWord] = field(default_factory=list)
    seconds: float = 0.0
    language: str = ""
    blank: str = ""


class Items:
    """Hears one session; each call's events come as soon as they are known.

    With turns found by the server each segment of speech is an item; otherwise all that comes
    between two commits is one. All but `leave` is called on one thread at a time.
    """

    def __init__(
        self, service: TranscriptionService, caller: Caller, settings: RealtimeSettings
    ) -> None:
        self._service = service
        self._caller = caller
        self._captions: EngineCaptions | None = None
        self._item: _Item | None = None
        self._left = False
        self._previous: str | None = None
        self._sound_s = 0.0  # of the whole session, up to the last sample that came,
        self._begin_s = 0.0  # and where the captioner began
        self._use(settings)

    def hear(self, raw: bytes) -> Iterator[ServerEvent]:
        """Take some sound."""
        sound_s = self._sound_s + self._sound.seconds(len(raw))
        if not self.settings.detects_turns:
            expect_seconds(sound_s - self._begin_s, self._service.limits.seconds)
            self._item = self._item or _Item()
        self._sound_s = sound_s
        yield from self._guarded(self._captioner.feed(self._sound.push(raw)))

    def commit(self) -> Iterator[ServerEvent]:
        """End what is being said."""
        seconds = 0.0 if self._item is None else self._sound_s - self._begin_s
        if seconds < _LEAST_S:
            raise SessionError(
                f"the buffer holds {seconds * 1000:.0f} ms of sound, expected "
                f"{_LEAST_S * 1000:g} ms or more; append some before you commit",
                code="input_audio_buffer_commit_empty",
            )
        yield from self._end()

    def clear(self) -> Iterator[ServerEvent]:
        """Forget what is being said."""
        self._begin()
        yield {"type": _BUFFER + "cleared"}

    def update(self, settings: RealtimeSettings) -> Iterator[ServerEvent]:
        """Change the settings; what is being said ends under the old ones."""
        before = self.settings
        if self._item is not None:
            yield from self._end()
        try:
            self._use(settings)
        except WhisperHailoError:
            self._use(before)
            raise

    def finish(self) -> Iterator[ServerEvent]:
        """No more sound follows: what was being said ends here."""
        if self._item is not None:
            yield from self._end()

    def leave(self) -> None:
        """Give up the running work: the client has gone. From any thread."""
        self._left = True
        if self._captions is not None:
            self._captions.leave()

    def _use(self, settings: RealtimeSettings) -> None:
        captions = self._service.captions(settings.choices, self._caller)
        self.settings, self._captions = settings, captions
        self._begin()

    def _begin(self) -> None:
        """Begin a new captioner."""
        if self._captions is None or self._left:
            raise ClientDisconnectedError("the client left")
        self._sound = Sound(self.settings.input.format.type)
        self._captioner = Captioner(
            self._captions, self.settings.detector(), self.settings.captions
        )
        self._begin_s = self._sound_s
        self._item = None

    def _end(self) -> Iterator[ServerEvent]:
        """End what is being said, and begin a new captioner."""
        if not self.settings.detects_turns and self._item is not None:
            yield from self._committed(self._item)
        yield from self._guarded(self._captioner.feed(self._sound.finish()))
        yield from self._guarded(self._captioner.finish())
        if not self.settings.detects_turns and self._item is not None:
            yield self._completed(self._item)
        self._begin()

    def _guarded(self, events: Iterator[Event]) -> Iterator[ServerEvent]:
        """Send the captioner's events; its failure is that of the item."""
        try:
            for event in events:
                yield from self._send(event)
        except ClientDisconnectedError:
            raise
        except WhisperHailoError as error:
            self._service.metrics.failed(error)
            item = self._item
            if item is None:  # it was completed with what is known
                yield error_event(error, None)
            else:
                if self.settings.detects_turns:
                    yield from self._stopped(item, self._sound_s)
                failure = body_of(error)["error"]
                self._note(item, error)
                yield self._of(item, _TRANSCRIPTION + "failed", content_index=0, error=failure)
            self._begin()

    def _send(self, event: Event) -> Iterator[ServerEvent]:
        if isinstance(event, Started) and self.settings.detects_turns:
            self._item = _Item()
            at = self._milliseconds(event.start_s)
            yield self._of(self._item, _BUFFER + "speech_started", audio_start_ms=at)
        elif isinstance(event, Partial) and self._item is not None:
            yield from self._delta(self._item, event.committed_text)
        elif isinstance(event, Completed) and self._item is not None:
            yield from self._segment(self._item, event)

    def _segment(self, item: _Item, event: Completed) -> Iterator[ServerEvent]:
        """A segment is over, and where the server finds the turns its item, too."""
        turns = self.settings.detects_turns
        if turns:
            yield from self._stopped(item, self._begin_s + event.end_s)
        yield from self._delta(item, event.text)
        item.text = item.told
        item.words += event.words
        item.seconds += event.end_s - event.start_s
        item.language = event.language
        item.blank = "" if event.language in UNSPACED_LANGUAGES or not item.text else " "
        if turns:
            yield self._completed(item)
            self._item = None

    def _stopped(self, item: _Item, end_s: float) -> Iterator[ServerEvent]:
        at = round(end_s * 1000)
        yield self._of(item, _BUFFER + "speech_stopped", audio_end_ms=at)
        yield from self._committed(item)

    def _committed(self, item: _Item) -> Iterator[ServerEvent]:
        """An item is there, before its text."""
        before = {"previous_item_id": self._previous}
        content = {"type": "input_audio", "transcript": None}
        whole = {
            "id": item.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [content],
        }
        yield self._of(item, _BUFFER + "committed", **before)
        for kind in ("added", "done"):
            yield {"type": f"conversation.item.{kind}", **before, "item": whole}
        self._previous = item.item_id

    def _delta(self, item: _Item, text: str) -> Iterator[ServerEvent]:
        """Send what is new in an item's text, whose last segment is this one."""
        whole = item.text + item.blank + text if text else item.told
        new, item.told = whole[len(item.told) :], whole
        if new:
            yield self._of(item, _TRANSCRIPTION + "delta", content_index=0, delta=new)

    def _completed(self, item: _Item) -> ServerEvent:
        self._note(item)
        told = {
            "content_index": 0,
            "transcript": item.told,
            "usage": {"type": "duration", "seconds": round(item.seconds, 3)},
        }
        if self.settings.logprobs:
            told["logprobs"] = word_logprobs(item.words)
        return self._of(item, _TRANSCRIPTION + "completed", **told)

    def _note(self, item: _Item, failure: Exception | None = None) -> None:
        heard = StreamItemResult(self._caller, item.seconds, item.language, item.told, failure)
        self._service.record_item(self.settings.choices, heard)

    def _milliseconds(self, place_s: float) -> int:
        """A place of the captioner's stream in the whole session."""
        return round((self._begin_s + place_s) * 1000)

    @staticmethod
    def _of(item: _Item, kind: str, **fields: Any) -> ServerEvent:  # noqa: ANN401 - as JSON has them
        return {"type": kind, "item_id": item.item_id, **fields}
