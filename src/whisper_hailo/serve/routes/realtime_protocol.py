"""What a realtime client says: messages, settings of the session, and formats of sound."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from whisper_hailo.audio.vad import SileroDetector, SpeechDetector
from whisper_hailo.core.errors import OptionError, WhisperHailoError
from whisper_hailo.core.strict_json import MismatchError, parse_json
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.serve.access import body_of
from whisper_hailo.serve.audio import FULL_SCALE, SampleStream
from whisper_hailo.serve.request import Choices, only_language

MOST_BYTES: Final = 21 << 20
"""Of a message: 15 MiB of sound in base 64, as OpenAI's API takes it, and what is around it."""

_MOST_SETTINGS: Final = 64 << 10
_MOST_ID: Final = 128
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


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """A message of a client, and how many bytes it takes as long as it waits; or its error."""

    kind: str
    event_id: str | None = None
    n_bytes: int = 0
    sound: bytes = b""
    changes: Mapping[str, Any] | None = None
    wrong: WhisperHailoError | None = None


def parse_message(text: str | None) -> ClientMessage:
    """Parse a message; `None` is one that is no text."""
    size = len(text or "") + _OVERHEAD_BYTES
    event_id: str | None = None
    try:
        content = parse_json((text or "").encode(errors="surrogatepass"))
        if not isinstance(content, dict):
            raise SessionError("a message is no object, expected an event", None)
        given = content.get("event_id")
        event_id = given[:_MOST_ID] if isinstance(given, str) else None
        kind = content.get("type")
        if kind == UPDATE:
            return ClientMessage(kind, event_id, size, changes=_changes(content, size))
        if kind == APPEND:
            sound = _sound(content.get("audio"))
            return ClientMessage(kind, event_id, len(sound) + _OVERHEAD_BYTES, sound)
        if kind in (COMMIT, CLEAR):
            return ClientMessage(kind, event_id, size)
        known = ", ".join((UPDATE, APPEND, COMMIT, CLEAR))
        raise SessionError(f"type is {str(kind)[:60]!r}, expected {known}", "type")
    except MismatchError as error:
        wrong = SessionError(f"a message is {error}, expected an event as text", None)
    except SessionError as error:
        wrong = error
    return ClientMessage("", event_id, size, wrong=wrong)


def _changes(content: Mapping[str, Any], size: int) -> dict[str, Any]:
    session = content.get("session")
    if not isinstance(session, dict):
        raise SessionError("session is no object, expected settings", "session")
    if size > _MOST_SETTINGS:
        raise SessionError(f"session has more than {_MOST_SETTINGS >> 10} KiB", "session")
    try:
        json.dumps(session, ensure_ascii=False).encode()
    except ValueError:
        raise SessionError("session has half a character in it", "session") from None
    return session


def _sound(audio: object) -> bytes:
    try:
        return base64.b64decode(audio, validate=True)  # type: ignore[arg-type]  # a TypeError
    except (TypeError, ValueError):
        raise SessionError("audio is no text in base 64", "audio") from None


def error_event(error: WhisperHailoError, event_id: str | None) -> dict[str, Any]:
    """Return the event of an error after which the session goes on."""
    kind = getattr(error, "kind", "invalid_value")
    own = error if isinstance(error, SessionError) else SessionError("", code=kind)
    body = body_of(error, own.param)["error"]
    code = body["code"] or own.code
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

LOGPROBS: Final = "item.input_audio_transcription.logprobs"

_MIN_PARTIAL_S: Final = 0.5
"""Only committed words are sent, and a word is committed after two seconds at the earliest."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
            new = type(self).model_validate(_merged(self.model_dump(), changes))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            param = ".".join(["session", *map(str, first["loc"])])
            raise SessionError(f"{param}: {first['msg']}", param) from None
        # Noise is not reduced, and PCM has its rate.
        form = Format(rate=24_000) if new.input.format.type == PCM else new.input.format
        effective = new.input.model_copy(update={"noise_reduction": None, "format": form})
        return new.model_copy(update={"audio": _Audio(input=effective)})

    @property
    def input(self) -> AudioInput:
        return self.audio.input

    @property
    def detects_turns(self) -> bool:
        """Whether the server finds the end of what is said, not the client."""
        return self.input.turn_detection is not None

    @property
    def logprobs(self) -> bool:
        return LOGPROBS in (self.include or ())

    @property
    def choices(self) -> Choices:
        asked = self.input.transcription
        return Choices(
            model=asked.model,
            language=asked.language or only_language(asked.languages or ()),
            prompt=asked.prompt,
            hints=tuple(asked.keywords or ()),
        )

    @property
    def captions(self) -> CaptionOptions:
        turns = self.input.turn_detection
        if turns is None:
            return CaptionOptions(min_speech_s=0.0, pre_roll_s=0.0, min_partial_s=_MIN_PARTIAL_S)
        return CaptionOptions(
            vad_threshold=turns.threshold,
            min_silence_s=turns.silence_duration_ms / 1000,
            pre_roll_s=turns.prefix_padding_ms / 1000,
            min_partial_s=_MIN_PARTIAL_S,
        )

    def detector(self) -> SpeechDetector:
        """Return what tells speech from silence; without turns all is speech."""
        return SileroDetector() if self.detects_turns else _AllSpeech()


class _AllSpeech:
    """Takes everything for speech: the client says where its turns end."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        del frame
        return 1.0


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested objects; a format is replaced as a whole."""
    merged = dict(old)
    for name, new in changes.items():
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(new, Mapping) and name != "format"
        merged[name] = _merged(before, new) if both else new  # type: ignore[arg-type]
    return merged
