"""The engine that decodes windows with an encoder's features and a decoder."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    SpeechDetector,
    frames_to_seconds,
    make_detector,
    quiet_gain,
    split_frames,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.types import SAMPLE_RATE_HZ, SECONDS_PER_TIMESTAMP, FloatArray, Word
from whisper_hailo.decoding.decoded import Decoded, compression_ratio
from whisper_hailo.decoding.hotwords import build_hotword_trie
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.decoding.prompt import PromptMaker, detect_languages
from whisper_hailo.decoding.search.fallback import decode_with_fallback, is_doubtful
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.decoding.word_timestamps import align_words, trim_pauses, words_into_segments
from whisper_hailo.decoding.words import split_into_sentences
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.segments import assemble_segments, spread_words
from whisper_hailo.transcription.window import Context, Encoded, WindowRequest, WindowResult

logger = logging.getLogger(__name__)


class DecoderEngine:
    """Decodes windows: languages, prompts, the decoding loop, missed speech, word times.

    Its decoder is open when it does. Engines with the same `batch_key` decode each other's windows
    alike, so that these may be one batch.
    """

    def __init__(
        self, decoder: AnyDecoder, tokenizer: Tokenizer, options: DecodingOptions, window_s: float
    ) -> None:
        if options.word_timestamps and not decoder.limits.aligns:
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

    @cached_property
    def _detector(self) -> SpeechDetector:
        """The speech detector, loaded when it is needed first."""
        return make_detector()

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

    def decode_windows(
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
            tasks = list(map(self._task, requests, languages))
            decoded = yield from decode_with_fallback(self._loop, self._tokenizer, state, tasks)
            found = yield from self.complete(state, requests, tasks, decoded)
            results = []
            for row, request in enumerate(requests):
                _log_bounds(request, found[row])
                result = assemble_segments(
                    request.window, found[row], languages[row], self._tokenizer, self._options
                )
                results.append(self._with_words(state, row, request, result))
            return results

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

    def _task(self, request: WindowRequest, language: str) -> DecodingTask:
        window, context, draft = request.window, request.context, request.draft
        first = context.n_windows == 0
        previous = context.previous if first or context.sequential else ()
        context.n_windows += 1
        prompts = context.prompts or self._prompts
        if draft is not None and request.hold_back_s and self._decoder.limits.aligns:
            # The first encoder position of the audio that is held back.
            heard_s = window.content_s - request.hold_back_s
            draft = replace(draft, horizon=max(0, round(heard_s / SECONDS_PER_TIMESTAMP)))
        return DecodingTask(
            prompts.tokens(language, previous, is_first=first),
            window.content_s,
            key=round(window.start_s * 100),
            draft=draft,
            is_running=request.is_running,
        )

    def complete(
        self,
        state: DecoderState,
        requests: Sequence[WindowRequest],
        tasks: Sequence[DecodingTask],
        decoded: Sequence[Decoded],
    ) -> Steps[list[Decoded]]:
        """Return the windows' tokens, with those of missed speech; `state` has a row per window.

        Whisper was trained on windows whose last sentence may be cut: it leaves that sentence to
        the next window, and sometimes all that follows a pause. OpenAI Whisper seeks back to the
        end of the text. Windows cut in advance are completed instead: the decoder gets its own text
        and the time at which speech goes on, and may not end there.
        """
        results = list(decoded)
        for row, (request, task) in enumerate(zip(requests, tasks, strict=True)):
            if request.draft is not None or request.window.is_sought:
                continue
            for _ in range(_MAX_ROUNDS):
                audio = request.window.audio
                longer = yield from self._resume(state, row, audio, task, results[row])
                if longer is None:
                    break
                results[row] = longer
        return results

    def _resume(
        self, state: DecoderState, row: int, audio: FloatArray, task: DecodingTask, decoded: Decoded
    ) -> Steps[Decoded | None]:
        """Return a window's tokens with those of missed speech; `None` without any."""
        begin, thresholds = self._tokenizer.special.timestamp_begin, self._options.thresholds
        tokens = decoded.tokens
        if not self._options.timestamps or begin is None:
            return None
        if not tokens or tokens[-1] < begin or decoded.is_silence(thresholds):
            return None
        start_s = self._find_speech(audio, (tokens[-1] - begin) * SECONDS_PER_TIMESTAMP)
        if start_s is None:
            return None
        is_pair = len(tokens) > 1 and tokens[-2] >= begin
        start = begin + round(start_s / SECONDS_PER_TIMESTAMP)
        settled = (*(tokens[:-1] if is_pair else tokens), start)
        again = replace(task, draft=Draft(settled, n_fixed=len(settled), goes_on=True))
        alone = self._decoder.select(state, np.array([row], dtype=np.int64))
        (found,) = yield from self._loop.decode_tokens(alone, [again], beam_size=1)
        rest = found.tokens[len(settled) :]
        text = self._tokenizer.decode(rest).strip()
        rest_only = replace(found, tokens=rest, compression_ratio=compression_ratio(text))
        if not text or found.runaway or is_doubtful(rest_only, thresholds):
            return None
        sum_logprob = decoded.avg_logprob * len(tokens) + found.avg_logprob * len(rest)
        return replace(
            decoded,
            tokens=found.tokens,
            avg_logprob=sum_logprob / (len(tokens) + len(rest)),
            compression_ratio=compression_ratio(self._tokenizer.decode(found.tokens).strip()),
        )

    def _find_speech(self, audio: FloatArray, end_s: float) -> float | None:
        """Return where speech goes on after `end_s` in the window, in seconds, or `None`."""
        tail = audio[round(end_s * SAMPLE_RATE_HZ) :]
        if tail.size < _MIN_TAIL_S * SAMPLE_RATE_HZ:
            return None
        self._detector.reset()
        tail = quiet_gain(tail) * tail
        frames = split_frames(tail)
        is_speech = [self._detector.probability(frame) > CERTAIN_THRESHOLD for frame in frames]
        if frames_to_seconds(sum(is_speech)) < _MIN_SPEECH_S:
            return None
        onset_s = frames_to_seconds(is_speech.index(True))
        return end_s + max(0.0, onset_s - _LEAD_S)

    def _with_words(
        self, state: DecoderState, row: int, request: WindowRequest, result: WindowResult
    ) -> WindowResult:
        """Return a window's result with the words that are needed."""
        window = request.window
        words = self._options.word_timestamps
        eot = self._tokenizer.special.eot
        aligns = self._decoder.limits.aligns
        if request.draft is not None:
            if not (request.word_timestamps and aligns):
                return result
            text = result.kept_tokens(eot)
            return replace(result, words=tuple(self._align(state, row, text, result)))
        timed_by_words = not self._options.timestamps
        if not (result.segments and (words or timed_by_words or window.needs_words)):
            return result
        if aligns:
            text = [token for part in result.segments for token in part.tokens if token < eot]
            aligned = self._align(state, row, text, result)
            if words and not window.is_sought:
                aligned = trim_pauses(aligned, window.audio, self._detector)
            segments = words_into_segments(
                result.segments,
                aligned,
                window,
                eot=eot,
                last_speech_s=request.context.last_speech_s,
            )
        else:
            segments = spread_words(result.segments, self._tokenizer)
        if timed_by_words:  # the one segment of a text without timestamps
            segments = [part for segment in segments for part in split_into_sentences(segment)]
        return replace(result, segments=tuple(segments))

    def _align(
        self, state: DecoderState, row: int, text: Sequence[int], result: WindowResult
    ) -> list[Word]:
        """Return the words of a window's text, timed in it."""
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
            probabilities=self._options.word_timestamps,
        )


_MIN_TAIL_S: Final = 1.0
"""Less audio after the text is the end of its last word."""
_MIN_SPEECH_S: Final = 0.6
_LEAD_S: Final = 0.2
"""Kept before speech: detectors miss soft first sounds."""
_MAX_ROUNDS: Final = 3


def _log_bounds(request: WindowRequest, decoded: Decoded) -> None:
    """Log that a window's text is cut at its bound, or missing because every try failed."""
    if request.is_running or not (decoded.made_up or decoded.runaway):
        return
    what = f"text is cut at its bound of {len(decoded.tokens)} tokens"
    if decoded.made_up:
        what = "no text: every try repeats itself or is unlikely"
    logger.debug("%.1f to %.1f s: %s", request.window.start_s, request.window.end_s, what)
