"""Clients, how urgent they are, and the options that they may choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate
from typing import Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import (
    FALLBACK_STEP,
    DecodingOptions,
    rising_temperatures,
)
from whisper_hailo.transcription.longform.options import LongOptions

MAX_PROMPT_LETTERS: Final = 4096  # Several times what the longest prompt of any model holds

MAX_HOTWORDS_LETTERS: Final = 32 << 10  # A thousand names
_MAX_NAMES: Final = 1000
_LEAST_TEMPERATURE: Final = 1e-3
_SHORT_S: Final = 30.0  # A command, a message: what Whisper itself hears at once


class Priority(IntEnum):
    """Who goes first: the lowest number."""

    LIVE = -1
    INTERACTIVE = 0
    LONG = 1
    BATCH = 2

    def of_length(self, seconds: float) -> Priority:
        """Return the priority of a recording: a long one is not waited for like a command."""
        is_long = seconds > _SHORT_S
        return Priority.LONG if self is Priority.INTERACTIVE and is_long else self


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, the API by which it asks, and how urgent its request is."""

    client: str
    api: str
    priority: Priority = Priority.INTERACTIVE


@dataclass(frozen=True, slots=True)
class Choices:
    """What clients choose, whatever their protocol calls it; `None` is as the server is set.

    Attributes:
        language: code, name, or `auto`.
        task: `transcribe` or `translate`.
        prompt: text as if said before the recording.
        temperature: of the first try; above 0 tokens are sampled.
        speech: transcribe only what a detector takes for speech; settings of `LongOptions`.
    """

    model: str | None = None
    language: str | None = None
    task: str | None = None
    prompt: str | None = None
    hotwords: str | None = None
    temperature: float | None = None
    max_new_tokens: int | None = None
    word_timestamps: bool = False
    speech: Mapping[str, float] | None = None


def hotwords_of(names: Iterable[str]) -> str:
    """Return names to expect as hotwords, as many as any model can make use of."""
    plain = [name.replace(",", " ").strip() for name in names if "<|" not in name]
    plain = [name for name in plain if name and name.isprintable()]
    total = accumulate(len(name) + len(", ") for name in plain[:_MAX_NAMES])
    return ", ".join(plain[: sum(letters <= MAX_HOTWORDS_LETTERS for letters in total)])


def only_language(languages: Sequence[str]) -> str | None:
    """Return the language of a list of one; of several one is detected, so `None`."""
    return languages[0] if len(languages) == 1 else None


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """Options of requests that choose nothing, those of `whisper-hailo transcribe`.

    Attributes:
        long: of recordings longer than a window.
        fallback: by how much each try of doubtful text is hotter; 0 is off.
    """

    options: DecodingOptions
    long: LongOptions = field(default_factory=LongOptions)
    fallback: float = FALLBACK_STEP

    def with_choices(self, choices: Choices) -> tuple[DecodingOptions, LongOptions]:
        options, long = self.options, self.long
        prompts = options.prompts
        if choices.prompt and choices.prompt.strip():
            # The model takes the end of a prompt; the beginning is not worth its tokenization.
            prompts = replace(prompts, initial_prompt=choices.prompt[-MAX_PROMPT_LETTERS:])
        if choices.hotwords and choices.hotwords.strip():
            if len(choices.hotwords) > MAX_HOTWORDS_LETTERS:
                raise OptionError(
                    f"hotwords has {len(choices.hotwords)} letters, expected "
                    f"{MAX_HOTWORDS_LETTERS} at most; send fewer words"
                )
            prompts = replace(prompts, hotwords=choices.hotwords)
        search = options.search
        if choices.temperature:
            if choices.temperature < _LEAST_TEMPERATURE:  # logits divided by less overflow
                raise OptionError(
                    f"temperature is {choices.temperature:g}, expected 0 or at least "
                    f"{_LEAST_TEMPERATURE:g}"
                )
            tries = rising_temperatures(choices.temperature, self.fallback)
            search = replace(search, temperatures=tries)
        options = replace(
            options,
            language=choices.language or options.language,
            task=choices.task or options.task,
            max_new_tokens=choices.max_new_tokens or options.max_new_tokens,
            word_timestamps=choices.word_timestamps or options.word_timestamps,
            prompts=prompts,
            search=search,
            detect_each_window=options.detect_each_window and not choices.language,
        )
        if choices.speech is not None:
            long = replace(long, strategy="vad", **choices.speech)  # type: ignore[arg-type]
        return options, long
