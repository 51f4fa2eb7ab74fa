"""Results and values that the stages pass on: frozen, slotted, typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float32]
SampleArray: TypeAlias = NDArray[np.floating[Any] | np.signedinteger[Any]]
"""Samples as programs have them: floats in [-1, 1], or whole numbers in the range of their type."""
"""float32 array; the docstring that uses it names the axes."""

IntArray: TypeAlias = NDArray[np.int64]
"""int64 array; the docstring that uses it names the axes."""

SAMPLE_RATE_HZ = 16_000
"""All models take 16 kHz mono."""

FRAMES_PER_SECOND = 100
"""Log-mel frames per second of audio: a hop of 160 samples."""

FRAMES_PER_POSITION = 2
"""The encoder's second convolution halves the number of frames."""

SECONDS_PER_TIMESTAMP = FRAMES_PER_POSITION / FRAMES_PER_SECOND
"""One timestamp id per encoder position."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Wall-clock milliseconds per stage, summed over all windows of one input.

    `total_ms` is the whole call from opened audio to text, without `load_ms`. Windows are encoded
    ahead of the decoder, so the stages can add up to more than the total.
    """

    load_ms: float = 0.0
    mel_ms: float = 0.0
    encode_ms: float = 0.0
    cross_kv_ms: float = 0.0
    decode_ms: float = 0.0
    total_ms: float = 0.0


Speaker: TypeAlias = int | str
"""A speaker's number in order of appearance, from 0, or the name that was given; of recordings
whose channels are transcribed separately the channel."""


UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
"""Languages that are written without spaces between words."""


@dataclass(frozen=True, slots=True)
class Word:
    """A timed word; times are from the beginning of the input.

    Attributes:
        text: with its punctuation and its leading space, if it has one.
        probability: mean probability in [0, 1] of its tokens among all text.
        speaker: see `Speaker`, if speakers were told apart.
    """

    start_s: float
    end_s: float
    text: str
    probability: float
    tokens: tuple[int, ...] = ()
    speaker: Speaker | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A timed stretch of text; times are from the beginning of the input.

    Attributes:
        text: without surrounding spaces.
        tokens: token ids, without prompt and end-of-transcript.
        avg_logprob: mean natural-log probability per token of the segment's window,
            end-of-transcript counted.
        no_speech_prob: probability in [0, 1] that the window holds no speech.
        runaway: the token budget was used up without an end-of-transcript token.
        temperature: 0 is greedy or beam search.
        compression_ratio: of the window's text; above 2.4 it mostly repeats itself.
        speaker: see `Speaker`, if speakers or channels were told apart.
    """

    start_s: float
    end_s: float
    text: str
    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float
    runaway: bool = False
    temperature: float = 0.0
    compression_ratio: float = 0.0
    words: tuple[Word, ...] = ()
    language: str = ""
    speaker: Speaker | None = None
    window_start_s: float = 0.0


@dataclass(frozen=True, slots=True)
class UntranscribedSpeech:
    """A stretch of a recording where the detector hears speech and no text was kept.

    Attributes:
        reason: `unlikely`: no attempt was likely, `no_speech`: the model took it for silence,
            `left_out`: the text around it skips it.
        language: code of another language that it may be in; empty if none is likely.
    """

    start_s: float
    end_s: float
    reason: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that shaped a result, recorded with it.

    Attributes:
        encoder: name of the encoder backend, such as `onnx-fp32`; `decoder` is that of the decoder.
        window_s: encoder input in seconds.
        margin_s: seconds kept free at the end of each window.
        pad_to: padding target in encoder positions; 0 is no padding.
        repetition_penalty: 1.0 is off.
        eot_boost: in logits, 0.0 is off.
        quantization: decoder weights: `none`, `int8` or `int4`.
        threads: per operator; 0 lets the runtime choose.
        reasons: why these backends were chosen, one line each.
        timestamps: whether the model wrote times.
        batch_size: most windows decoded together.
        trim_window: windows that were not full were cut after their audio.
    """

    model: str
    encoder: str
    decoder: str
    window_s: float
    margin_s: float
    pad_to: int
    repetition_penalty: float
    eot_boost: float
    quantization: str
    threads: int
    reasons: tuple[str, ...] = ()
    windows: str = "consecutive"
    search: str = "greedy"
    timestamps: bool = False
    batch_size: int = 1
    trim_window: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """The result of one input.

    Attributes:
        audio: name of the input as given.
        task: `transcribe` or `translate`.
        language_probs: language code to probability, likeliest first, if it was detected.
        untranscribed: speech without text, in order.
    """

    audio: str
    duration_s: float
    language: str
    task: str
    segments: tuple[Segment, ...]
    timings: Timings
    settings: Settings
    language_probs: dict[str, float] = field(default_factory=dict)
    untranscribed: tuple[UntranscribedSpeech, ...] = ()

    @property
    def blank(self) -> str:
        """The separator of segments."""
        return "" if self.language in UNSPACED_LANGUAGES else " "

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages of its segments, those with most text first."""
        n_letters: dict[str, int] = {}
        for segment in self.segments:
            language = segment.language or self.language
            n_letters[language] = n_letters.get(language, 0) + len(segment.text)
        return tuple(sorted(n_letters, key=n_letters.__getitem__, reverse=True)) or (
            self.language,
        )

    @property
    def text(self) -> str:
        """The text of all segments."""
        return self.blank.join(
            segment.text for segment in self.segments if segment.text
        )


@dataclass(frozen=True, slots=True)
class BufferWord:
    """A word of live audio.

    Attributes:
        text: with its leading space, in languages with spaces.
        tokens: its ids; empty for models that only give text.
        probability: mean over its tokens in [0, 1]; `None` if unknown.
        start_s: from the buffer's start, if asked for.
    """

    text: str
    tokens: tuple[int, ...] = ()
    probability: float | None = None
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class BufferText:
    """The text of a buffer of live audio.

    Attributes:
        language: code; the detected one if it was asked for.
        passes: how often the decoder ran; 0 if unknown.
        guess: ids that may follow, held back until more audio confirms them.
        translation: in English, if asked for and the text is not English.
    """

    words: tuple[BufferWord, ...]
    language: str = "en"
    passes: int = 0
    runaway: bool = False
    guess: tuple[int, ...] = ()
    translation: str | None = None
    timings: Timings = field(default_factory=Timings)

    @property
    def text(self) -> str:
        """The text of all words."""
        return "".join(word.text for word in self.words).strip()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids of all words; followed by `guess` they are the draft of the next buffer."""
        return tuple(token for word in self.words for token in word.tokens)
