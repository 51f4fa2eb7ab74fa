"""Clients, how urgent they are, and the options that they may choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import (
    FALLBACK_STEP,
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    rising_temperatures,
)
from whisper_hailo.transcription.longform.options import LongOptions

MAX_PROMPT_CHARACTERS: Final = 4096
"""Several times what the longest prompt of any model holds."""

MAX_HOTWORD_CHARACTERS: Final = 32 << 10
"""About a thousand names."""

_MAX_HOTWORDS: Final = 1000

_MIN_TEMPERATURE: Final = 1e-3
"""Logits divided by less overflow."""

_SHORT_S: Final = 30.0
"""A command or a message: as long as one window of Whisper."""


class Priority(IntEnum):
    """Who goes first: the lowest number."""

    LIVE = -1
    INTERACTIVE = 0
    LONG = 1
    BATCH = 2

    def for_length(self, seconds: float) -> Priority:
        """Return the priority of a recording; a long one can wait longer than a command."""
        if self is Priority.INTERACTIVE and seconds > _SHORT_S:
            return Priority.LONG
        return self


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, the API that it uses, and how urgent its request is."""

    client: str
    api: str
    priority: Priority = Priority.INTERACTIVE


@dataclass(frozen=True, slots=True)
class Choices:
    """What clients choose, whatever their protocol calls it; `None` keeps the server's setting.

    Attributes:
        language: code, name, several of these with commas between, or `auto`.
        task: `transcribe` or `translate`.
        prompt: text as if said before the recording.
        hotword_bonus: see `PromptOptions`.
        temperature: of the first attempt; above 0, tokens are sampled.
        subtitles: the answer has cues, which are set by the times of words if the model has them.
        speech: transcribe only what a detector takes for speech; settings of `LongOptions`.
    """

    model: str | None = None
    language: str | None = None
    task: str | None = None
    prompt: str | None = None
    hotwords: str | None = None
    hotword_bonus: float | None = None
    temperature: float | None = None
    max_new_tokens: int | None = None
    word_timestamps: bool = False
    subtitles: bool = False
    speech: Mapping[str, float] | None = None


def join_hotwords(names: Iterable[str]) -> str:
    """Return names to expect as hotwords, as many as any model can make use of."""
    hotwords: list[str] = []
    n_characters = 0
    for name in names:
        hotword = name.replace(",", " ").strip()  # a comma separates hotwords
        # Control tokens and control characters are nothing that people say.
        if not hotword or not hotword.isprintable() or "<|" in hotword:
            continue
        n_characters += len(hotword) + len(", ")
        if len(hotwords) == _MAX_HOTWORDS or n_characters > MAX_HOTWORD_CHARACTERS:
            break
        hotwords.append(hotword)
    return ", ".join(hotwords)


def join_languages(languages: Sequence[str]) -> str | None:
    """Return a client's list of languages as `Choices` take it; `None` if it is empty."""
    return ",".join(languages) or None


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """Options of requests that choose nothing, those of `whisper-hailo transcribe`.

    Attributes:
        long: of recordings longer than a window.
        fallback: how much hotter each attempt at doubtful text is; 0 turns them off.
    """

    options: DecodingOptions
    long: LongOptions = field(default_factory=LongOptions)
    fallback: float = FALLBACK_STEP

    def with_choices(self, choices: Choices) -> tuple[DecodingOptions, LongOptions]:
        """Return the options of a request.

        Raises:
            OptionError: the client chose what no request may have.
        """
        options = replace(
            self.options,
            language=choices.language or self.options.language,
            task=choices.task or self.options.task,
            max_new_tokens=choices.max_new_tokens or self.options.max_new_tokens,
            word_timestamps=choices.word_timestamps or self.options.word_timestamps,
            prompts=self._choose_prompts(choices),
            search=self._choose_search(choices),
            detect_each_window=self.options.detect_each_window and not choices.language,
        )
        long = self.long
        if choices.speech is not None:
            long = replace(long, strategy="vad", **choices.speech)  # type: ignore[arg-type]
        return options, long

    def _choose_prompts(self, choices: Choices) -> PromptOptions:
        prompts = self.options.prompts
        if choices.prompt and choices.prompt.strip():
            # The model takes the end of a prompt; its beginning is not worth the tokenization.
            prompts = replace(
                prompts, initial_prompt=choices.prompt[-MAX_PROMPT_CHARACTERS:]
            )
        if choices.hotwords and choices.hotwords.strip():
            if len(choices.hotwords) > MAX_HOTWORD_CHARACTERS:
                raise OptionError(
                    f"hotwords has {len(choices.hotwords)} characters, expected "
                    f"{MAX_HOTWORD_CHARACTERS} at most; send fewer words"
                )
            prompts = replace(prompts, hotwords=choices.hotwords)
        if choices.hotword_bonus is not None:
            prompts = replace(prompts, hotword_bonus=choices.hotword_bonus)
        return prompts

    def _choose_search(self, choices: Choices) -> SearchOptions:
        search = self.options.search
        if not choices.temperature:
            return search
        if choices.temperature < _MIN_TEMPERATURE:
            raise OptionError(
                f"temperature is {choices.temperature:g}, expected 0 or at least "
                f"{_MIN_TEMPERATURE:g}"
            )
        temperatures = rising_temperatures(choices.temperature, self.fallback)
        return replace(search, temperatures=temperatures)
