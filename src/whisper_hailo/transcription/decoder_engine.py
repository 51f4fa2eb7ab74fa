"""The engine that decodes windows with an encoder's features and a decoder."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from whisper_hailo.audio.vad import SpeechDetector, make_detector
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.hotwords import build_hotword_trie
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.decoding.prompt import (
    PromptMaker,
    detect_languages,
    restrict_languages,
)
from whisper_hailo.decoding.search.attempt_checks import is_doubtful
from whisper_hailo.decoding.search.fallback import DecodedTask, decode_with_fallback
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.decoding.word_timestamps import (
    align_words,
    trim_pauses,
    words_into_segments,
)
from whisper_hailo.decoding.words import split_into_sentences
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.audible_speech import has_speech
from whisper_hailo.transcription.endings import trim_endings
from whisper_hailo.transcription.missed_speech import (
    MAX_ROUNDS,
    join_continuation,
    settle_for_more,
)
from whisper_hailo.transcription.own_language import OwnLanguages
from whisper_hailo.transcription.segments import assemble_segments, spread_words
from whisper_hailo.transcription.untranscribed import find_untranscribed
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
)

logger = logging.getLogger(__name__)


class DecoderEngine:
    """Decodes windows: languages, prompts, the decoding loop, missed speech, word times.

    Its decoder is open when it does. Engines with the same `batch_key` decode each other's windows
    alike, so that these may be one batch.
    """

    def __init__(
        self,
        decoder: AnyDecoder,
        tokenizer: Tokenizer,
        options: DecodingOptions,
        window_s: float,
    ) -> None:
        if options.word_timestamps and not decoder.limits.aligns:
            raise OptionError(
                f"decoder {decoder.name} gives no attention weights and so no times of words; "
                "leave out --word-timestamps or use a cached decoder"
            )
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._options = options
        self._padding = options.anti_repetition.padding(
            decoder.spec.dims, decoder.silence_keys
        )
        self._prompts = PromptMaker(tokenizer, decoder.spec.dims, options)
        hotwords = options.prompts.hotwords
        bonus = options.prompts.hotword_bonus
        # Language and other prompts are each row's own, in its context.
        self.batch_key: Hashable = replace(
            options,
            language=AUTO_LANGUAGE,
            prompts=PromptOptions(hotwords=hotwords, hotword_bonus=bonus),
        )
        trie = None
        if hotwords is not None:
            trie = build_hotword_trie(hotwords, tokenizer, bonus)
        self._loop = DecodingLoop(decoder, tokenizer.special, options, window_s, trie)

    @cached_property
    def _detector(self) -> SpeechDetector:
        """The speech detector, loaded when it is needed first."""
        return make_detector()

    def context(self) -> Context:
        """Return the context of a new recording."""
        options = self._options
        language = options.fixed_language
        return Context(
            language,
            self._prompts.starting_context(),
            options.prompts.condition_on_previous_text,
            prompts=self._prompts,
            detects=language == AUTO_LANGUAGE,
            languages=options.languages,
            detects_each=options.detects_each,
        )

    def trusts(self, decoded: Decoded) -> bool:
        """Return whether a text passes the thresholds."""
        return not is_doubtful(decoded, self._options.thresholds)

    def decode_windows(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        """Decode windows as one batch; yield before steps and words, when others may be decoded.

        Stage times are added to `encoded.clock`.
        """
        clock = encoded.clock
        with clock.stage("cross_kv"):
            paddings = (self._padding,) * len(requests)
            state = self._decoder.start(encoded.features, paddings, encoded.n_positions)
        with clock.stage("decode"):
            languages = self._find_languages(state, requests)
            tasks = [
                self._make_task(request, language)
                for request, language in zip(requests, languages, strict=True)
            ]
            own = self._own_languages(state, requests, tasks)
            attempts = yield from decode_with_fallback(
                self._loop,
                self._tokenizer,
                state,
                tasks,
                own.find_tasks,
                hears_speech=lambda row: self._hears_speech(requests[row]),
            )
            completed = yield from self.complete(state, requests, attempts)
            results: list[WindowResult] = []
            for row, (request, attempt) in enumerate(
                zip(requests, attempts, strict=True)
            ):
                yield  # words are aligned by a pass of the decoder
                _log_bounds(request, completed[row])
                result = assemble_segments(
                    request.window,
                    completed[row],
                    attempt.task.language,
                    self._tokenizer,
                    self._options,
                )
                result = self._add_words(state, row, request, result)
                if request.draft is None:  # live audio ends where its speech does
                    result = trim_endings(result, lambda: self._detector)
                results.append(
                    self._add_untranscribed(request, result, own.likely.get(row, ""))
                )
            return results

    def _hears_speech(self, request: WindowRequest) -> bool:
        """Return whether anybody speaks in a window; yes where the detector is not trusted.

        Live audio is a window because the detector heard something: a click is not enough.
        """
        is_live = request.draft is not None
        if not is_live and not request.context.trusts_detector:
            return True
        return has_speech(request.window.audio, self._detector)

    def _own_languages(
        self,
        state: DecoderState,
        requests: Sequence[WindowRequest],
        tasks: Sequence[DecodingTask],
    ) -> OwnLanguages:
        """Return the finder of languages of single windows; a given language is never changed."""
        may_change = [
            request.context.detects and not request.has_own_language
            for request in requests
        ]
        return OwnLanguages(
            self._decoder, self._tokenizer.special, state, tasks, may_change
        )

    def _add_untranscribed(
        self, request: WindowRequest, result: WindowResult, likely_language: str
    ) -> WindowResult:
        """Return a window's result with the speech that has no text."""
        if request.draft is not None:  # live audio has its own account
            return result
        speech = find_untranscribed(result, likely_language, lambda: self._detector)
        return replace(result, untranscribed=speech)

    def _find_languages(
        self, state: DecoderState, requests: Sequence[WindowRequest]
    ) -> list[str]:
        """Return the language of each window, detected once per recording or for each window."""
        if not any(request.detects_language for request in requests):
            return [request.context.language for request in requests]
        languages: list[str] = []
        detected = detect_languages(self._decoder, state, self._tokenizer.special)
        for request, all_probs in zip(requests, detected, strict=True):
            context = request.context
            probs = restrict_languages(all_probs, context.languages)
            language = context.language
            if language == AUTO_LANGUAGE:
                language = context.detect(probs)
            if request.has_own_language:
                language = next(iter(probs))  # the likeliest, whatever the context says
            languages.append(language)
        return languages

    def _make_task(self, request: WindowRequest, language: str) -> DecodingTask:
        """Return what to decode, and count the window in its context."""
        window = request.window
        context = request.context
        is_first = context.n_windows == 0
        context.n_windows += 1
        previous = context.previous if is_first or context.sequential else ()
        prompts = context.prompts or self._prompts
        return DecodingTask(
            prompts.tokens(language, previous, is_first=is_first),
            window.content_s,
            key=round(window.start_s * 100),
            draft=self._draft(request),
            is_running=request.is_running,
            language=language,
        )

    def _draft(self, request: WindowRequest) -> Draft | None:
        """Return the draft of live audio, whose text ends where audio is held back."""
        draft = request.draft
        if draft is None or not request.hold_back_s or not self._decoder.limits.aligns:
            return draft
        settled_s = request.window.content_s - request.hold_back_s
        # The first encoder position of the audio that is held back.
        horizon = max(0, round(settled_s / SECONDS_PER_TIMESTAMP))
        return replace(draft, horizon=horizon)

    def complete(
        self,
        state: DecoderState,
        requests: Sequence[WindowRequest],
        attempts: Sequence[DecodedTask],
    ) -> Steps[list[Decoded]]:
        """Return the windows' tokens, with those of missed speech; see `missed_speech`.

        `state` has a row per window.
        """
        results = [attempt.decoded for attempt in attempts]
        begin = self._tokenizer.special.timestamp_begin
        if begin is None or not self._options.timestamps:
            return results
        thresholds = self._options.thresholds
        for row, (request, attempt) in enumerate(zip(requests, attempts, strict=True)):
            # Live audio is soon decoded again; a window that is sought has a successor for it.
            if request.draft is not None or request.window.is_sought:
                continue
            for _ in range(MAX_ROUNDS):
                if results[row].is_silence(thresholds):
                    break
                settled = settle_for_more(
                    results[row], request.window.audio, begin, lambda: self._detector
                )
                if settled is None:
                    break
                draft = Draft(settled, n_fixed=len(settled), goes_on=True)
                (continued,) = yield from self._loop.decode_tokens(
                    self._select(state, row),
                    [replace(attempt.task, draft=draft)],
                    beam_size=1,
                )
                longer = join_continuation(
                    results[row], continued, len(settled), self._tokenizer, thresholds
                )
                if longer is None:
                    break
                results[row] = longer
        return results

    def _select(self, state: DecoderState, row: int) -> DecoderState:
        """Return the state of one window."""
        if self._decoder.batch_size(state) == 1:
            return state
        return self._decoder.select(state, np.array([row], dtype=np.int64))

    def _add_words(
        self,
        state: DecoderState,
        row: int,
        request: WindowRequest,
        result: WindowResult,
    ) -> WindowResult:
        """Return a window's result with the words that are needed."""
        window = request.window
        if request.draft is not None:
            if not request.word_timestamps or not self._decoder.limits.aligns:
                return result
            text = result.kept_tokens(self._tokenizer.special.eot)
            return replace(result, words=tuple(self._align(state, row, text, result)))
        is_untimed = not self._options.timestamps  # words say where its sentences are
        needs_words = self._options.word_timestamps or window.needs_words or is_untimed
        if not result.segments or not needs_words:
            return result
        if self._decoder.limits.aligns:
            segments = self._time_words(state, row, request, result)
        else:
            segments = spread_words(result.segments, self._tokenizer)
        if is_untimed:
            segments = [
                part for segment in segments for part in split_into_sentences(segment)
            ]
        return replace(result, segments=tuple(segments))

    def _time_words(
        self,
        state: DecoderState,
        row: int,
        request: WindowRequest,
        result: WindowResult,
    ) -> list[Segment]:
        """Return a window's segments with aligned words."""
        window = request.window
        eot = self._tokenizer.special.eot
        text = [
            token
            for segment in result.segments
            for token in segment.tokens
            if token < eot
        ]
        words = self._align(state, row, text, result)
        if self._options.word_timestamps and not window.is_sought:
            words = trim_pauses(words, window.audio, self._detector)
        return words_into_segments(
            result.segments,
            words,
            window,
            eot=eot,
            last_speech_s=request.context.last_speech_s,
        )

    def _align(
        self, state: DecoderState, row: int, text: Sequence[int], result: WindowResult
    ) -> list[Word]:
        """Return the words of a window's text, timed in it."""
        return align_words(
            self._decoder,
            self._select(state, row),
            self._tokenizer,
            text=text,
            prefix=self._tokenizer.prefix(result.language, self._options.task),
            content_s=result.window.content_s,
            language=result.language,
            # Words that only join windows are dropped with the join.
            probabilities=self._options.word_timestamps,
        )


def _log_bounds(request: WindowRequest, decoded: Decoded) -> None:
    """Log that a window's text is cut at its bound, or missing because every attempt failed."""
    if request.is_running:
        return
    if decoded.made_up:
        reason = "no text: every attempt repeats itself or is unlikely"
    elif decoded.runaway:
        reason = f"text is cut at its bound of {len(decoded.tokens)} tokens"
    else:
        return
    logger.debug(
        "%.1f to %.1f s: %s", request.window.start_s, request.window.end_s, reason
    )
