"""One buffer of running audio through the stages, with the text before as a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.make import AnyBackEnd
from whisper_hailo.core.buffers import BufferText, BufferWord
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    SECONDS_PER_TIMESTAMP,
    UNSPACED_LANGUAGES,
    FloatArray,
)
from whisper_hailo.decoding.language import detect_languages
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.decoding.recognizer import AudioRecognizer, Recognizer, owns_loop
from whisper_hailo.decoding.search.draft import DraftLoop
from whisper_hailo.decoding.words.align import align_words
from whisper_hailo.decoding.words.split import TokenWord, split_words
from whisper_hailo.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Draft:
    """What a buffer's text is expected to begin with.

    Attributes:
        tokens: of the hypothesis before.
        n_fixed: so many of them are settled and not decoded again.
    """

    tokens: tuple[int, ...] = ()
    n_fixed: int = 0


@dataclass(frozen=True, slots=True)
class BufferHearing:
    """The stages of one model, for buffers that are heard again and again.

    Attributes:
        encoder: log-mel to audio features, open; `None` for engines that hear audio themselves.
        decoder: of the same model, open; or an engine with its own loop, which takes no draft.
        tokenizer: of the model.
        plan: the window that a buffer has to fit.
        options: what the caller asked for.
        snug: encode no more of the window than the audio and the margin fill, where the encoder
            can; the decoder's padding costs the same either way.
        word_times: find where each word is, where the decoder can; one pass more.
        hold_back_s: the text ends where the decoder looks at the last so many seconds of audio,
            where it tells: more audio is to come, and what it says there is a guess. 0: nowhere.
    """

    encoder: Encoder | None
    decoder: AnyBackEnd
    tokenizer: Tokenizer
    plan: WindowPlan
    options: DecodingOptions
    snug: bool = False
    word_times: bool = False
    hold_back_s: float = 0.0

    def hear(self, audio: FloatArray, draft: Draft) -> BufferText:
        """Hear a buffer.

        Args:
            audio: `(n_samples,)` float32 16 kHz mono; beyond the window's content it is not heard.
            draft: what the text may begin with.
        """
        audio = audio[: self.plan.content_samples]
        clock, decoder = StageClock(), self.decoder
        with clock.stage("total"):
            if not owns_loop(decoder):
                features = self._encode(audio, clock)
                content_s = audio.size / SAMPLE_RATE_HZ
                heard = self._decode(decoder, features, draft, content_s, clock)
            elif isinstance(decoder, AudioRecognizer):
                with clock.stage("decode"):
                    text = decoder.recognize_audio(audio, self.options)
                heard = BufferText(text_words(text), self.options.language)
            else:
                heard = self._recognize(decoder, self._encode(audio, clock), clock)
        return replace(heard, timings=clock.timings())

    def _encode(self, audio: FloatArray, clock: StageClock) -> FloatArray:
        encoder = self.encoder
        if encoder is None:
            raise ModelError(f"{self.decoder.name} needs an encoder; give one with --encoder")
        plan = replace(self.plan, snug=self.snug and encoder.n_frames is None)
        n_samples = plan.samples_for(audio.size)
        with clock.stage("mel"):
            mel = log_mel(pad_or_trim(audio, n_samples), encoder.spec.dims.n_mels)[np.newaxis]
        with clock.stage("encode"):
            return encoder.encode(mel)

    def _recognize(
        self, recognizer: Recognizer, features: FloatArray, clock: StageClock
    ) -> BufferText:
        with clock.stage("decode"):
            language = self.options.language
            if language == AUTO_LANGUAGE:
                language = next(iter(recognizer.detect_language(features)), "en")
            prefix = self.tokenizer.prefix(language, self.options.task)
            decoded = recognizer.recognize(features, prefix, self.options)[0]
        tokens = () if decoded.is_silence(self.options.gates) else decoded.tokens
        pieces = [TokenWord(*piece) for piece in split_words(self.tokenizer, tokens, language)]
        return BufferText(joined(pieces, language), language, runaway=decoded.runaway)

    def _decode(
        self,
        decoder: AnyDecoder,
        features: FloatArray,
        draft: Draft,
        content_s: float,
        clock: StageClock,
    ) -> BufferText:
        options = self.options
        with clock.stage("cross_kv"):
            state = decoder.start(features, (options.cures.padding(decoder.spec.dims),))
        with clock.stage("decode"):
            language = self._language(decoder, state)
            prompts = PromptMaker(self.tokenizer, decoder.spec.dims, options)
            prompt = prompts.tokens(language, prompts.starting_context(), is_first=False)
            loop = DraftLoop(decoder, self.tokenizer.special, options, self.plan.window_s)
            drafted = loop.run(
                state,
                prompt,
                draft.tokens,
                draft.n_fixed,
                content_s=content_s,
                horizon=self._horizon(decoder, content_s),
            )
            # Words made up of silence are dropped, settled ones stay.
            silent = drafted.decoded.is_silence(options.gates)
            n_kept = draft.n_fixed if silent else len(drafted.decoded.tokens)
            words = self._words(
                decoder, state, drafted.decoded.tokens[:n_kept], language, content_s
            )
        return BufferText(
            words=joined(words, language, drafted.probabilities),
            language=language,
            passes=drafted.passes,
            n_accepted=drafted.n_accepted,
            near_ties=drafted.near_ties,
            runaway=drafted.decoded.runaway,
            guess=drafted.guess,
        )

    def _horizon(self, decoder: AnyDecoder, content_s: float) -> int | None:
        """First encoder position of the audio that is held back."""
        if self.hold_back_s == 0.0 or not decoder.limits.aligns:
            return None
        return max(0, round((content_s - self.hold_back_s) / SECONDS_PER_TIMESTAMP))

    def _language(
        self,
        decoder: AnyDecoder,
        state: Any,  # noqa: ANN401 - the decoder's own state type
    ) -> str:
        if self.options.language != AUTO_LANGUAGE:
            return self.options.language
        return next(iter(detect_languages(decoder, state, self.tokenizer.special)[0]))

    def _words(
        self,
        decoder: AnyDecoder,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        tokens: Sequence[int],
        language: str,
        content_s: float,
    ) -> list[TokenWord]:
        """Words with their times where they are wanted and can be had."""
        tokens = [token for token in tokens if token < self.tokenizer.special.eot]
        if not (self.word_times and decoder.limits.aligns):
            return [TokenWord(*piece) for piece in split_words(self.tokenizer, tokens, language)]
        return align_words(
            decoder,
            state,
            self.tokenizer,
            text=tokens,
            prefix=self.tokenizer.prefix(language, self.options.task),
            content_s=content_s,
            language=language,
        )


def joined(
    pieces: Sequence[TokenWord], language: str, probabilities: Sequence[float] | None = None
) -> tuple[BufferWord, ...]:
    """Words as they are shown: marks without a blank before them belong to the word before.

    Args:
        pieces: words and marks, with times where there are any.
        language: code; languages without blanks keep every character apart.
        probabilities: of each token, where the engine says.
    """
    words: list[BufferWord] = []
    begins: list[int] = []
    at = 0
    for piece in pieces:
        timed = piece.end_s > 0
        if words and not piece.text.startswith(" ") and language not in UNSPACED_LANGUAGES:
            last = words[-1]
            words[-1] = replace(
                last,
                text=last.text + piece.text,
                tokens=last.tokens + piece.tokens,
                end_s=piece.end_s if timed else last.end_s,
            )
        else:
            begins.append(at)
            start_s, end_s = (piece.start_s, piece.end_s) if timed else (None, None)
            words.append(BufferWord(piece.text, piece.tokens, None, start_s, end_s))
        at += len(piece.tokens)
    if probabilities is None:
        return tuple(words)
    return tuple(
        replace(word, probability=_mean(probabilities[begin : begin + len(word.tokens)]))
        for word, begin in zip(words, begins, strict=True)
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def text_words(text: str) -> tuple[BufferWord, ...]:
    """Words of plain text."""
    return tuple(BufferWord(f" {word}") for word in text.split())
