"""Windows to text with a decoder whose loop is ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import AnyDecoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.language import detect_languages
from whisper_hailo.decoding.option_groups import WordOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.decoding.search.fallback import decode_with_fallback
from whisper_hailo.decoding.search.loop import DecodingLoop, Task
from whisper_hailo.decoding.words.align import align_words
from whisper_hailo.decoding.words.cleanup import words_into_segments
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.assemble import assemble, spread_words
from whisper_hailo.transcription.interpreter import Context
from whisper_hailo.transcription.longform.plan import Heard


class DecoderInterpreter:
    """The decoding loop, languages, prompts and word times of a decoder.

    Args:
        decoder: open when `interpret` is called.
        tokenizer: of the model.
        options: what the caller asked for.
        window_s: length of the encoder's window.

    Raises:
        OptionError: prompts that the model cannot take, or word times without alignment.
    """

    def __init__(
        self,
        decoder: AnyDecoder,
        tokenizer: Tokenizer,
        options: DecodingOptions,
        window_s: float,
    ) -> None:
        if options.words is not None and not decoder.limits.aligns:
            raise OptionError(
                f"decoder {decoder.name} gives no attention weights and so no times of words; "
                "leave out --word-timestamps or use a cached decoder"
            )
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._options = options
        self._padding = options.cures.padding(decoder.spec.dims)
        self._prompts = PromptMaker(tokenizer, decoder.spec.dims, options)
        self._loop = DecodingLoop(decoder, tokenizer.special, options, window_s)

    def context(self) -> Context:
        """Of a recording that has not begun."""
        return Context(self._options.language, self._prompts.starting_context())

    def interpret(
        self,
        audio_features: FloatArray | None,
        windows: Sequence[Window],
        contexts: Sequence[Context],
        clock: StageClock,
    ) -> list[Heard]:
        """Decode windows as one batch."""
        if audio_features is None:
            raise OptionError(f"decoder {self._decoder.name} needs an encoder")
        with clock.stage("cross_kv"):
            state = self._decoder.start(audio_features, (self._padding,) * len(windows))
        with clock.stage("decode"):
            return self._decode(state, windows, contexts)

    def _decode(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        windows: Sequence[Window],
        contexts: Sequence[Context],
    ) -> list[Heard]:
        languages = self._languages(state, contexts)
        tasks = []
        for window, context, language in zip(windows, contexts, languages, strict=True):
            first = context.n_windows == 0
            previous = context.previous if first or context.sequential else ()
            prompt = self._prompts.tokens(language, previous, is_first=first)
            tasks.append(Task(prompt, window.content_s, round(window.start_s * 100)))
            context.n_windows += 1
        decoded = decode_with_fallback(
            self._loop,
            self._decoder,
            self._tokenizer,
            self._options,
            state=state,
            tasks=tasks,
        )
        heard = []
        for row, (window, context) in enumerate(zip(windows, contexts, strict=True)):
            result = assemble(window, decoded[row], languages[row], self._tokenizer, self._options)
            if self._wants_words(result):
                result = self._with_words(state, row, result, context, languages[row])
            heard.append(result)
        return heard

    def _languages(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        contexts: Sequence[Context],
    ) -> list[str]:
        """Language of each window; detected once per recording, or for each window anew."""
        anew = self._options.language == AUTO_LANGUAGE and self._options.detect_each_window
        if not anew and all(context.language != AUTO_LANGUAGE for context in contexts):
            return [context.language for context in contexts]
        languages = []
        detected = detect_languages(self._decoder, state, self._tokenizer.special)
        for context, probs in zip(contexts, detected, strict=True):
            if context.language == AUTO_LANGUAGE:
                context.language, context.language_probs = next(iter(probs)), probs
            languages.append(next(iter(probs)) if anew else context.language)
        return languages

    def _wants_words(self, heard: Heard) -> bool:
        asked = self._options.words is not None or heard.window.needs_words
        return asked and bool(heard.segments)

    def _with_words(
        self,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        row: int,
        heard: Heard,
        context: Context,
        language: str,
    ) -> Heard:
        """The window's segments with their words."""
        if not self._decoder.limits.aligns:
            return spread_words(heard, self._tokenizer)
        window, special = heard.window, self._tokenizer.special
        text = [t for segment in heard.segments for t in segment.tokens if t < special.eot]
        if self._decoder.batch_size(state) > 1:
            state = self._decoder.select(state, np.array([row], dtype=np.int64))
        prefix = self._tokenizer.prefix(language, self._options.task)
        aligned = align_words(
            self._decoder,
            state,
            self._tokenizer,
            text=text,
            prefix=prefix,
            content_s=window.content_s,
            language=language,
        )
        segments = words_into_segments(
            heard.segments,
            aligned,
            window,
            self._options.words or WordOptions(),
            eot=special.eot,
            last_speech_s=context.last_speech_s,
        )
        return replace(heard, segments=tuple(segments))
