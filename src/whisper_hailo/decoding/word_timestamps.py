"""Times of words: cross-attention, dynamic time warping, then corrections.

Attention does not know pauses: a word next to one is stretched over it. Silero finds the pauses;
OpenAI Whisper's corrections use the segment's times and the usual length of a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

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

_TINY: Final = 1e-30
"""Least divisor of attention: a head may ignore the audio."""

_DIAGONAL: Final = 0
_DOWN: Final = 1
_ACROSS: Final = 2
"""Moves of a path through a table: to the next token and position, token, or position."""


def token_starts(attention: FloatArray, n_positions: int, rows: slice) -> IntArray:
    """Return the first position of each token, `(n_rows,)` int64, never decreasing.

    Cross-attention `(n_heads, n_tokens, n_audio_ctx)` is cut to the positions that hold audio and
    renormalised, which removes padding; then normalised per position over the tokens, smoothed over
    time by a median, and averaged over the heads. The cheapest monotonic path through the negated
    `rows` gives each token a stretch of time.

    Source: OpenAI Whisper, `find_alignment`.
    """
    weights = attention[:, :, :n_positions].astype(np.float64)
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), _TINY)
    mean = weights.mean(axis=-2, keepdims=True)
    spread = weights.std(axis=-2, keepdims=True)
    weights = (weights - mean) / np.maximum(spread, _TINY)
    matrix = median_filter(weights).mean(axis=0)
    tokens, positions = warp_path(-matrix[rows])
    _, begins = np.unique(tokens, return_index=True)
    starts: IntArray = positions[begins]
    return starts


def median_filter(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the running median along the last axis, whose ends are reflected if long enough."""
    n = values.shape[-1]
    reach = MEDIAN_WIDTH // 2
    if n <= reach:
        return values
    widths = [(0, 0)] * (values.ndim - 1)
    padded = np.pad(values, [*widths, (reach, reach)], mode="reflect")
    around = [padded[..., start : start + n] for start in range(MEDIAN_WIDTH)]
    for low, high in _MEDIAN_EXCHANGES:
        smaller = np.minimum(around[low], around[high])
        larger = np.maximum(around[low], around[high])
        around[low] = smaller
        around[high] = larger
    return around[reach]


def warp_path(cost: NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the cheapest monotonic path through costs `(n, m)`.

    A whole row of the table is computed at once: moves within it are a running minimum.
    """
    n_rows, n_columns = cost.shape
    table = np.full((n_rows + 1, n_columns + 1), np.inf)
    table[0, 0] = 0.0
    for row in range(n_rows):
        total = np.cumsum(cost[row])
        entry = np.minimum(table[row, :-1], table[row, 1:])
        entry[1:] -= total[:-1]
        table[row + 1, 1:] = total + np.minimum.accumulate(entry)
    diagonal = table[:-1, :-1]
    down = table[:-1, 1:]
    across = table[1:, :-1]
    moves = np.full(cost.shape, _ACROSS, dtype=np.int8)
    moves[(down < diagonal) & (down < across)] = _DOWN
    moves[(diagonal < down) & (diagonal < across)] = _DIAGONAL
    return _trace_back(moves)


def _trace_back(moves: NDArray[np.int8]) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the path that ends in the last cell."""
    row = moves.shape[0] - 1
    column = moves.shape[1] - 1
    cells: list[tuple[int, int]] = []
    while row >= 0:
        cells.append((row, column))
        move = moves[row, column]
        if move != _ACROSS:
            row -= 1
        if move != _DOWN:
            column -= 1
    cells.reverse()
    path = np.array(cells, dtype=np.int64)
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
    # The decoder looks for a token in the row of the one before it.
    before = len(prefix) - 1
    n_looks = len(text) if probabilities else 0
    looks = np.arange(before, before + n_looks, dtype=np.int64)
    output, _ = decoder.step(fed, state, looks, alignment=True)
    if output.alignment is None:
        return []
    n_positions = min(output.alignment.shape[-1], whole_positions(content_s))
    rows = slice(before, before + len(text) + 1)
    starts = token_starts(output.alignment[0], n_positions, rows)
    likelihoods: FloatArray = np.ones(len(text), np.float32)
    if probabilities:
        likelihoods = _token_probabilities(output.logits[0, :, :eot], text)
    words: list[Word] = []
    first = 0
    for word, ids in split_words(tokenizer, text, language):
        end = first + len(ids)
        words.append(
            Word(
                text=word,
                tokens=ids,
                start_s=float(starts[first]) / _POSITIONS_PER_S,
                end_s=float(starts[end]) / _POSITIONS_PER_S,
                probability=float(likelihoods[first:end].mean()),
            )
        )
        first = end
    return words


def _token_probabilities(logits: FloatArray, tokens: Sequence[int]) -> FloatArray:
    """Return `(n,)` probabilities of tokens among all text ids, of logits `(n, n_text_ids)`."""
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen = exponents[np.arange(len(tokens)), list(tokens)]
    probabilities: FloatArray = chosen / exponents.sum(axis=1)
    return probabilities


_STRETCHED_S: Final = 0.4
"""Shorter words hold no pause worth removing."""

_PAUSE_FRAMES: Final = 6
"""A fifth of a second; less silence is part of a word."""

_LEAD_FRAMES: Final = 12
"""What the detector hears before a word, to be as sure of its first sound as of the others."""

_SOUND_S: Final = 0.1
"""Less speech is a click, or the first sound of the next word."""


def trim_pauses(
    words: Sequence[Word], audio: FloatArray, detector: SpeechDetector
) -> list[Word]:
    """Return a window's aligned words without the pauses that they were stretched over.

    Mostly the word after a pause has it, so a word is the last stretch of speech in its time. A
    stretch at its start ends the word before; a short one at its end begins the next word. `audio`
    is that of the window, `(n_samples,)`.
    """
    trimmed = list(words)
    audio = quiet_gain(audio) * audio
    for index, word in enumerate(words):
        has_letters = any(letter.isalnum() for letter in word.text)
        if _length_s(word) <= _STRETCHED_S or not has_letters:
            continue
        stretches = _speech_within(word, audio, detector)
        if not stretches:
            continue
        audible = [stretch for stretch in stretches if _length_s(stretch) > _SOUND_S]
        spoken = (audible or stretches)[-1]
        trimmed[index] = replace(word, start_s=spoken.start_s, end_s=spoken.end_s)
        first = stretches[0]
        before = trimmed[index - 1] if index else None
        if first is not spoken and before and before.end_s == first.start_s:
            trimmed[index - 1] = replace(before, end_s=first.end_s)
        last = stretches[-1]
        has_next = index + 1 < len(words)
        if last is not spoken and last.end_s == word.end_s and has_next:
            trimmed[index + 1] = replace(words[index + 1], start_s=last.start_s)
    return trimmed


class _Stretch(NamedTuple):
    """A stretch of speech in a window."""

    start_s: float
    end_s: float


def _length_s(timed: Word | _Stretch) -> float:
    return timed.end_s - timed.start_s


def _speech_within(
    word: Word, audio: FloatArray, detector: SpeechDetector
) -> list[_Stretch]:
    """Return the speech within a word; less than a pause at its ends belongs to it."""
    first = max(0, round(word.start_s * SAMPLE_RATE_HZ) // FRAME_SAMPLES - _LEAD_FRAMES)
    end = round(word.end_s * SAMPLE_RATE_HZ)
    frames = split_frames(audio[first * FRAME_SAMPLES : end])
    detector.reset()
    # All frames, in order: the detector remembers.
    spoken = [
        number
        for number, frame in enumerate(frames, start=first)
        if detector.probability(frame) > CERTAIN_THRESHOLD
    ]
    pause_s = frames_to_seconds(_PAUSE_FRAMES)
    stretches: list[_Stretch] = []
    for first_frame, last_frame in _split_at_pauses(spoken):
        start_s = frames_to_seconds(first_frame)
        if start_s < word.start_s + pause_s:
            start_s = word.start_s
        end_s = frames_to_seconds(last_frame + 1)
        if end_s > word.end_s - pause_s:
            end_s = word.end_s
        if end_s > start_s:
            stretches.append(_Stretch(start_s, end_s))
    return stretches


def _split_at_pauses(spoken: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last of rising frame numbers that no pause parts."""
    runs: list[tuple[int, int]] = []
    for number in spoken:
        if runs and number - runs[-1][1] <= _PAUSE_FRAMES:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


_SENTENCE_ENDS: Final = ".。!！?？"  # noqa: RUF001 - full-width marks are meant
_LONGEST_MEDIAN_S: Final = 0.7
"""Most that counts as the usual length of a word."""

_PAUSE_MEDIANS: Final = 4
"""Usual lengths of a word that make a pause before a segment."""

_SLACK_S: Final = 0.5
"""Most that a word may begin before its segment, or end after it."""


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
    lengths = [_length_s(word) for word in aligned if word.end_s > word.start_s]
    median_s = min(_LONGEST_MEDIAN_S, float(np.median(lengths))) if lengths else 0.0
    words = join_punctuation(_shorten_at_sentence_ends(aligned, 2 * median_s))
    result: list[Segment] = []
    index = 0
    for segment in segments:
        n_text = sum(token < eot for token in segment.tokens)
        n_taken = 0
        located: list[Word] = []
        while index < len(words) and n_taken < n_text:
            word = words[index]
            if word.text:  # else its neighbour has it
                located.append(_locate(word, window))
            n_taken += len(word.tokens)
            index += 1
        timed = _correct_times(segment, located, median_s, last_speech_s)
        if timed.words:
            last_speech_s = timed.end_s
        result.append(timed)
    return result


def _locate(word: Word, window: Window) -> Word:
    """Return a window's word, timed in the recording."""
    start_s = window.locate(word.start_s, is_start=True)
    end_s = max(start_s, window.locate(word.end_s))
    return replace(word, start_s=round(start_s, 2), end_s=round(end_s, 2))


def _shorten_at_sentence_ends(words: Sequence[Word], longest_s: float) -> list[Word]:
    """Take the pause out of a mark at a sentence's end, or of the word after it."""
    mended = list(words)
    for index in range(1, len(mended)):
        word = mended[index]
        if _length_s(word) <= longest_s:
            continue
        if word.text in _SENTENCE_ENDS:
            mended[index] = replace(word, end_s=word.start_s + longest_s)
        elif mended[index - 1].text in _SENTENCE_ENDS:
            mended[index] = replace(word, start_s=word.end_s - longest_s)
    return mended


def _correct_times(
    segment: Segment, words: list[Word], median_s: float, last_speech_s: float
) -> Segment:
    """Correct the first and last word by the segment's times, then the segment by theirs."""
    if not words:
        return segment
    _mend_after_pause(words, median_s, last_speech_s)
    first = words[0]
    start_s = first.start_s
    if segment.start_s < first.end_s and segment.start_s - _SLACK_S > first.start_s:
        start_s = segment.start_s
        begin_s = max(0.0, min(first.end_s - median_s, segment.start_s))
        words[0] = replace(first, start_s=begin_s)
    # Not before: a single word is the first and the last.
    last = words[-1]
    end_s = last.end_s
    if segment.end_s > last.start_s and segment.end_s + _SLACK_S < last.end_s:
        end_s = segment.end_s
        words[-1] = replace(last, end_s=max(last.start_s + median_s, segment.end_s))
    return replace(segment, start_s=start_s, end_s=end_s, words=tuple(words))


def _mend_after_pause(words: list[Word], median_s: float, last_speech_s: float) -> None:
    """Limit the first two words after a pause to twice the median."""
    longest_s = 2 * median_s
    first = words[0]
    second = words[1] if len(words) > 1 else None
    if first.end_s - last_speech_s <= _PAUSE_MEDIANS * median_s:
        return
    is_long_pair = second is not None and second.end_s - first.start_s > 2 * longest_s
    if _length_s(first) <= longest_s and not is_long_pair:
        return
    if second is not None and _length_s(second) > longest_s:
        seam_s = second.end_s - longest_s
        first = replace(first, end_s=seam_s)
        words[1] = replace(second, start_s=seam_s)
    words[0] = replace(first, start_s=first.end_s - longest_s)
