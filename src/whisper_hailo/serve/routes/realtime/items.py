"""Items of a realtime session: what was said in one go, and the events that announce its text.

All but `ItemTranscriber.cancel` runs on one thread at a time, which is not the event loop's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    UNSPACED_LANGUAGES,
    FloatArray,
    Word,
)
from whisper_hailo.live.events import CaptionWord, Completed, Event, Partial, Started
from whisper_hailo.serve.access import error_body
from whisper_hailo.serve.audio import check_duration
from whisper_hailo.serve.errors import BusyError, ClientDisconnectedError
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.serve.request import Caller
from whisper_hailo.serve.routes.openai import list_languages, word_logprobs
from whisper_hailo.serve.routes.realtime.message_queue import PIECE_BYTES
from whisper_hailo.serve.routes.realtime.protocol import (
    MIN_COMMIT_S,
    ClientMessage,
    MessageKind,
    ServerEvent,
    empty_commit_error,
    error_event,
)
from whisper_hailo.serve.routes.realtime.sample_formats import make_sample_stream
from whisper_hailo.serve.routes.realtime.settings import RealtimeSettings
from whisper_hailo.serve.routes.realtime.states import (
    TRANSITIONS,
    ItemEvent,
    ItemState,
    make_state_error,
)
from whisper_hailo.serve.routes.state_machine import StateMachine
from whisper_hailo.serve.service import TranscriptionService

_MAX_WHOLE_S: Final = 60.0
"""Longer items keep the text of captions: they would be long in coming, and take memory."""

_BUFFER: Final = "input_audio_buffer."
_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription."


@dataclass(slots=True)
class _Item:
    """What was said in one go.

    Attributes:
        settled_text: text of its segments that are over.
        sent_text: as much of its text as was sent.
        space: what separates its next segment from its text.
        languages: codes of its segments, in the order in which they came.
    """

    item_id: str = field(default_factory=lambda: f"item_{secrets.token_hex(10)}")
    settled_text: str = ""
    sent_text: str = ""
    space: str = ""
    words: list[CaptionWord | Word] = field(default_factory=list)
    seconds: float = 0.0
    languages: list[str] = field(default_factory=list)

    def event(self, kind: str, **fields: Any) -> ServerEvent:  # noqa: ANN401 - of JSON
        return {"type": kind, "item_id": self.item_id, **fields}


class _WholeAudio:
    """The sound of an item, as long as it is short enough to be transcribed again as a whole.

    Attributes:
        is_whole: all sound is kept.
    """

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation
        self._pieces: list[FloatArray] = []
        self._n_samples = 0
        self.is_whole = True

    def add(self, samples: FloatArray) -> None:
        """Keep `(n_samples,)` at 16 kHz, unless the item is too long already."""
        self._n_samples += samples.size
        if not self.is_whole:
            return
        if self._n_samples > _MAX_WHOLE_S * SAMPLE_RATE_HZ:
            self._give_up()
            return
        try:
            self._reservation.take(samples.nbytes)
        except BusyError:  # captions need no more than they have
            self._give_up()
        else:
            self._pieces.append(samples)

    def _give_up(self) -> None:
        self.is_whole = False
        self.drop()

    def join(self) -> FloatArray:
        """Return `(n_samples,)` of all sound."""
        return np.concatenate(self._pieces)

    def drop(self) -> None:
        """Forget the sound."""
        self._pieces.clear()
        self._reservation.close()


class ItemTranscriber:
    """Transcribes one session; each call's events come as soon as they are known.

    With turns found by the server each segment of speech is an item; otherwise all sound between
    two commits is one. While it goes on its text is that of captions. At the end a short one is
    transcribed as a whole, like an upload: captions stand by words before they have heard the next
    ones.
    """

    def __init__(
        self, service: TranscriptionService, caller: Caller, settings: RealtimeSettings
    ) -> None:
        self._service = service
        self._caller = caller
        self._machine = StateMachine(ItemState.IDLE, TRANSITIONS, make_state_error)
        self._item: _Item | None = None
        self._previous_id: str | None = None
        self._received_s = 0.0  # length of all sound of the session
        self._begin_s = 0.0  # where the captioner began in it
        self._whole = _WholeAudio(Reservation(service.quota))
        self._use_settings(settings)

    def process_message(self, message: ClientMessage) -> Iterator[ServerEvent]:
        """Do what a message asks for, and yield the events that answer it.

        Raises:
            SessionError: the message asks for what cannot be done; the session goes on.
            ClientDisconnectedError: the client left.
        """
        match message.kind:
            case MessageKind.APPEND:
                yield from self._transcribe_sound(bytes(message.sound))
            case MessageKind.COMMIT:
                yield from self._commit_item()
            case MessageKind.CLEAR:
                self._reset_item()
                yield {"type": _BUFFER + "cleared"}
            case MessageKind.UPDATE:
                yield from self._update_settings(message)
            case _:
                if message.error is not None:
                    raise message.error

    def finish(self) -> Iterator[ServerEvent]:
        """End what is being said, and begin with a new captioner."""
        item = self._item
        if item is None:
            return
        is_committed = not self.settings.detects_turns
        if is_committed:
            # The client knows the item before its last words are transcribed.
            self._machine.process(ItemEvent.COMMIT)
            yield from self._commit_events(item)
        rest = self._samples.finish()
        if is_committed and self._whole.is_whole:
            self._whole.add(rest)
            yield from self._report_failure(self._transcribe_whole(item))
        else:
            yield from self._transcribe_captions(self._captioner.feed(rest))
            yield from self._transcribe_captions(self._captioner.finish())
        # A failure has reset it, and the client knows.
        if is_committed and self._machine.state is ItemState.COMMITTED:
            yield self._complete_item(item)
        self._reset_item()

    def cancel(self) -> None:
        """Give up the work under way: the client left. From any thread."""
        self._machine.process(ItemEvent.CANCEL)
        self._recognizer.cancel()

    def close(self) -> None:
        """Give back the room of what was not transcribed."""
        self._whole.drop()

    def _transcribe_sound(self, sound: bytes) -> Iterator[ServerEvent]:
        for begin in range(0, len(sound), PIECE_BYTES):
            self._machine.process(ItemEvent.SOUND)
            piece = sound[begin : begin + PIECE_BYTES]
            received_s = self._received_s + self._samples.seconds_of(len(piece))
            if not self.settings.detects_turns:
                check_duration(
                    received_s - self._begin_s, self._service.limits.max_audio_s
                )
                if self._item is None:
                    self._open_item()
            self._received_s = received_s
            samples = self._samples.push(piece)
            if not self.settings.detects_turns:
                self._whole.add(samples)
            yield from self._transcribe_captions(self._captioner.feed(samples))

    def _commit_item(self) -> Iterator[ServerEvent]:
        if self._item is None:
            raise make_state_error(self._machine.state, ItemEvent.COMMIT)
        seconds = self._received_s - self._begin_s
        if seconds < MIN_COMMIT_S:
            raise empty_commit_error(seconds)
        yield from self.finish()

    def _update_settings(self, message: ClientMessage) -> Iterator[ServerEvent]:
        """Change settings; what is being said ends under the old ones."""
        before = self.settings
        settings = before.with_changes(message.changes)
        yield from self.finish()
        try:
            self._use_settings(settings)
        except WhisperHailoError:
            self._use_settings(before)
            raise

    def _use_settings(self, settings: RealtimeSettings) -> None:
        self._recognizer = self._service.make_recognizer(settings.choices, self._caller)
        self.settings = settings
        self._reset_item()

    def _reset_item(self) -> None:
        """Drop the item and all sound that was not transcribed."""
        self._machine.process(ItemEvent.RESET)
        self._item = None
        sample_format = self.settings.input.format
        self._samples = make_sample_stream(sample_format.type, sample_format.rate_hz)
        self._captioner = self.settings.make_captioner(self._recognizer)
        self._whole.drop()
        self._whole = _WholeAudio(Reservation(self._service.quota))
        self._begin_s = self._received_s

    def _open_item(self) -> _Item:
        self._machine.process(ItemEvent.SPEECH)
        self._item = _Item()
        return self._item

    def _transcribe_captions(self, captions: Iterator[Event]) -> Iterator[ServerEvent]:
        """Yield the events of captions; their failure is that of the item."""
        yield from self._report_failure(
            event for caption in captions for event in self._events_of(caption)
        )

    def _transcribe_whole(self, item: _Item) -> Iterator[ServerEvent]:
        """Transcribe all sound of an item, and yield what its text has in addition."""
        audio = self._whole.join()
        self._whole.drop()
        if not audio.size:
            return
        choices = replace(
            self.settings.choices, word_timestamps=bool(self.settings.include)
        )
        transcript = self._recognizer.transcribe_item(audio, choices)
        text = transcript.text
        sent_text = item.sent_text
        if text.startswith(sent_text) and text != sent_text:
            new = text[len(sent_text) :]
            yield item.event(_TRANSCRIPTION + "delta", content_index=0, delta=new)
        # Where it does not, the client learns the text with the end of the item.
        item.sent_text = text
        item.words = [word for segment in transcript.segments for word in segment.words]
        item.seconds = audio.size / SAMPLE_RATE_HZ
        item.languages = list(transcript.languages) if text else []

    def _report_failure(self, events: Iterator[ServerEvent]) -> Iterator[ServerEvent]:
        """Yield events; a failure is that of the item."""
        try:
            yield from events
        except ClientDisconnectedError:
            raise
        except WhisperHailoError as error:
            self._service.metrics.count_failure(error)
            yield from self._fail_item(error)
            self._reset_item()

    def _fail_item(self, error: WhisperHailoError) -> Iterator[ServerEvent]:
        item = self._item
        if item is None:  # it was completed with what is known
            yield error_event(error, None)
            return
        if self.settings.detects_turns:
            yield from self._commit_events(item, self._received_s)
        failure = error_body(error)["error"]
        self._record_item(item, error)
        yield item.event(_TRANSCRIPTION + "failed", content_index=0, error=failure)

    def _events_of(self, caption: Event) -> Iterator[ServerEvent]:
        item = self._item
        if isinstance(caption, Started):
            if self.settings.detects_turns:
                item = self._open_item()
                start_ms = round((self._begin_s + caption.start_s) * 1000)
                yield item.event(_BUFFER + "speech_started", audio_start_ms=start_ms)
        elif isinstance(caption, Partial):
            if item is not None:
                yield from self._delta_events(item, caption.committed_text)
        elif isinstance(caption, Completed) and item is not None:
            yield from self._settle_segment(item, caption)

    def _settle_segment(self, item: _Item, segment: Completed) -> Iterator[ServerEvent]:
        """Add a segment to its item, which is over with it if the server found its end."""
        detects_turns = self.settings.detects_turns
        if detects_turns:
            self._machine.process(ItemEvent.COMMIT)
            yield from self._commit_events(item, self._begin_s + segment.end_s)
        yield from self._delta_events(item, segment.text)
        item.settled_text = item.sent_text
        item.words += segment.words
        item.seconds += segment.end_s - segment.start_s
        if segment.language not in item.languages:
            item.languages.append(segment.language)
        has_spaces = segment.language not in UNSPACED_LANGUAGES
        item.space = " " if has_spaces and item.settled_text else ""
        if detects_turns:
            yield self._complete_item(item)

    def _commit_events(
        self, item: _Item, end_s: float | None = None
    ) -> Iterator[ServerEvent]:
        """Yield what announces an item, and the end of its speech if the server found it."""
        if end_s is not None:
            yield item.event(
                _BUFFER + "speech_stopped", audio_end_ms=round(end_s * 1000)
            )
        previous = {"previous_item_id": self._previous_id}
        description = {
            "id": item.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        yield item.event(_BUFFER + "committed", **previous)
        yield {"type": "conversation.item.added", **previous, "item": description}
        yield {"type": "conversation.item.done", **previous, "item": description}
        self._previous_id = item.item_id

    def _delta_events(self, item: _Item, segment_text: str) -> Iterator[ServerEvent]:
        """Yield what is new in an item's text, by the text of its last segment."""
        if not segment_text:
            return
        text = item.settled_text + item.space + segment_text
        new = text[len(item.sent_text) :]
        item.sent_text = text
        if new:
            yield item.event(_TRANSCRIPTION + "delta", content_index=0, delta=new)

    def _complete_item(self, item: _Item) -> ServerEvent:
        """Return the event with the whole text of an item, which is over."""
        self._machine.process(ItemEvent.COMPLETE)
        self._item = None
        self._record_item(item)
        fields: dict[str, Any] = {
            "content_index": 0,
            "transcript": item.sent_text,
            "languages": list_languages(item.languages),
            "usage": {"type": "duration", "seconds": round(item.seconds, 3)},
        }
        if self.settings.include:
            fields["logprobs"] = word_logprobs(item.words)
        return item.event(_TRANSCRIPTION + "completed", **fields)

    def _record_item(self, item: _Item, failure: Exception | None = None) -> None:
        self._recognizer.model.record_item(
            self._caller,
            item.seconds,
            item.languages[-1] if item.languages else "",
            item.sent_text,
            failure,
        )
