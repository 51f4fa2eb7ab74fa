"""Words by a decoder of known attention: times, probabilities, corrections."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY_TOKENS, toy_spec
from tests.fakes.words import word
from whisper_hailo.audio.windows import PackedPiece, Window
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.word_timestamps import (
    MEDIAN_WIDTH,
    align_words,
    median_filter,
    token_starts,
    trim_pauses,
    warp_path,
    whole_positions,
    words_into_segments,
)
from whisper_hailo.decoding.words import APPENDED, join_punctuation
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.segments import round_times

N_POSITIONS = 100
"""Two seconds of encoder positions."""
PREFIX_IDS = 4


@dataclass
class AttendingDecoder:
    """A decoder that attends to one stretch of audio after the other, with known token odds.

    The decoder looks for a token when it chooses it: while it is fed the one before.

    Attributes:
        looks: for each token fed, first and last position (exclusive) that it looks at.
        odds: of each text token: that of the chosen id to that of all other text together.
        height: by how much all logits of each text token are higher than those of the one before.
    """

    looks: list[tuple[int, int]]
    odds: list[float]
    fed: list[list[int]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    attends: bool = True
    height: float = 0.0
    spec = toy_spec()

    def step(
        self, tokens: np.ndarray, state: object, positions: np.ndarray, **named: Any
    ) -> tuple[StepOutput, object]:
        assert named == {"alignment": True}
        self.fed += tokens.tolist()
        self.positions += positions.tolist()
        n_vocab = 60_000
        logits = np.full((1, len(positions), n_vocab), -np.inf, np.float32)
        for row, (position, odds) in enumerate(
            zip(positions, self.odds, strict=bool(positions.size))
        ):
            logits[0, row, tokens[0, position + 1]] = np.log(odds)
            logits[0, row, 1] = 0.0  # all other text
            logits[0, row, -1] = 9.0  # a time, which does not count
            logits[0, row] += row * self.height
        alignment = np.full((1, 2, tokens.shape[1], N_POSITIONS), 1e-6, np.float32)
        for row, (start, end) in enumerate(self.looks):
            alignment[0, :, row, start:end] = 1 / (end - start)
        sums = np.zeros(logits.shape[:2], np.float32)
        return StepOutput(logits, sums, alignment if self.attends else None), state


def aligned(
    tokenizer: Tokenizer,
    text: str,
    edges: list[int],
    *,
    content_s: float = 2.0,
    odds: list[float] | None = None,
    height: float = 0.0,
    probabilities: bool = True,
) -> tuple[list[Word], AttendingDecoder, list[int]]:
    """Words of a text whose n-th token is said from the n-th edge to the next."""
    ids = list(tokenizer.encode(text))
    assert len(edges) == len(ids) + 1
    stretches = [*pairwise(edges), (edges[-1], N_POSITIONS)]
    # The prefix but for its last token looks at nothing in particular.
    decoder = AttendingDecoder(
        [(0, N_POSITIONS)] * (PREFIX_IDS - 1) + stretches, odds or [3.0] * len(ids)
    )
    decoder.height = height
    prefix = tokenizer.prefix("en", "transcribe", timestamps=False)
    assert len(prefix) == PREFIX_IDS
    words = align_words(
        decoder,  # type: ignore[arg-type]
        None,
        tokenizer,
        text=ids,
        prefix=prefix,
        content_s=content_s,
        language="en",
        probabilities=probabilities,
    )
    return words, decoder, [*prefix, *ids, tokenizer.special.eot]


def test_align_words_times_words_by_attention(
    tokenizer: Tokenizer,
) -> None:
    """Positions are 0.02 s each."""
    words, decoder, fed = aligned(tokenizer, " one two three", [0, 20, 45, 80])
    assert [word.text for word in words] == [" one", " two", " three"]
    assert [word.tokens for word in words] == [(token,) for token in fed[PREFIX_IDS:-1]]
    assert [(word.start_s, word.end_s) for word in words] == [
        (0, 0.4),
        (0.4, 0.9),
        (0.9, 1.6),
    ]
    assert decoder.fed == [fed]
    assert decoder.positions == [3, 4, 5]  # where each of the three was chosen


def test_align_words_without_probabilities_asks_no_logits(
    tokenizer: Tokenizer,
) -> None:
    edges = [0, 20, 45, 80]
    odds = [1.0, 2.0, 3.0]
    exact, _, fed = aligned(tokenizer, " one two three", edges, odds=odds)
    words, decoder, _ = aligned(
        tokenizer, " one two three", edges, odds=odds, probabilities=False
    )
    assert (decoder.fed, decoder.positions) == ([fed], [])
    assert [word.probability for word in words] == [1, 1, 1]
    assert [replace(word, probability=1.0) for word in exact] == words


def test_align_words_of_several_tokens_spans_all(
    tokenizer: Tokenizer,
) -> None:
    n_tokens = len(tokenizer.encode(" Unbelievably"))
    assert n_tokens > 1
    edges = [10 * i for i in range(n_tokens + 2)]
    words, _, _ = aligned(tokenizer, " Unbelievably good", edges)
    assert [word.text for word in words] == [" Unbelievably", " good"]
    assert words[0].end_s == words[1].start_s == pytest.approx(0.2 * n_tokens)
    assert words[1].end_s == pytest.approx(0.2 * (n_tokens + 1))


def test_align_words_ignores_attention_to_padding(
    tokenizer: Tokenizer,
) -> None:
    """Attention beyond 1.2 s falls on the end."""
    words, _, _ = aligned(tokenizer, " one two three", [0, 20, 40, 90], content_s=1.2)
    assert [word.start_s for word in words] == [0, 0.4, 0.8]
    assert max(word.end_s for word in words) <= 1.2


def test_align_words_averages_probabilities_of_tokens(
    tokenizer: Tokenizer,
) -> None:
    ids = tokenizer.encode(" Unbelievably")
    odds = [1.0, *[3.0] * (len(ids) - 1), 9.0]
    edges = [10 * i for i in range(len(ids) + 2)]
    words, _, _ = aligned(tokenizer, " Unbelievably good", edges, odds=odds)
    mean = (0.5 + 0.75 * (len(ids) - 1)) / len(ids)
    assert words[0].probability == pytest.approx(mean, abs=1e-6)
    assert words[1].probability == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("height", [-200.0, 200.0])
def test_align_words_of_large_logits_is_finite(
    tokenizer: Tokenizer,
    height: float,
) -> None:
    """`exp` of 400 is no float32, that of -400 nothing."""
    edges = [0, 20, 45, 80]
    odds = [1.0, 3.0, 9.0]
    words, _, _ = aligned(tokenizer, " one two three", edges, odds=odds, height=height)
    found = [word.probability for word in words]
    assert found == pytest.approx([0.5, 0.75, 0.9], abs=1e-4)


def test_token_starts_renormalises_without_padding() -> None:
    """The first looks at the audio for a thousandth of its time, and there at its beginning."""
    attention = np.full((1, 3, 30), 1e-6, np.float32)
    attention[0, 0, :4] = 0.001
    attention[0, 0, 12:] = 0.055
    attention[0, 1, :4] = 0.01
    attention[0, 1, 4:8] = 0.24
    attention[0, 2, 8:12] = 0.25
    assert token_starts(attention, 12, slice(None)).tolist() == [0, 4, 8]


def starts_by_the_book(
    attention: np.ndarray, n_positions: int, rows: slice
) -> list[int]:
    """OpenAI Whisper's `find_alignment` in plain steps: its median is over seven positions."""
    heads = []
    for head in attention[:, :, :n_positions].astype(np.float64):
        shares = head / head.sum(axis=1, keepdims=True)
        normal = (shares - shares.mean(axis=0)) / shares.std(axis=0)
        padded = np.concatenate(
            [normal[:, 3:0:-1], normal, normal[:, -2:-5:-1]], axis=1
        )
        smooth = [
            np.median(padded[:, at : at + 7], axis=1) for at in range(n_positions)
        ]
        heads.append(np.stack(smooth, axis=1))
    cost = -np.mean(heads, axis=0)[rows]
    best = np.full(cost.shape, np.inf)
    for i, j in np.ndindex(*cost.shape):
        before = [
            best[a, b]
            for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1))
            if min(a, b) >= 0
        ]
        best[i, j] = cost[i, j] + min(before, default=0.0)
    i = cost.shape[0] - 1
    j = cost.shape[1] - 1
    starts = {i: j}
    while i or j:
        ways = [
            (a, b)
            for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1))
            if min(a, b) >= 0
        ]
        i, j = min(ways, key=lambda way: float(best[way]))
        starts[i] = j
    return [starts[row] for row in sorted(starts)]


@pytest.mark.parametrize("seed", range(6))
def test_token_starts_match_a_plain_implementation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    attention = rng.random((3, 9, 60), dtype=np.float32)
    for rows, n_positions in ((slice(2, 8), 40), (slice(None), 60), (slice(0, 1), 9)):
        found = token_starts(attention, n_positions, rows)
        assert found.tolist() == starts_by_the_book(attention, n_positions, rows)


def test_align_words_without_text_or_attention_is_empty(
    tokenizer: Tokenizer,
) -> None:
    decoder = AttendingDecoder([], [])
    call = {"prefix": (1, 2), "content_s": 2.0, "language": "en"}
    assert align_words(decoder, None, tokenizer, text=[], **call) == []  # type: ignore[arg-type]
    assert decoder.fed == []
    blind = AttendingDecoder([(0, 10)] * 4, [3.0], attends=False)
    assert align_words(blind, None, tokenizer, text=[5], **call) == []  # type: ignore[arg-type]


EOT = 50
SpokenWord = tuple[str, float, float]
Times = list[tuple[float, float]]


def window(start_s: float = 0.0, pieces: tuple[PackedPiece, ...] = ()) -> Window:
    return Window(np.zeros(480_000, np.float32), start_s, pieces)


def corrected(
    words: list[SpokenWord],
    edges: Times,
    last_speech_s: float = 0.0,
    at: Window | None = None,
    *,
    n_tokens: list[int] | None = None,
    appended: str = APPENDED,
) -> list[Segment]:
    """Segments at `edges` that share the words, one token each, in order.

    Args:
        words: text, start and end in the window.
        edges: start and end of each segment.
        last_speech_s: end of the last word before.
        at: the window, at the recording's start if not told.
        n_tokens: of each segment; one has all if not told.
        appended: marks that join the word before.
    """
    timed = [
        word(text, (i,), start, end, 0.5) for i, (text, start, end) in enumerate(words)
    ]
    counts = n_tokens or [len(words)]
    ids = iter(range(len(words)))
    segments = [
        Segment(start, end, "text", (60, *(next(ids) for _ in range(n)), 61), -0.1, 0.0)
        for (start, end), n in zip(edges, counts, strict=True)
    ]
    joined = partial(join_punctuation, appended=appended)
    with patch("whisper_hailo.decoding.word_timestamps.join_punctuation", joined):
        return words_into_segments(
            segments, timed, at or window(), eot=EOT, last_speech_s=last_speech_s
        )


def times_of(segment: Segment) -> Times:
    return [(word.start_s, word.end_s) for word in segment.words]


STEADY = [(" a", 1.0, 1.4), (" b", 1.4, 1.8), (" c", 1.8, 2.2)]
"""Words of 0.4 s: the median, whatever one more word is like."""


def test_words_into_segments_counts_text_tokens() -> None:
    first, second = corrected(STEADY, [(1.0, 1.8), (1.8, 2.2)], 0.9, n_tokens=[2, 1])
    assert [word.text for word in first.words] == [" a", " b"]
    assert [word.text for word in second.words] == [" c"]
    assert times_of(first) == [(1.0, 1.4), (1.4, 1.8)]


def test_words_into_segments_keeps_times_without_text() -> None:
    silent, spoken = corrected(STEADY, [(0.0, 0.7), (1.0, 2.2)], 0.9, n_tokens=[0, 3])
    assert (silent.words, silent.start_s, silent.end_s) == ((), 0.0, 0.7)
    assert len(spoken.words) == 3


def test_words_into_segments_adds_the_window_s_start() -> None:
    (segment,) = corrected(STEADY, [(101.0, 102.2)], 100.9, window(100.0))
    assert times_of(segment) == [(101.0, 101.4), (101.4, 101.8), (101.8, 102.2)]


def test_words_into_segments_locates_packed_pieces() -> None:
    pieces = (PackedPiece(0.0, 20.0, 1.4), PackedPiece(1.4, 60.0, 1.0))
    (segment,) = corrected(STEADY, [(21.0, 60.8)], 20.9, window(20.0, pieces))
    assert times_of(segment) == [(21.0, 21.4), (60.0, 60.4), (60.4, 60.8)]


def test_words_into_segments_mark_takes_no_pause() -> None:
    words = [*STEADY, (".", 2.2, 5.2), (" d", 5.2, 5.6)]
    (segment,) = corrected(words, [(1.0, 5.6)], 0.9)
    assert [word.text for word in segment.words] == [" a", " b", " c.", " d"]
    # The mark's time is its word's.
    assert times_of(segment)[2:] == [(1.8, 2.2), (5.2, 5.6)]


def test_words_into_segments_cuts_lone_mark_to_two_medians() -> None:
    words = [*STEADY, (".", 2.2, 5.2), (" d", 5.2, 5.6)]
    (segment,) = corrected(words, [(1.0, 5.6)], 0.9, appended="")
    assert [word.text for word in segment.words] == [" a", " b", " c", ".", " d"]
    assert times_of(segment)[3] == pytest.approx((2.2, 3.0))
    # One with a blank before it is no mark to the reference.
    (segment,) = corrected(
        [*STEADY, (" .", 2.2, 5.2), (" d", 5.2, 5.6)], [(1.0, 5.6)], 0.9
    )
    assert times_of(segment)[3] == (2.2, 5.2)


def test_words_into_segments_shortens_second_after_mark() -> None:
    rest = [(" b", 5.0, 5.4), (" c", 5.4, 5.8), (" d", 5.8, 6.2)]
    marked = corrected([(" a", 1.0, 1.4), (".", 1.4, 5.0), *rest], [(1.0, 6.2)], 0.9,
                    appended="")  # fmt: skip
    assert times_of(marked[0])[1] == pytest.approx((1.4, 2.2))
    (behind,) = corrected([(".", 1.0, 1.4), (" a", 1.4, 5.0), *rest], [(1.0, 6.2)], 0.9)
    assert times_of(behind)[1] == pytest.approx((4.2, 5.0))


def test_words_into_segments_keeps_first_without_pause() -> None:
    """A word as long as three others after no pause stays; the last is a mark."""
    words = [(" a", 1.0, 2.2), (" b", 2.2, 2.6), (" c", 2.6, 3.0), (".", 3.0, 3.4)]
    (segment,) = corrected(words, [(1.0, 3.4)], 0.9, appended="")
    assert times_of(segment)[0] == (1.0, 2.2)


def test_words_into_segments_rounds_to_hundredths() -> None:
    (segment,) = corrected(STEADY, [(101.0, 102.2)], 100.9, window(100.003456))
    assert times_of(segment) == [(101.0, 101.4), (101.4, 101.8), (101.8, 102.2)]
    (segment,) = corrected(STEADY, [(101.0, 102.2)], 100.9, window(100.00651))
    assert times_of(segment) == [(101.01, 101.41), (101.41, 101.81), (101.81, 102.21)]


@pytest.mark.parametrize("mark", list(".。!！?？"))  # noqa: RUF001
def test_words_into_segments_shortens_word_after_mark(mark: str) -> None:
    words = [*STEADY, (mark, 2.2, 2.6), (" d", 2.6, 5.6)]
    (segment,) = corrected(words, [(1.0, 5.6)], 0.9)
    assert times_of(segment)[-1] == pytest.approx((4.8, 5.6))


@pytest.mark.parametrize("mark", [",", ":", "”"])
def test_words_into_segments_keeps_word_after_comma(mark: str) -> None:
    """The word before has taken up its time, so that none is left."""
    words = [*STEADY, (mark, 2.2, 2.6), (" d", 2.6, 5.6)]
    (segment,) = corrected(words, [(1.0, 5.6)], 0.9)
    assert times_of(segment)[-1] == (2.6, 5.6)


def test_words_into_segments_keeps_word_of_two_medians() -> None:
    words = [(" a", 1.0, 1.5), (".", 1.5, 2.0), (" b", 2.0, 3.0), (" c", 3.0, 3.5)]
    (segment,) = corrected(words, [(1.0, 3.5)], 0.9)
    assert times_of(segment)[1] == (2.0, 3.0)


def test_words_into_segments_median_ignores_zero_lengths() -> None:
    """The median of 0.4 s and three zeros is 0.4 s: twice that is left of the mark's 3."""
    words = [(" a", 1.0, 1.4), (" b", 1.4, 1.4), (" c", 1.4, 1.4), (" d", 1.4, 1.4)]
    words += [(".", 1.4, 1.8), (" e", 1.8, 4.8)]
    (segment,) = corrected(words, [(1.0, 4.8)], 0.9)
    assert times_of(segment)[-1] == pytest.approx((4.0, 4.8))


def test_words_into_segments_keeps_zero_lengths() -> None:
    words = [(" a", 1.0, 1.0), (".", 1.0, 1.0), (" b", 2.0, 2.0)]
    (segment,) = corrected(words, [(1.0, 2.0)], 0.9)
    assert times_of(segment) == [(1.0, 1.0), (2.0, 2.0)]


def test_words_into_segments_keeps_zero_length_after_pause() -> None:
    """Twice the median is nothing: without a length that is what the reference takes it to be."""
    (segment,) = corrected([(" a", 10.0, 10.0), (" b", 15.0, 15.0)], [(10.0, 15.0)])
    assert times_of(segment) == [(10.0, 10.0), (15.0, 15.0)]


@pytest.mark.parametrize("tokens", [(), (60, 1, 2, 61)])
def test_words_into_segments_without_words_keeps_segments(
    tokens: tuple[int, ...],
) -> None:
    """Whether there was nothing to say, or nobody who tells when it was said."""
    silent = Segment(1.0, 2.0, "text", tokens, -0.1, 0.0)
    whole = {"eot": EOT, "last_speech_s": 0.0}
    assert words_into_segments([silent], [], window(), **whole) == [silent]  # type: ignore[arg-type]


def test_words_into_segments_median_is_at_most_0_7_s() -> None:
    words = [(" a", 0.5, 2.5), (".", 2.5, 4.5), (" b", 4.5, 6.5)]
    (segment,) = corrected(words, [(0.5, 6.5)], 0.4)
    assert times_of(segment)[-1] == pytest.approx((5.1, 6.5))


def test_words_into_segments_shortens_first_after_pause() -> None:
    words = [(" a", 0.0, 3.0), (" b", 3.0, 3.4), (" c", 3.4, 3.8)]
    (segment,) = corrected(words, [(0.0, 3.8)])
    assert times_of(segment) == [pytest.approx((2.2, 3.0)), (3.0, 3.4), (3.4, 3.8)]
    assert segment.start_s == pytest.approx(2.2)


def test_words_into_segments_pair_shares_segment_end() -> None:
    words = [(" a", 0.0, 1.8), (" b", 1.8, 4.4), (" c", 4.4, 4.8), (" d", 4.8, 5.2)]
    words += [(" e", 5.2, 5.6)]
    first, _ = corrected(words, [(0.0, 4.4), (4.4, 5.6)], n_tokens=[2, 3])
    assert times_of(first) == [pytest.approx((2.8, 3.6)), pytest.approx((3.6, 4.4))]


def test_words_into_segments_shortens_only_word_after_pause() -> None:
    words = [(" a", 0.0, 3.0), (" b", 3.0, 3.4), (" c", 3.4, 3.8)]
    first, _ = corrected(words, [(0.0, 3.0), (3.0, 3.8)], n_tokens=[1, 2])
    assert times_of(first) == [pytest.approx((2.2, 3.0))]


def test_words_into_segments_keeps_first_after_four_medians() -> None:
    """Its end, 2 s or four medians after the word before, is no pause yet."""
    words = [(" a", 0.5, 2.0), (" b", 2.0, 2.5), (" c", 2.5, 3.0)]
    assert times_of(corrected(words, [(0.5, 3.0)], 0.0)[0])[0] == (0.5, 2.0)
    # A moment earlier, it is one.
    assert times_of(corrected(words, [(0.5, 3.0)], -0.1)[0])[0] == (1.0, 2.0)


def test_words_into_segments_pair_after_pause_shares_its_end() -> None:
    """The second is too long: both get 0.8 s, counted from its end."""
    words = [(" a", 0.0, 1.8), (" b", 1.8, 4.4), (" c", 4.4, 4.8), (" d", 4.8, 5.2)]
    words += [(" e", 5.2, 5.6)]
    (segment,) = corrected(words, [(0.0, 5.6)])
    assert times_of(segment)[:2] == [
        pytest.approx((2.8, 3.6)),
        pytest.approx((3.6, 4.4)),
    ]


def test_words_into_segments_long_second_moves_first() -> None:
    """Both get twice the median of 0.2 s, counted from the second's end."""
    words = [(" a", 0.0, 0.7), (" b", 0.7, 1.4), (" c", 1.4, 1.6), (" d", 1.6, 1.8)]
    words += [(" e", 1.8, 2.0)]
    (segment,) = corrected(words, [(0.0, 2.0)], -0.2)
    assert times_of(segment)[:2] == [
        pytest.approx((0.6, 1.0)),
        pytest.approx((1.0, 1.4)),
    ]


def test_words_into_segments_long_pair_shortens_first() -> None:
    """From the first's start to the second's end is more than four medians."""
    words = [(" a", 3.5, 4.0), (" b", 5.25, 5.75), (" c", 5.75, 6.25)]
    assert times_of(corrected(words, [(3.5, 6.25)])[0])[0] == (3.0, 4.0)
    pair, _ = corrected(words, [(3.5, 5.75), (5.75, 6.25)], n_tokens=[2, 1])
    assert times_of(pair)[0] == (3.0, 4.0), "those two are all of a segment"
    near = [(" a", 3.5, 4.0), (" b", 5.0, 5.5), (" c", 5.5, 6.0)]
    assert times_of(corrected(near, [(3.5, 6.0)])[0])[0] == (3.5, 4.0)


def test_words_into_segments_start_corrects_early_word() -> None:
    words = [(" a", 0.4, 1.4), (" b", 1.4, 1.8), (" c", 1.8, 2.2), (" d", 2.2, 2.6)]
    (segment,) = corrected(words, [(1.1, 2.6)], 1.4)
    # 1.0, where the median of 0.4 s before the word's end lies, is before the segment's start.
    assert times_of(segment)[0] == pytest.approx((1.0, 1.4))
    assert segment.start_s == 1.1
    # Starts where the word ends: it has no say.
    (behind,) = corrected(words, [(1.4, 2.6)], 1.4)
    assert (behind.start_s, behind.words[0].start_s) == (0.4, 0.4)
    (near,) = corrected(words, [(0.9, 2.6)], 1.4)  # half a second is within the slack
    assert (near.start_s, near.words[0].start_s) == (0.4, 0.4)


def test_words_into_segments_corrected_start_is_not_negative() -> None:
    """The median of 0.7 s before the first word's end would lie there."""
    words = [(" a", 0.0, 0.6), (" b", 0.6, 1.3), (" c", 1.3, 2.0)]
    (segment,) = corrected(words, [(0.55, 2.0)])
    assert (segment.start_s, segment.words[0].start_s) == (0.55, 0.0)


def test_words_into_segments_starts_segment_with_first_word() -> None:
    (segment,) = corrected(STEADY, [(1.9, 2.2)], 0.9)
    assert (segment.start_s, segment.words[0].start_s) == (1.0, 1.0)


def test_words_into_segments_end_corrects_late_word() -> None:
    words = [*STEADY, (" d", 2.2, 3.6)]
    (segment,) = corrected(words, [(1.0, 3.0)], 0.9)
    assert (segment.end_s, segment.words[-1].end_s) == (3.0, 3.0)
    (short,) = corrected(words, [(1.0, 2.4)], 0.9)  # a word lasts the median at least
    assert (short.end_s, short.words[-1].end_s) == (2.4, pytest.approx(2.6))
    (near,) = corrected(words, [(1.0, 3.1)], 0.9)
    assert (near.end_s, near.words[-1].end_s) == (3.6, 3.6)
    # Ends where the word begins: it has no say.
    (before,) = corrected(words, [(1.0, 2.2)], 0.9)
    assert (before.end_s, before.words[-1].end_s) == (3.6, 3.6)
    (alone,) = corrected(
        [(" a", 0.4, 2.6)], [(1.1, 2.0)]
    )  # gives way at both of its ends
    assert (alone.start_s, alone.end_s, times_of(alone)) == (1.1, 2.0, [(1.1, 2.0)])


def test_words_into_segments_pause_starts_at_last_segment() -> None:
    """The second's first word comes after a pause for it alone, not for the one that it follows."""
    words = [*STEADY, (" d", 2.2, 3.4), (" e", 3.4, 3.8)]
    _, second = corrected(words, [(1.0, 2.2), (2.2, 3.8)], 0.9, n_tokens=[3, 2])
    assert times_of(second)[0] == (2.2, 3.4)


def test_words_into_segments_pause_starts_at_last_word() -> None:
    """The first segment has no words, or words up to 2.2 s."""
    words = [(" d", 2.9, 4.4), (" e", 4.4, 4.8), (" f", 4.8, 5.2)]
    _, spoken = corrected(words, [(0.0, 3.0), (3.0, 5.2)], n_tokens=[0, 3])
    assert times_of(spoken)[0] == pytest.approx((3.6, 4.4))
    words = [*STEADY, (" d", 3.0, 4.6), (" e", 4.6, 5.0)]
    first, second = corrected(words, [(1.0, 4.0), (4.0, 5.0)], 0.9, n_tokens=[3, 2])
    assert first.end_s == 2.2
    assert times_of(second)[0] == pytest.approx((3.8, 4.6))


@pytest.mark.parametrize(("n", "m"), [(10, 20), (32, 16), (123, 1500), (234, 189)])
def test_warp_path_follows_a_carved_valley(n: int, m: int) -> None:
    """A random path of right, down and diagonal steps that is cheaper than all around it."""
    rng = np.random.default_rng(n)
    downs = rng.permutation(np.repeat([True, False], [n - 1, m - 1]))
    cells = [(0, 0)]
    step = 0
    while step < downs.size:
        row, column = cells[-1]
        turns = step + 1 < downs.size and downs[step] != downs[step + 1]
        down, across = (True, True) if turns else (downs[step], not downs[step])
        cells.append((row + bool(down), column + bool(across)))
        step += 2 if turns else 1
    cost = rng.random((n, m))
    rows, columns = np.array(cells).T
    cost[rows, columns] -= 1.0
    found = warp_path(cost)
    assert found[0].tolist() == rows.tolist()
    assert found[1].tolist() == columns.tolist()


@pytest.mark.parametrize("shape", [(10,), (1, 15), (4, 5, 345), (2, 3, 24, 51)])
def test_median_filter_matches_numpy_for_every_shape(shape: tuple[int, ...]) -> None:
    width = MEDIAN_WIDTH
    values = np.random.default_rng(width).standard_normal(shape)
    reach = width // 2
    padded = np.pad(
        values, [(0, 0)] * (values.ndim - 1) + [(reach, reach)], mode="reflect"
    )
    expected = np.stack(
        [np.median(padded[..., i : i + width], axis=-1) for i in range(shape[-1])],
        axis=-1,
    )
    assert np.array_equal(median_filter(values), expected)


class Loudness:
    """Takes every sound for speech."""

    def reset(self) -> None:
        pass

    def probability(self, frame: np.ndarray) -> float:
        return float(frame.max())


def sound(*stretches: tuple[float, float]) -> np.ndarray:
    """Ten seconds that are silent but for these."""
    audio = np.zeros(160_000, np.float32)
    for start_s, end_s in stretches:
        audio[round(start_s * 16_000) : round(end_s * 16_000)] = 1.0
    return audio


def times(words: list[Word]) -> list[tuple[float, float]]:
    return [(round(word.start_s, 2), round(word.end_s, 2)) for word in words]


def test_trim_pauses_moves_start_behind_a_pause() -> None:
    words = [word(" Americans", (), 1.6, 2.1), word(" ask", (), 2.1, 3.7)]

    trimmed = trim_pauses(words, sound((1.6, 2.24), (3.328, 3.7)), Loudness())

    # Americans goes on until 2.24, the end of the frame of 32 ms.
    assert times(trimmed) == [(1.6, 2.24), (3.33, 3.7)]


def test_trim_pauses_moves_end_before_a_pause() -> None:
    words = [word(" you", (), 1.0, 3.0), word(" ask", (), 3.0, 3.4)]

    trimmed = trim_pauses(words, sound((1.0, 1.5), (2.95, 3.4)), Loudness())

    assert times(trimmed) == [(1.0, 1.5), (2.94, 3.4)]


@pytest.mark.parametrize(
    ("words", "spoken"),
    [
        # No gap of a fifth of a second.
        ([word(" long", (), 1.0, 2.0)], [(1.1, 1.4), (1.5, 1.95)]),
        ([word(" short", (), 1.0, 1.4)], [(1.3, 1.4)]),
        ([word(" unheard", (), 1.0, 3.0)], []),
        # Marks have corrections of their own.
        ([word(".", (), 1.0, 3.0)], [(1.0, 1.2)]),
    ],
)
def test_trim_pauses_without_a_pause_keeps_words(
    words: list[Word], spoken: list[tuple[float, float]]
) -> None:
    assert trim_pauses(words, sound(*spoken), Loudness()) == words


WINDOW = Window(np.zeros(480_000, np.float32), 0.0)


def test_warp_path_matches_exhaustive_search() -> None:
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (1, 5), (5, 1), (4, 9), (9, 4)):
        cost = rng.normal(size=(n, m))
        rows, columns = warp_path(cost)
        steps = list(zip(np.diff(rows), np.diff(columns), strict=True))
        assert set(steps) <= {(0, 1), (1, 0), (1, 1)}
        assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, n - 1, m - 1)
        table = np.full((n + 1, m + 1), np.inf)
        table[0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                table[i, j] = cost[i - 1, j - 1] + min(
                    table[i - 1, j - 1], table[i - 1, j], table[i, j - 1]
                )
        assert cost[rows, columns].sum() == pytest.approx(table[n, m])


def test_warp_path_on_a_tie_goes_across() -> None:
    """Rule of OpenAI Whisper: diagonal or down only where cheaper than both others."""
    rows, columns = warp_path(np.zeros((2, 3)))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 1, 1], [0, 0, 1, 2])
    rows, columns = warp_path(np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [0, 0, 1])
    # Of the ways to the last cell the diagonal and across are even, then down and across.
    for cost in ([[0.0, 1.0], [0.0, 0.0]], [[0.0, -1.0], [-1.0, 0.0]]):
        rows, columns = warp_path(np.array(cost))
        assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [0, 0, 1])


def test_median_filter_reflects_and_leaves_short_rows() -> None:
    values = np.array([[9.0, 1.0, 2.0, 8.0, 3.0, 4.0, 0.0, 5.0]])
    padded = np.concatenate([values[0, 3:0:-1], values[0], values[0, -2:-5:-1]])
    expected = [np.median(padded[i : i + 7]) for i in range(8)]
    assert median_filter(values).tolist() == [expected]
    assert median_filter(values[:, :3]).tolist() == values[:, :3].tolist()


def test_token_starts_follow_attention() -> None:
    attention = np.full((2, 4, 60), 1e-4, np.float32)
    for token in range(4):
        attention[:, token, token * 10 : token * 10 + 10] = 0.1
    starts = token_starts(attention, 40, slice(0, 4))
    assert np.abs(starts - np.array([0, 10, 20, 30])).max() <= 3
    loud = attention.copy()
    loud[:, :, 40:] = 5.0  # beyond the audio
    assert token_starts(loud, 40, slice(0, 4)).tolist() == starts.tolist()


def test_words_into_segments_moves_segment_edges() -> None:
    segments = [
        Segment(0.0, 2.0, "One two.", (1, 2), -0.1, 0.0),
        Segment(2.0, 9.0, "Three.", (3,), -0.1, 0.0),
    ]
    words = [
        word(" One", (1,), 0.1, 0.5, 0.9),
        word(" two.", (2,), 0.5, 0.9, 0.8),
        word(" Three.", (3,), 2.2, 2.6, 0.7),
    ]
    first, second = words_into_segments(
        segments, words, WINDOW, eot=TOY_TOKENS.eot, last_speech_s=0.0
    )
    assert [word.text for word in first.words] == [" One", " two."]
    assert (first.start_s, first.end_s, second.start_s, second.end_s) == (
        0.1,
        0.9,
        2.2,
        2.6,
    )
    assert second.words[0].tokens == (3,)


def test_words_into_segments_slack_rounds_like_openai() -> None:
    """226.24 + 8.4 - 0.5 is more than 234.14, 234.64 - 0.5 is not: the last bit decides."""
    window = Window(np.zeros(480_000, np.float32), 226.24)
    spoken = Segment(
        226.24 + 8.4, 236.0, "One two three four.", (1, 2, 3, 4), -0.1, 0.0
    )
    edges = [n / 50 for n in (363, 424, 438, 453, 467)]
    words = [
        word(f" {text}", (token,), edges[token - 1], edges[token], 0.9)
        for token, text in enumerate(("One", "two", "three", "four."), start=1)
    ]
    (segment,) = words_into_segments(
        [spoken], words, window, eot=TOY_TOKENS.eot, last_speech_s=220.0
    )
    assert segment.words[0].start_s == pytest.approx(234.43)
    assert segment.start_s == spoken.start_s
    assert round_times(segment).start_s == 234.64


@pytest.mark.parametrize("n_positions", [1, 29, 57, 201, 479, 717, 1499, 1500])
def test_whole_positions_counts_samples(n_positions: int) -> None:
    assert whole_positions(n_positions * 320 / 16_000) == n_positions
    assert whole_positions((n_positions * 320 + 319) / 16_000) == n_positions
    assert whole_positions(0.001) == 1  # never none
