"""Partials: the words of live audio while it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import (
    UNSPACED_LANGUAGES,
    BufferText,
    BufferWord,
    FloatArray,
    Word,
)
from whisper_hailo.decoding.decoded import Drafted
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.decoding.words import split_words
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.window import Context, WindowRequest, WindowResult


@dataclass(frozen=True, slots=True)
class PartialBuffer:
    """Live audio as far as it has come, `(n_samples,)` float32 at 16 kHz mono.

    The other fields are those of `WindowRequest`; `previous_language` is that of the speech before,
    which unsure detection keeps.
    """

    audio: FloatArray
    draft: Draft = field(default_factory=Draft)
    word_timestamps: bool = False
    hold_back_s: float = 0.0
    previous_language: str | None = None

    def request(self, context: Context, n_samples: int) -> WindowRequest:
        """Return its window."""
        context.n_windows = (
            1  # no recording begins here: what is for its first window is not
        )
        if context.language == AUTO_LANGUAGE and self.previous_language is not None:
            context.language_probs = {self.previous_language: 1.0}
            context.n_detections = 1
        return WindowRequest(
            window=Window(self.audio[:n_samples], 0.0),
            context=context,
            draft=self.draft,
            word_timestamps=self.word_timestamps,
            hold_back_s=self.hold_back_s,
        )


def translation_options(options: DecodingOptions, language: str) -> DecodingOptions:
    """Return the options to translate the same audio, without prompts in its language."""
    return replace(
        options,
        language=language,
        detect_each_window=False,
        task="translate",
        prompts=PromptOptions(),
    )


def partial_text(result: WindowResult, tokenizer: Tokenizer) -> BufferText:
    """Return the text of one window of live audio."""
    decoded = result.decoded
    language = result.language
    if not decoded.tokens:  # of an engine that gives text alone, or of nothing
        text = " ".join(segment.text for segment in result.segments)
        return BufferText(words_of_text(text), language, runaway=decoded.runaway)
    drafted = decoded.drafted or Drafted(probabilities=(), n_fixed=0, n_passes=0)
    pieces = result.words or _untimed_words(result, tokenizer)
    return BufferText(
        words=join_words(pieces, language, drafted.probabilities or None),
        language=language,
        passes=drafted.n_passes,
        runaway=decoded.runaway,
        guess=drafted.guess,
    )


def _untimed_words(result: WindowResult, tokenizer: Tokenizer) -> list[Word]:
    """Return the words of a window whose audio was not aligned; their times are 0."""
    tokens = result.kept_tokens(tokenizer.special.eot)
    return [
        Word(start_s=0.0, end_s=0.0, text=text, probability=0.0, tokens=ids)
        for text, ids in split_words(tokenizer, tokens, result.language)
    ]


def join_words(
    pieces: Sequence[Word],
    language: str,
    probabilities: Sequence[float] | None = None,
) -> tuple[BufferWord, ...]:
    """Join marks without a space before them to the previous word, except in unspaced languages.

    Each token has a probability, if known.
    """
    words: list[BufferWord] = []
    for piece in pieces:
        is_timed = piece.end_s > 0
        word = BufferWord(
            text=piece.text,
            tokens=piece.tokens,
            probability=None,
            start_s=piece.start_s if is_timed else None,
            end_s=piece.end_s if is_timed else None,
        )
        if (
            words
            and not piece.text.startswith(" ")
            and language not in UNSPACED_LANGUAGES
        ):
            words[-1] = _join(words[-1], word)
        else:
            words.append(word)
    if probabilities is None:
        return tuple(words)
    return tuple(_with_probabilities(words, probabilities))


def _join(word: BufferWord, mark: BufferWord) -> BufferWord:
    return replace(
        word,
        text=word.text + mark.text,
        tokens=word.tokens + mark.tokens,
        end_s=word.end_s if mark.end_s is None else mark.end_s,
    )


def _with_probabilities(
    words: Sequence[BufferWord], probabilities: Sequence[float]
) -> Iterator[BufferWord]:
    """Yield the words with the mean probability of their tokens."""
    first = 0
    for word in words:
        of_word = probabilities[first : first + len(word.tokens)]
        yield replace(word, probability=sum(of_word) / len(word.tokens))
        first += len(of_word)


def words_of_text(text: str) -> tuple[BufferWord, ...]:
    """Split plain text into words without times, each with its leading space."""
    return tuple(BufferWord(f" {word}") for word in text.split())
