"""Times of words: cross-attention, dynamic time warping, then corrections.

Attention does not know pauses: a word next to one is stretched over it. Silero finds the pauses;
OpenAI Whisper's corrections use the segment's times and the usual length of a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio.vad import (
    CERTAIN_THRESHOLD,
    FRAME_SAMPLES,
    SpeechDetector,
    frames_to_seconds,
    quiet_gain,
    split_frames,
)
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    SECONDS_PER_TIMESTAMP,
    FloatArray,
    IntArray,
    Segment,
    Word,
)
from whisper_hailo.decoding.words import join_punctuation, split_words
from whisper_hailo.text.tokenizer import Tokenizer

MEDIAN_WIDTH: Final = 7
"""Encoder positions, as in OpenAI Whisper."""

_MEDIAN_EXCHANGES: Final = (
    (0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6),
    (2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4),
)  # fmt: skip
"""Sorts the middle one of seven into its place with the fewest comparisons (Devillard, 1998)."""

_DIAGONAL, _DOWN, _ACROSS = 0, 1, 2


def token_starts(attention: FloatArray, n_positions: int, rows: slice) -> IntArray:
    """Return the first position of each token, `(n_rows,)` int64, never decreasing.

    Cross-attention `(n_heads, n_tokens, n_audio_ctx)` is cut to the positions that hold audio and
    renormalised, which removes padding; then normalised per position over the tokens, smoothed over
    time by a median, and averaged over the heads. The cheapest monotonic path through the negated
    `rows` gives each token a stretch of time.

    Source: OpenAI Whisper, `find_alignment`.
    """
    weights = attention[:, :, :n_positions].astype(np.float64)
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    spread = weights.std(axis=-2, keepdims=True)
    weights = (weights - weights.mean(axis=-2, keepdims=True)) / np.maximum(spread, 1e-30)
    matrix = median_filter(weights).mean(axis=0)
    tokens, positions = warp_path(-matrix[rows])
    _, begins = np.unique(tokens, return_index=True)
    starts: IntArray = positions[begins]
    return starts


def median_filter(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the running median along the last axis, whose ends are reflected if long enough."""
    n, reach = values.shape[-1], MEDIAN_WIDTH // 2
    if n <= reach:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(reach, reach)], mode="reflect")
    around = [padded[..., start : start + n] for start in range(MEDIAN_WIDTH)]
    for low, high in _MEDIAN_EXCHANGES:
        pair = around[low], around[high]
        around[low], around[high] = np.minimum(*pair), np.maximum(*pair)
    return around[reach]


def warp_path(cost: NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the cheapest monotonic path through costs `(n, m)`."""
    n, m = cost.shape
    table = np.full((n + 1, m + 1), np.inf)
    table[0, 0] = 0.0
    for row, costs in enumerate(cost):
        total = np.cumsum(costs)
        best = np.minimum(table[row, :-1], table[row, 1:])
        best[1:] -= total[:-1]
        table[row + 1, 1:] = total + np.minimum.accumulate(best)
    diagonal, down, across = table[:-1, :-1], table[:-1, 1:], table[1:, :-1]
    trace = np.full(cost.shape, _ACROSS, dtype=np.int8)
    trace[(down < diagonal) & (down < across)] = _DOWN
    trace[(diagonal < down) & (diagonal < across)] = _DIAGONAL
    row, column = n - 1, m - 1
    cells: list[tuple[int, int]] = []
    while row >= 0:
        cells.append((row, column))
        move = trace[row, column]
        row -= int(move != _ACROSS)
        column -= int(move != _DOWN)
    path = np.array(cells[::-1], dtype=np.int64)
    return path[:, 0], path[:, 1]


_POSITIONS_PER_S: Final = round(1 / SECONDS_PER_TIMESTAMP)
_SAMPLES_PER_POSITION: Final = SAMPLE_RATE_HZ // _POSITIONS_PER_S


def whole_positions(content_s: float) -> int:
    """Return the encoder positions that are all audio; by samples, as 0.58 / 0.02 is 28.99."""
    return max(1, round(content_s * SAMPLE_RATE_HZ) // _SAMPLES_PER_POSITION)


def align_words(
    decoder: AnyDecoder,
    state: DecoderState,
    tokenizer: Tokenizer,
    *,
    text: Sequence[int],
    prefix: tuple[int, ...],
    content_s: float,
    language: str,
    probabilities: bool = True,
) -> list[Word]:
    """Return the words of one window with times and probabilities, in one decoder pass.

    `state` is that of the window alone, with an empty self-attention cache; `text` has no
    timestamps, and `prefix` asks for none. Without `probabilities`, which cost half of the time,
    every word has 1.

    Source: OpenAI Whisper, `find_alignment`.
    """
    if not text:
        return []
    eot = tokenizer.special.eot
    fed = np.array([[*prefix, *text, eot]], dtype=np.int64)
    looks = np.arange(len(prefix) - 1, len(prefix) - 1 + len(text), dtype=np.int64)
    looks = looks if probabilities else looks[:0]
    output, _ = decoder.step(fed, state, looks, alignment=True)
    if output.alignment is None:
        return []
    n_positions = min(output.alignment.shape[-1], whole_positions(content_s))
    # The row of a token is that of the one before it, where the decoder looks for it.
    rows = slice(len(prefix) - 1, len(prefix) + len(text))
    starts = token_starts(output.alignment[0], n_positions, rows)
    likely: FloatArray = np.ones(len(text), np.float32)
    if probabilities:  # among all text ids
        logits = output.logits[0, :, :eot]
        exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
        likely = exponents[np.arange(len(text)), list(text)] / exponents.sum(axis=1)
    words: list[Word] = []
    at = 0
    for word, ids in split_words(tokenizer, text, language):
        after = at + len(ids)
        words.append(
            Word(
                text=word,
                tokens=ids,
                start_s=float(starts[at]) / _POSITIONS_PER_S,
                end_s=float(starts[after]) / _POSITIONS_PER_S,
                probability=float(likely[at:after].mean()),
            )
        )
        at = after
    return words


_STRETCHED_S: Final = 0.4
"""Shorter words hold no pause worth removing."""

_PAUSE_FRAMES: Final = 6
"""A fifth of a second; less silence is part of a word."""

_LEAD_FRAMES: Final = 12
"""What the detector hears before a word, to be as sure of its first sound as of the others."""

_SOUND_S: Final = 0.1
"""Less speech is a click, or the first sound of the next word."""


def trim_pauses(words: Sequence[Word], audio: FloatArray, detector: SpeechDetector) -> list[Word]:
    """Return a window's aligned words without the pauses that they were stretched over.

    Mostly the word after a pause has it, so a word is the last stretch of speech in its time. A
    stretch at its start ends the word before; a short one at its end begins the next word. `audio`
    is that of the window, `(n_samples,)`.
    """
    trimmed = list(words)
    audio = quiet_gain(audio) * audio
    for at, word in enumerate(words):
        if word.end_s - word.start_s <= _STRETCHED_S or not any(map(str.isalnum, word.text)):
            continue
        stretches = _speech_within(word, audio, detector)
        if not stretches:
            continue
        sounds = [each for each in stretches if each[1] - each[0] > _SOUND_S]
        first, own, last = stretches[0], (sounds or stretches)[-1], stretches[-1]
        trimmed[at] = replace(word, start_s=own[0], end_s=own[1])
        before = trimmed[at - 1] if at else None
        if first is not own and before and before.end_s == first[0]:
            trimmed[at - 1] = replace(before, end_s=first[1])
        if last is not own and last[1] == word.end_s and at + 1 < len(words):
            trimmed[at + 1] = replace(words[at + 1], start_s=last[0])
    return trimmed


def _speech_within(
    word: Word, audio: FloatArray, detector: SpeechDetector
) -> list[tuple[float, float]]:
    """Return edges of the speech within a word; less than a pause at its ends belongs to it."""
    first = max(0, round(word.start_s * SAMPLE_RATE_HZ) // FRAME_SAMPLES - _LEAD_FRAMES)
    end = round(word.end_s * SAMPLE_RATE_HZ)
    frames = split_frames(audio[first * FRAME_SAMPLES : end])
    detector.reset()
    spoken = [
        number
        for number, frame in enumerate(frames, first)
        if detector.probability(frame) > CERTAIN_THRESHOLD
    ]
    breaks = [at for at, (a, b) in enumerate(pairwise(spoken), 1) if b - a > _PAUSE_FRAMES]
    pause_s = frames_to_seconds(_PAUSE_FRAMES)
    found = []
    for a, b in pairwise([0, *breaks, len(spoken)] if spoken else ()):
        start_s, end_s = frames_to_seconds(spoken[a]), frames_to_seconds(spoken[b - 1] + 1)
        start_s = word.start_s if start_s < word.start_s + pause_s else start_s
        end_s = word.end_s if end_s > word.end_s - pause_s else end_s
        if end_s > start_s:
            found.append((start_s, end_s))
    return found


_SENTENCE_ENDS: Final = ".。!！?？"  # noqa: RUF001 - full-width marks are meant
_LONGEST_MEDIAN_S: Final = 0.7
_PAUSE_MEDIANS: Final = 4
_SLACK_S: Final = 0.5


def words_into_segments(
    segments: Sequence[Segment],
    aligned: Sequence[Word],
    window: Window,
    *,
    eot: int,
    last_speech_s: float,
) -> list[Segment]:
    """Return a window's segments with their words, and with times that follow them.

    `aligned` words are timed in the window: in recording time, rounding would break ties of their
    lengths otherwise than OpenAI Whisper. `last_speech_s` is the end of the last word before it.

    Source: OpenAI Whisper, `add_word_timestamps`.
    """
    lengths = [word.end_s - word.start_s for word in aligned if word.end_s > word.start_s]
    median_s = min(_LONGEST_MEDIAN_S, float(np.median(lengths)) if lengths else 0.0)
    words = join_punctuation(_shorten_at_sentence_ends(aligned, 2 * median_s))
    result, at = [], 0
    for segment in segments:
        n_text = sum(token < eot for token in segment.tokens)
        taken, own = 0, []
        while at < len(words) and taken < n_text:
            word = words[at]
            if word.text:
                start_s = window.locate(word.start_s, is_start=True)
                end_s = max(start_s, window.locate(word.end_s))
                own.append(replace(word, start_s=round(start_s, 2), end_s=round(end_s, 2)))
            taken += len(word.tokens)
            at += 1
        timed = _correct_times(segment, own, median_s, last_speech_s)
        if timed.words:
            last_speech_s = timed.end_s
        result.append(timed)
    return result


def _shorten_at_sentence_ends(words: Sequence[Word], longest_s: float) -> list[Word]:
    """Take the pause out of a mark at a sentence's end, or of the word after it."""
    mended = list(words)
    for i in range(1, len(mended)):
        word = mended[i]
        if word.end_s - word.start_s <= longest_s:
            continue
        if word.text in _SENTENCE_ENDS:
            mended[i] = replace(word, end_s=word.start_s + longest_s)
        elif mended[i - 1].text in _SENTENCE_ENDS:
            mended[i] = replace(word, start_s=word.end_s - longest_s)
    return mended


def _correct_times(
    segment: Segment, words: list[Word], median_s: float, last_speech_s: float
) -> Segment:
    """Correct the first and last word by the segment's times, then the segment by theirs."""
    if not words:
        return segment
    _mend_after_pause(words, median_s, last_speech_s)
    first = words[0]
    start_s, end_s = first.start_s, segment.end_s
    if segment.start_s < first.end_s and segment.start_s - _SLACK_S > first.start_s:
        start_s = segment.start_s
        begin_s = max(0.0, min(first.end_s - median_s, segment.start_s))
        words[0] = replace(first, start_s=begin_s)
    last = words[-1]
    if segment.end_s > last.start_s and segment.end_s + _SLACK_S < last.end_s:
        words[-1] = replace(last, end_s=max(last.start_s + median_s, segment.end_s))
    else:
        end_s = last.end_s
    return replace(segment, start_s=start_s, end_s=end_s, words=tuple(words))


def _mend_after_pause(words: list[Word], median_s: float, last_speech_s: float) -> None:
    """Limit the first two words after a pause to twice the median."""
    longest_s, first = 2 * median_s, words[0]
    if first.end_s - last_speech_s <= _PAUSE_MEDIANS * median_s:
        return
    long_pair = len(words) > 1 and words[1].end_s - first.start_s > 2 * longest_s
    if first.end_s - first.start_s <= longest_s and not long_pair:
        return
    if len(words) > 1 and words[1].end_s - words[1].start_s > longest_s:
        seam_s = words[1].end_s - longest_s
        words[0] = replace(first, end_s=seam_s)
        words[1] = replace(words[1], start_s=seam_s)
    words[0] = replace(words[0], start_s=words[0].end_s - longest_s)
