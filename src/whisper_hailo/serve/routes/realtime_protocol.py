"""What a realtime client says: messages, settings of the session, and formats of sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whisper_hailo.audio.vad import make_detector
from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.engine import CaptionEngine
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.serve.access import error_body
from whisper_hailo.serve.audio import FULL_SCALE, SampleStream
from whisper_hailo.serve.request import Choices, join_hotwords, single_language

MOST_BYTES: Final = 21 << 20
"""Of a message: 15 MiB of sound in base 64, as OpenAI's API takes it, and what is around it."""

_MOST_SETTINGS: Final = 64 << 10
_OVERHEAD_BYTES: Final = 256  # of a message that waits, however short it is

APPEND, COMMIT = "input_audio_buffer.append", "input_audio_buffer.commit"
CLEAR, UPDATE = "input_audio_buffer.clear", "session.update"


class SessionError(OptionError):
    """An error of a message, `param` in the client's words, after which the session goes on."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = "invalid_value"
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code

    @classmethod
    def of(cls, error: ValidationError, *place: str) -> Self:
        """Return the first fault that was found in a value, which is at some place of a message."""
        first = error.errors(include_input=False, include_url=False)[0]
        param = ".".join([*place, *map(str, first["loc"])]) or None
        return cls(f"{param or 'message'}: {first['msg']}", param)


@dataclass(slots=True)
class ClientMessage:
    """A message of a client, and how many bytes it takes as long as it waits; or its error."""

    kind: str
    event_id: str | None = None
    n_bytes: int = 0
    sound: bytearray = field(default_factory=bytearray)
    changes: Mapping[str, Any] = field(default_factory=dict)
    error: WhisperHailoError | None = None


class _Id(BaseModel):
    event_id: str | None = Field(None, max_length=128)


class _Event(_Id):
    model_config = ConfigDict(val_json_bytes="base64")

    type: Literal[
        "session.update",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input_audio_buffer.clear",
    ]
    audio: bytes | None = None
    session: dict[str, Any] | None = None


def parse_message(text: str | None) -> ClientMessage:
    """Parse a message; `None` is one that is no text."""
    text = text or ""
    try:
        event = _Event.model_validate_json(text)
        needed = {APPEND: "audio", UPDATE: "session"}.get(event.type, "type")
        if getattr(event, needed) is None:
            raise SessionError(f"{needed} is missing, which {event.type} needs", needed)
        if event.type == UPDATE and len(text) > _MOST_SETTINGS:
            raise SessionError(f"session has more than {_MOST_SETTINGS >> 10} KiB", "session")
    except (ValidationError, SessionError) as error:
        try:
            event_id = _Id.model_validate_json(text).event_id
        except ValidationError:
            event_id = None
        wrong = SessionError.of(error) if isinstance(error, ValidationError) else error
        return ClientMessage("", event_id, _OVERHEAD_BYTES, error=wrong)
    sound = bytearray(event.audio or b"")
    n_bytes = (len(sound) if event.type == APPEND else len(text)) + _OVERHEAD_BYTES
    return ClientMessage(event.type, event.event_id, n_bytes, sound, event.session or {})


def error_event(error: WhisperHailoError, event_id: str | None) -> dict[str, Any]:
    """Return the event of an error after which the session goes on."""
    own = error if isinstance(error, SessionError) else None
    body = error_body(error, own.param if own else None)["error"]
    code = own.code if own else body["code"] or getattr(error, "kind", "invalid_value")
    return {"type": "error", "error": {**body, "code": code, "event_id": event_id}}


PCM, PCMU, PCMA = "audio/pcm", "audio/pcmu", "audio/pcma"


def sample_stream(kind: str) -> SampleStream:
    """Return the decoder of a format."""
    return SampleStream(24_000 if kind == PCM else 8_000, table=_TABLES.get(kind))


def _mu_law() -> FloatArray:
    """Return the samples of all bytes (ITU-T G.711, table 2a)."""
    code = ~np.arange(256) & 0xFF
    size = ((((code & 15) << 3) + 132) << ((code >> 4) & 7)) - 132
    return np.where(code & 128, -size, size).astype(np.float32) / FULL_SCALE


def _a_law() -> FloatArray:
    """Return the samples of all bytes (ITU-T G.711, table 1a)."""
    code = np.arange(256) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, code & 15
    size = np.where(exponent == 0, (mantissa << 4) + 8, (mantissa << 4) + 264)
    size <<= np.maximum(exponent - 1, 0)
    return np.where(code & 128, size, -size).astype(np.float32) / FULL_SCALE


_TABLES: Final = {PCMU: _mu_law(), PCMA: _a_law()}

_MIN_PARTIAL_S: Final = 0.5
"""Only committed words are sent, and a word is committed after two seconds at the earliest."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Format(_Part):
    """How samples are sent: 16-bit PCM at 24 kHz, or G.711 at 8 kHz."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[24000] | None = None


class Transcription(_Part):
    """What is asked of the model."""

    model: str
    language: str | None = None
    languages: list[str] | None = None
    prompt: str | None = None
    keywords: list[str] | None = None
    delay: str | None = None


class TurnDetection(_Part):
    """How the server finds the end of what is said."""

    type: Literal["server_vad"]
    threshold: float = Field(default=0.5, gt=0, le=1)
    prefix_padding_ms: int = Field(default=300, ge=0, le=30_000)
    silence_duration_ms: int = Field(default=500, ge=32, le=30_000)
    create_response: bool | None = None
    interrupt_response: bool | None = None
    idle_timeout_ms: None = None


class AudioInput(_Part):
    """All of what is heard."""

    format: Format = Format(rate=24_000)
    noise_reduction: dict[str, Any] | None = None
    transcription: Transcription
    turn_detection: TurnDetection | None = TurnDetection(type="server_vad")

    @model_validator(mode="after")
    def _as_it_is_heard(self) -> Self:
        """Note that noise is not reduced, and that PCM has its rate."""
        self.noise_reduction = None
        if self.format.type == PCM:
            self.format = Format(rate=24_000)
        return self


class _Audio(_Part):
    input: AudioInput


class RealtimeSettings(_Part):
    """The session object of OpenAI's API, as far as it concerns transcription."""

    type: Literal["transcription"] = "transcription"
    audio: _Audio
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None

    @classmethod
    def of(cls, model: str) -> Self:
        """Return the settings of a new client."""
        return cls(audio=_Audio(input=AudioInput(transcription=Transcription(model=model))))

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """Return the settings with a client's changes; what is not among them stays."""
        try:
            return type(self).model_validate(_merge_objects(self.model_dump(), changes))
        except ValidationError as error:
            raise SessionError.of(error, "session") from None

    @property
    def input(self) -> AudioInput:
        return self.audio.input

    @property
    def detects_turns(self) -> bool:
        """Whether the server finds the end of what is said, not the client."""
        return self.input.turn_detection is not None

    @property
    def choices(self) -> Choices:
        asked = self.input.transcription
        return Choices(
            model=asked.model,
            language=asked.language or single_language(asked.languages or ()),
            prompt=asked.prompt,
            hotwords=join_hotwords(asked.keywords or ()),
        )

    def captioner(self, engine: CaptionEngine) -> Captioner:
        """Return a new captioner; without turns all is speech, until the client ends it."""
        turns = self.input.turn_detection
        if turns is None:
            options = CaptionOptions(min_speech_s=0.0, pre_roll_s=0.0, min_partial_s=_MIN_PARTIAL_S)
            return Captioner(engine, _AllSpeech(), options)
        options = CaptionOptions(
            vad_threshold=turns.threshold,
            min_silence_s=turns.silence_duration_ms / 1000,
            pre_roll_s=turns.prefix_padding_ms / 1000,
            min_partial_s=_MIN_PARTIAL_S,
        )
        return Captioner(engine, make_detector(), options)


class _AllSpeech:
    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        del frame
        return 1.0


def _merge_objects(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested objects; a format is replaced as a whole."""
    merged = dict(old)
    for name, new in changes.items():
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(new, Mapping) and name != "format"
        merged[name] = _merge_objects(before, new) if both else new  # type: ignore[arg-type]
    return merged
