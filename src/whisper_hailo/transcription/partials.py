"""Partials: the words of live audio while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
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
        context.n_windows = 1  # no recording begins here: what is for its first window is not
        if context.language == AUTO_LANGUAGE and self.previous_language is not None:
            context.language_probs, context.n_detections = {self.previous_language: 1.0}, 1
        window = Window(self.audio[:n_samples], 0.0)
        return WindowRequest(window, context, self.draft, self.word_timestamps, self.hold_back_s)


def translation_options(options: DecodingOptions, language: str) -> DecodingOptions:
    """Return the options to translate the same audio, without prompts in its language."""
    options = replace(options, language=language, detect_each_window=False)
    return replace(options, task="translate", prompts=PromptOptions())


def partial_text(result: WindowResult, tokenizer: Tokenizer) -> BufferText:
    """Return the text of one window of live audio."""
    decoded, language = result.decoded, result.language
    if not decoded.tokens:  # of an engine that gives text alone, or of nothing
        text = " ".join(segment.text for segment in result.segments)
        return BufferText(words_of_text(text), language, runaway=decoded.runaway)
    drafted = decoded.drafted or Drafted((), 0, 0)
    kept = result.kept_tokens(tokenizer.special.eot)
    pieces = result.words or [
        Word(0.0, 0.0, text, 0.0, ids) for text, ids in split_words(tokenizer, kept, language)
    ]
    return BufferText(
        words=join_words(pieces, language, drafted.probabilities or None),
        language=language,
        passes=drafted.n_passes,
        runaway=decoded.runaway,
        guess=drafted.guess,
    )


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
        start_s, end_s = (piece.start_s, piece.end_s) if piece.end_s > 0 else (None, None)
        if words and not piece.text.startswith(" ") and language not in UNSPACED_LANGUAGES:
            last = words[-1]
            text, tokens = last.text + piece.text, last.tokens + piece.tokens
            end_s = last.end_s if end_s is None else end_s
            words[-1] = replace(last, text=text, tokens=tokens, end_s=end_s)
        else:
            words.append(BufferWord(piece.text, piece.tokens, None, start_s, end_s))
    if probabilities is None:
        return tuple(words)
    known, begin = [], 0
    for word in words:
        own = probabilities[begin : begin + len(word.tokens)]
        known.append(replace(word, probability=sum(own) / len(word.tokens)))
        begin += len(own)
    return tuple(known)


def words_of_text(text: str) -> tuple[BufferWord, ...]:
    """Split plain text into words without times, each with its leading space."""
    return tuple(BufferWord(f" {word}") for word in text.split())
