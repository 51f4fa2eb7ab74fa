"""Settings of a realtime session, as its client says and changes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from whisper_hailo.audio.vad import SileroDetector, SpeechDetector
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.serve.doors.realtime_sound import PCM
from whisper_hailo.serve.doors.realtime_wire import SessionError
from whisper_hailo.serve.request import Choices, only_language

LOGPROBS: Final = "item.input_audio_transcription.logprobs"

_MIN_PARTIAL_S: Final = 0.5
"""Only what stays is told, and a word stays after a second at the earliest."""


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
        """Those of a client that has said nothing yet."""
        return cls(audio=_Audio(input=AudioInput(transcription=Transcription(model=model))))

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """These with a client's changes; what is not among them stays.

        Raises:
            SessionError: one of them is no setting, or has no such value.
        """
        try:
            new = type(self).model_validate(_merged(self.model_dump(), changes))
        except (ValidationError, RecursionError) as error:
            if not isinstance(error, ValidationError):
                raise SessionError("the session is nested too deeply", "session") from None
            first = error.errors(include_input=False, include_url=False)[0]
            param = ".".join(["session", *map(str, first["loc"])])
            raise SessionError(f"{param}: {first['msg']}", param) from None
        return new.model_copy(update={"audio": _effective(new.audio)})

    @property
    def input(self) -> AudioInput:
        """What is heard, and how."""
        return self.audio.input

    @property
    def detects_turns(self) -> bool:
        """The server finds out when something was said, not the client."""
        return self.input.turn_detection is not None

    @property
    def logprobs(self) -> bool:
        """Probabilities of words are told, too."""
        return LOGPROBS in (self.include or ())

    @property
    def choices(self) -> Choices:
        """What is asked of the engine."""
        asked = self.input.transcription
        return Choices(
            language=asked.language or only_language(asked.languages or ()),
            prompt=asked.prompt,
            hints=tuple(asked.keywords or ()),
        )

    @property
    def captions(self) -> CaptionOptions:
        """When a segment begins and ends."""
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
        """What tells speech from silence; without turns the client has decided that all is speech.

        Raises:
            OptionError: it is not installed.
        """
        return SileroDetector() if self.detects_turns else _AllSpeech()


class _AllSpeech:
    """Takes everything for speech: the client says where its turns end."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        del frame
        return 1.0


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Objects in objects, changed as far as the changes go; a format is one thing."""
    merged = dict(old)
    for name, new in changes.items():
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(new, Mapping) and name != "format"
        merged[name] = _merged(before, new) if both else new  # type: ignore[arg-type]
    return merged


def _effective(audio: _Audio) -> _Audio:
    """What holds indeed: noise is not reduced, and PCM has its rate."""
    form = audio.input.format
    if form.type == PCM:
        form = Format(rate=24_000)
    changes = {"noise_reduction": None, "format": form}
    return _Audio(input=audio.input.model_copy(update=changes))
