"""Settings of a realtime session: the session object of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whisper_hailo.audio.vad import make_detector
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo.serve.request import Choices, join_hotwords, join_languages
from whisper_hailo.serve.routes.realtime.protocol import SessionError
from whisper_hailo.serve.routes.realtime.sample_formats import (
    G711_RATE_HZ,
    PCM,
    PCM_RATE_HZ,
)

_MIN_PARTIAL_S: Final = 0.5
"""Only committed words are sent, and a word is committed after two seconds at the earliest."""


_MODELS_WITHOUT_TURNS: Final = ("gpt-realtime-whisper", "gpt-live-transcribe")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Format(_Part):
    """How samples are sent: 16-bit PCM, or G.711 at 8 kHz.

    OpenAI's PCM has 24 kHz. Sound that was recorded at another rate has the words of an upload only
    if the client sends it as it is.
    """

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[8_000, 16_000, 24_000, 48_000] | None = None

    @property
    def rate_hz(self) -> int:
        """Samples a second."""
        if self.type != PCM:
            return G711_RATE_HZ
        return self.rate or PCM_RATE_HZ


class Transcription(_Part):
    """What is asked of the model."""

    model: str
    language: str | None = None
    languages: list[str] | None = None
    prompt: str | None = None
    keywords: list[str] | None = None
    delay: str | None = None


class _Turns(_Part):
    """What both ways of finding the end have; nothing answers here, and nothing is interrupted."""

    create_response: bool | None = None
    interrupt_response: bool | None = None


class ServerVad(_Turns):
    """The end of what is said is a silence of this length."""

    type: Literal["server_vad"]
    threshold: float = Field(default=0.5, gt=0, le=1)
    prefix_padding_ms: int = Field(default=300, ge=0, le=30_000)
    silence_duration_ms: int = Field(default=500, ge=32, le=30_000)
    idle_timeout_ms: None = None

    @property
    def silence_s(self) -> float:
        """Silence that ends what is said."""
        return self.silence_duration_ms / 1000


_EAGER_SILENCE_S: Final = {"high": 0.5, "medium": 0.7, "auto": 0.7, "low": 1.25}
"""Silence by eagerness: between OpenAI's default of `server_vad` and the longest of Wyoming."""


class SemanticVad(_Turns):
    """The end of what is said is a longer silence, since no model here reads the words for it."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"

    @property
    def silence_s(self) -> float:
        """Silence that ends what is said."""
        return _EAGER_SILENCE_S[self.eagerness]

    @property
    def threshold(self) -> float:
        """Probability of speech, that of `server_vad`."""
        return _DEFAULT_VAD.threshold

    @property
    def prefix_padding_ms(self) -> int:
        """Sound before speech, that of `server_vad`."""
        return _DEFAULT_VAD.prefix_padding_ms


_DEFAULT_VAD: Final = ServerVad(type="server_vad")
TurnDetection: TypeAlias = Annotated[
    ServerVad | SemanticVad, Field(discriminator="type")
]


class AudioInput(_Part):
    """Everything about the sound that arrives."""

    format: Format = Format(rate=PCM_RATE_HZ)
    noise_reduction: dict[str, Any] | None = None
    transcription: Transcription
    turn_detection: TurnDetection | None = _DEFAULT_VAD

    @model_validator(mode="after")
    def _tell_the_truth(self) -> Self:
        """Answer as the server works: it reduces no noise, and PCM has a rate."""
        self.noise_reduction = None
        if self.format.type == PCM and self.format.rate is None:
            self.format = Format(rate=PCM_RATE_HZ)
        return self


class _Audio(_Part):
    input: AudioInput


class RealtimeSettings(_Part):
    """The session object of OpenAI's API, as far as it concerns transcription."""

    type: Literal["transcription"] = "transcription"
    audio: _Audio
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None

    @classmethod
    def for_model(cls, model: str) -> Self:
        """Return the settings of a new client."""
        audio_input = AudioInput(transcription=Transcription(model=model))
        if _leaves_turns_to_clients(model):
            audio_input.turn_detection = None
        return cls(audio=_Audio(input=audio_input))

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return the settings with a client's changes; all others stay.

        Raises:
            SessionError: a setting cannot have the value.
        """
        merged = _merge_objects(self.model_dump(), changes)
        try:
            settings = type(self).model_validate(merged)
        except ValidationError as error:
            raise SessionError.from_validation(error, "session") from None
        model = settings.input.transcription.model
        has_other_model = model != self.input.transcription.model
        if has_other_model and _leaves_turns_to_clients(model):
            audio_changes = changes.get("audio", {}).get("input", {})
            if "turn_detection" not in audio_changes:
                settings.input.turn_detection = None
        return settings

    @property
    def input(self) -> AudioInput:
        """Everything about the sound that arrives."""
        return self.audio.input

    @property
    def detects_turns(self) -> bool:
        """Whether the server finds the end of what is said, not the client."""
        return self.input.turn_detection is not None

    @property
    def choices(self) -> Choices:
        """What the client chose for transcription."""
        transcription = self.input.transcription
        return Choices(
            model=transcription.model,
            language=transcription.language
            or join_languages(transcription.languages or ()),
            prompt=transcription.prompt,
            hotwords=join_hotwords(transcription.keywords or ()),
        )

    def make_captioner(self, recognizer: SpeechRecognizer) -> Captioner:
        """Return a new captioner; without turns all is speech, until the client commits it."""
        turns = self.input.turn_detection
        if turns is None:
            options = CaptionOptions(
                min_speech_s=0.0, pre_roll_s=0.0, min_partial_s=_MIN_PARTIAL_S
            )
            return Captioner(recognizer, _AllSpeech(), options)
        options = CaptionOptions(
            vad_threshold=turns.threshold,
            min_silence_s=turns.silence_s,
            pre_roll_s=turns.prefix_padding_ms / 1000,
            min_partial_s=_MIN_PARTIAL_S,
        )
        return Captioner(recognizer, make_detector(), options)


class _AllSpeech:
    """A speech detector that takes everything for speech."""

    def reset(self) -> None:
        """Forget nothing: nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        del frame
        return 1.0


def _leaves_turns_to_clients(model: str) -> bool:
    """Return whether clients of OpenAI's model of this name find the end of speech themselves.

    Clients such as LiveKit's do not ask for that: OpenAI has no other way for these models.
    """
    return model.startswith(_MODELS_WITHOUT_TURNS)


def _merge_objects(
    old: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return nested objects with changes in them."""
    merged = dict(old)
    for name, new in changes.items():
        before = merged.get(name)
        # These are replaced as a whole: the rate of PCM is none of G.711, and the silence of
        # server_vad none of semantic_vad.
        is_whole = name == "format" or _has_other_type(before, new)
        if isinstance(before, dict) and isinstance(new, Mapping) and not is_whole:
            merged[name] = _merge_objects(before, new)
        else:
            merged[name] = new
    return merged


def _has_other_type(before: object, new: object) -> bool:
    """Return whether two objects say that they are of different types."""
    if not isinstance(before, Mapping) or not isinstance(new, Mapping):
        return False
    return "type" in new and new["type"] != before.get("type")
