"""The engine that decodes windows with an encoder's features and a decoder."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from whisper_hailo.audio.vad import SileroDetector
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import build_hotword_trie
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions, WordOptions
from whisper_hailo.decoding.prompt import PromptMaker, detect_languages
from whisper_hailo.decoding.search.loop import (
    DecodingLoop,
    DecodingTask,
    Steps,
    decode_with_fallback,
)
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.decoding.word_times import align_words, trim_pauses, words_into_segments
from whisper_hailo.decoding.words import split_into_sentences
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.missed_speech import SpeechCompleter
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
    assemble_segments,
    spread_words,
)

logger = logging.getLogger(__name__)


class DecoderEngine:
    """Decodes windows: languages, prompts, the decoding loop, word times.

    Its decoder is open when it does. Engines with the same `batch_key` decode each
    other's windows alike, so that these may be one batch.
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
        self._padding = options.anti_repetition.padding(decoder.spec.dims, decoder.silence_keys)
        self._prompts = PromptMaker(tokenizer, decoder.spec.dims, options)
        words = options.prompts.hotwords
        # Language and prompts are each row's own, in its context.
        neutral = PromptOptions(hotwords=words)
        self.batch_key: Hashable = replace(options, language=AUTO_LANGUAGE, prompts=neutral)
        hotwords = None if words is None else build_hotword_trie(words, tokenizer)
        self._loop = DecodingLoop(decoder, tokenizer.special, options, window_s, hotwords)
        self._completer = SpeechCompleter(self._loop, decoder, tokenizer, options)

    def context(self) -> Context:
        """Return the context of a new recording."""
        language = self._options.language
        return Context(
            language,
            self._prompts.starting_context(),
            self._options.prompts.condition_on_previous_text,
            prompts=self._prompts,
            detects=language == AUTO_LANGUAGE,
        )

    def steps(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        """Decode windows as one batch; yield before each step, when others may be decoded.

        Stage times are added to `encoded.clock`.
        """
        clock = encoded.clock
        with clock.stage("cross_kv"):
            paddings = (self._padding,) * len(requests)
            state = self._decoder.start(encoded.features, paddings, encoded.n_positions)
        with clock.stage("decode"):
            languages = self._languages(state, [request.context for request in requests])
            tasks = [self._task(*of) for of in zip(requests, languages, strict=True)]
            decoded = yield from decode_with_fallback(
                self._loop, self._decoder, self._tokenizer, self._options, state=state, tasks=tasks
            )
            decoded = yield from self._completer.complete(state, requests, tasks, decoded)
            rows = zip(requests, decoded, languages, strict=True)
            results = []
            for row, (request, found, language) in enumerate(rows):
                _log_bounds(request, found)
                window = request.window
                result = assemble_segments(window, found, language, self._tokenizer, self._options)
                results.append(self._with_words(state, row, request, result))
            return results

    def _task(self, request: WindowRequest, language: str) -> DecodingTask:
        window, context = request.window, request.context
        first = context.n_windows == 0
        previous = context.previous if first or context.sequential else ()
        context.n_windows += 1
        prompts = context.prompts or self._prompts
        return DecodingTask(
            prompts.tokens(language, previous, is_first=first),
            window.content_s,
            key=round(window.start_s * 100),
            draft=self._draft(request),
            is_running=request.is_running,
        )

    def _draft(self, request: WindowRequest) -> Draft | None:
        """Return the draft, with the first encoder position of the audio that is held back."""
        if request.draft is None or request.hold_back_s == 0.0 or not self._decoder.limits.aligns:
            return request.draft
        heard_s = request.window.content_s - request.hold_back_s
        return replace(request.draft, horizon=max(0, round(heard_s / SECONDS_PER_TIMESTAMP)))

    def _languages(self, state: DecoderState, contexts: Sequence[Context]) -> list[str]:
        """Return the language of each window, detected once per recording or for each window."""
        detects = self._options.detect_each_window
        if not detects and all(context.language != AUTO_LANGUAGE for context in contexts):
            return [context.language for context in contexts]
        languages = []
        detected = detect_languages(self._decoder, state, self._tokenizer.special)
        for context, probs in zip(contexts, detected, strict=True):
            is_open = context.language == AUTO_LANGUAGE
            language = context.detect(probs) if is_open else context.language
            languages.append(next(iter(probs)) if detects else language)
        return languages

    def _with_words(
        self, state: DecoderState, row: int, request: WindowRequest, result: WindowResult
    ) -> WindowResult:
        """Return a window's result with the words that are needed."""
        aligns = self._decoder.limits.aligns
        if request.draft is not None:
            if not (request.word_times and aligns):
                return result
            text = result.kept_tokens(self._tokenizer.special.eot)
            return replace(result, words=tuple(self._align(state, row, text, result)))
        timed_by_words = not self._options.timestamps
        wanted = self._options.words or timed_by_words or request.window.needs_words
        if not (result.segments and wanted):
            return result
        if aligns:
            segments = self._aligned(state, row, request, result)
        else:
            segments = spread_words(result.segments, self._tokenizer)
        if timed_by_words:  # the one segment of a text without timestamps
            segments = [part for segment in segments for part in split_into_sentences(segment)]
        return replace(result, segments=tuple(segments))

    @cached_property
    def _detector(self) -> SileroDetector:
        """Silero's detector, loaded for the first words."""
        return SileroDetector()

    def _aligned(
        self, state: DecoderState, row: int, request: WindowRequest, result: WindowResult
    ) -> list[Segment]:
        """Return a window's segments with aligned words."""
        eot = self._tokenizer.special.eot
        text = [t for segment in result.segments for t in segment.tokens if t < eot]
        words = self._align(state, row, text, result)
        if self._options.words and not request.window.is_sought:
            words = trim_pauses(words, request.window.audio, self._detector)
        return words_into_segments(
            result.segments,
            words,
            request.window,
            self._options.words or WordOptions(),
            eot=eot,
            last_speech_s=request.context.last_speech_s,
        )

    def _align(
        self, state: DecoderState, row: int, text: Sequence[int], result: WindowResult
    ) -> list[Word]:
        if self._decoder.batch_size(state) > 1:
            state = self._decoder.select(state, np.array([row], dtype=np.int64))
        return align_words(
            self._decoder,
            state,
            self._tokenizer,
            text=text,
            prefix=self._tokenizer.prefix(result.language, self._options.task),
            content_s=result.window.content_s,
            language=result.language,
            # Words that only join windows are dropped with the join.
            probabilities=self._options.words is not None,
        )


def _log_bounds(request: WindowRequest, decoded: Decoded) -> None:
    """Log that a window's text is cut at its bound, or missing because every try failed."""
    if request.is_running or not (decoded.made_up or decoded.runaway):
        return
    what = f"text is cut at its bound of {len(decoded.tokens)} tokens"
    if decoded.made_up:
        what = "no text: every try repeats itself or is unlikely"
    logger.debug("%.1f to %.1f s: %s", request.window.start_s, request.window.end_s, what)
