"""Speech recognisers of the captioner: their protocol, Whisper by a `Transcriber`, Moonshine."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol, Self

import numpy as np

from whisper_hailo.backends.moonshine import MAX_S, SIZES, Moonshine
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
    TokenLimits,
)
from whisper_hailo.decoding.search.fallback import describe_search
from whisper_hailo.transcription.partials import PartialBuffer, words_of_text
from whisper_hailo.transcription.transcriber import Transcriber

TOKENS_PER_SECOND: Final = 20.0
"""Fast speech has six words a second; without a bound one runaway would hold everything up."""

_N_WARM_UPS: Final = 3
"""After so many runs, the next ones take no less time."""

MOONSHINE_SEGMENT_S: Final = 9.0
"""The study's longest segment. The package takes more, in time that grows with the square."""


def caption_defaults(anti_repetition: AntiRepetition) -> DecodingOptions:
    """Return the default options of live captions, with the decoder's own anti-repetition.

    Partials are decoded once, so the higher temperatures are only for final text of which nothing
    is committed.
    """
    return DecodingOptions(
        anti_repetition=anti_repetition,
        search=SearchOptions(temperatures=(0.0, 0.4, 0.8)),
        limits=TokenLimits(max_per_second=TOKENS_PER_SECOND),
    )


def options_for_language(options: DecodingOptions, language: str) -> DecodingOptions:
    """Return options with one language, or `auto`."""
    return replace(options, language=language, detect_each_window=False)


class SpeechRecognizer(Protocol):
    """Transcribes a growing buffer of audio, again and again."""

    @property
    def name(self) -> str:
        """The model and what it runs on, for people."""
        ...

    @property
    def content_s(self) -> float:
        """The longest buffer, in seconds."""
        ...

    @property
    def language(self) -> str:
        """The code of the default language, or `auto`."""
        ...

    def with_language(self, language: str) -> SpeechRecognizer:
        """Return the same recogniser for another language: a code, a name or `auto`.

        Raises:
            OptionError: it does not know the language.
        """
        ...

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        """Transcribe a buffer; without a `language` in the recogniser's own.

        A buffer with word times is a whole segment, and is translated, too, where that was asked
        for. What a recogniser cannot do it ignores, such as a draft.
        """
        ...


class WhisperRecognizer:
    """Whisper, by a transcriber that is open while this is used.

    With the task `translate` a segment has the English text beside its own.

    Raises:
        OptionError: the model does not support the options, or they need several passes.
    """

    def __init__(self, transcriber: Transcriber, options: DecodingOptions) -> None:
        if options.search.beam_size > 1 or options.search.temperatures[0] > 0:
            raise OptionError(
                f"live captions are decoded greedily, got {describe_search(options.search)}; "
                "leave out --beam-size and --temperature"
            )
        if options.timestamps:
            raise OptionError(
                "live captions take their times from the stream; leave out --timestamps"
            )
        transcriber.check(options)
        self._transcriber = transcriber
        self._is_translated = options.task == "translate"
        self._options = replace(options, task="transcribe")
        self.content_s = transcriber.content_s
        self.language = options.fixed_language

    @property
    def name(self) -> str:
        settings = self._transcriber.settings(self._options)
        return f"{settings.model} ({settings.encoder} + {settings.decoder})"

    def with_language(self, language: str) -> WhisperRecognizer:
        options = options_for_language(self._options, language)
        task = "translate" if self._is_translated else "transcribe"
        return self._with_options(replace(options, task=task))

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        options = self._options
        if language is not None:
            options = options_for_language(options, language)
        return self._run(buffer, options)

    def _with_options(self, options: DecodingOptions) -> WhisperRecognizer:
        return WhisperRecognizer(self._transcriber, options)

    def _run(self, buffer: PartialBuffer, options: DecodingOptions) -> BufferText:
        is_whole = buffer.word_timestamps and not buffer.hold_back_s
        translate = self._is_translated and is_whole
        return self._transcriber.transcribe_running(
            buffer, options, translate=translate
        )


def warm_up(recognizer: SpeechRecognizer) -> None:
    """Transcribe quiet noise, so that the first words do not wait for memory to be allocated."""
    noise = np.random.default_rng(0).normal(0, 1e-3, SAMPLE_RATE_HZ).astype(np.float32)
    for _ in range(_N_WARM_UPS):
        recognizer.transcribe(PartialBuffer(noise))


class MoonshineRecognizer(Closing):
    """Moonshine: no drafts, no word times, no probabilities, English only.

    Args:
        source: a size, such as `tiny-streaming`, or a folder with the weights.
        content_s: longest segment, in seconds.

    Raises:
        OptionError: the segment is longer than Moonshine takes.
    """

    language = "en"

    def __init__(
        self, source: str = SIZES[0], content_s: float = MOONSHINE_SEGMENT_S
    ) -> None:
        if content_s >= MAX_S:
            raise OptionError(
                f"--max-segment is {content_s:g} s, but Moonshine takes less than {MAX_S:g} s"
            )
        self.name = f"Moonshine {source}"
        self.content_s = content_s
        self._model = Moonshine(source)

    def with_language(self, language: str) -> MoonshineRecognizer:
        if language != self.language:
            raise OptionError(
                f"the language is {language!r}, Moonshine knows English only (en)"
            )
        return self

    def open(self) -> Self:
        self._model.open()
        return self

    def close(self) -> None:
        self._model.close()

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        del language  # it knows one only
        clock = StageClock()
        with clock.stage("total"), clock.stage("decode"):
            text = self._model.transcribe(buffer.audio)
        return BufferText(words_of_text(text), "en", timings=clock.timings())
