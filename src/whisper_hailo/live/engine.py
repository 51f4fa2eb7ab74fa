"""Engines of the captioner: their protocol, our own `Transcriber`, and Moonshine."""

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

_WARM_UPS: Final = 3
"""Behind these, runs take no longer than those to come."""


def caption_defaults(anti_repetition: AntiRepetition) -> DecodingOptions:
    """Return the default options of live captions, with the decoder's own cures.

    Partials are decoded once; the temperatures are for final text of which nothing is committed.
    """
    return DecodingOptions(
        anti_repetition=anti_repetition,
        search=SearchOptions(temperatures=(0.0, 0.4, 0.8)),
        limits=TokenLimits(max_per_second=TOKENS_PER_SECOND),
    )


def options_in(options: DecodingOptions, language: str) -> DecodingOptions:
    """Return options for one language, or for `auto`."""
    return replace(options, language=language, detect_each_window=False)


class CaptionEngine(Protocol):
    """Transcribes buffers of up to `content_s` seconds, repeatedly.

    Its `language` is the code of the one that is transcribed by default, or `auto`.
    """

    @property
    def name(self) -> str: ...

    @property
    def content_s(self) -> float: ...

    @property
    def language(self) -> str: ...

    def in_language(self, language: str) -> CaptionEngine:
        """Return the same engine for another language that it knows: a code, a name or `auto`."""
        ...

    def transcribe(self, buffer: PartialBuffer, language: str | None = None) -> BufferText:
        """Transcribe a buffer, in the engine's own language where none is known.

        One with word times is a whole segment: it has its translation, too. An engine ignores what
        it cannot do.
        """
        ...


class TranscriberEngine:
    """Our own engine, with any pair of encoder and decoder, which is open while it transcribes.

    The task `translate` gives the English beside the text.

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
            raise OptionError("live captions take their times from the stream; no --timestamps")
        transcriber.check(options)
        self._transcriber = transcriber
        self._translates = options.task == "translate"
        self._options = replace(options, task="transcribe")
        self.content_s = transcriber.content_s
        self.language = options.language

    @property
    def name(self) -> str:
        settings = self._transcriber.settings(self._options)
        return f"{settings.model} ({settings.encoder} + {settings.decoder})"

    def in_language(self, language: str) -> TranscriberEngine:
        task = "translate" if self._translates else "transcribe"
        return self._with(replace(options_in(self._options, language), task=task))

    def _with(self, options: DecodingOptions) -> TranscriberEngine:
        return TranscriberEngine(self._transcriber, options)

    def transcribe(self, buffer: PartialBuffer, language: str | None = None) -> BufferText:
        options = self._options
        return self._run(buffer, options if language is None else options_in(options, language))

    def _run(self, buffer: PartialBuffer, options: DecodingOptions) -> BufferText:
        translate = self._translates and buffer.word_timestamps
        return self._transcriber.transcribe_running(buffer, options, translate=translate)


def warm_up(engine: CaptionEngine) -> None:
    """Transcribe quiet noise, so that the first words do not wait for memory to be allocated."""
    noise = np.random.default_rng(0).normal(0, 1e-3, SAMPLE_RATE_HZ).astype(np.float32)
    for _ in range(_WARM_UPS):
        engine.transcribe(PartialBuffer(noise))


LONGEST_S: Final = 9.0
"""The study's longest segment. The package takes more, in time that grows with the square."""


class MoonshineEngine(Closing):
    """Moonshine: no drafts, no word times, no probabilities, English only.

    Its source is a size, such as `tiny-streaming`, or a folder with the weights.
    """

    language = "en"

    def __init__(self, source: str = SIZES[0], content_s: float = LONGEST_S) -> None:
        if content_s >= MAX_S:
            raise OptionError(
                f"--max-segment is {content_s:g} s, Moonshine takes less than {MAX_S:g} s"
            )
        self.name = f"Moonshine {source}"
        self.content_s = content_s
        self._model = Moonshine(source)

    def in_language(self, language: str) -> MoonshineEngine:
        if language != self.language:
            raise OptionError(f"the language is {language!r}, Moonshine hears English only (en)")
        return self

    def open(self) -> Self:
        self._model.open()
        return self

    def close(self) -> None:
        self._model.close()

    def transcribe(self, buffer: PartialBuffer, language: str | None = None) -> BufferText:
        del language
        clock = StageClock()
        with clock.stage("total"), clock.stage("decode"):
            text = self._model.transcribe(buffer.audio)
        return BufferText(words_of_text(text), "en", timings=clock.timings())
