"""Words from the attention of a decoder whose eyes are known: times, probabilities, texts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.unit.decoding.test_words import tokenizer  # noqa: F401 - a fixture
from tests.unit.shapes import toy_spec
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import Word
from whisper_hailo.decoding.word_times import align_words, token_starts
from whisper_hailo.text.tokenizer import Tokenizer

N_POSITIONS = 100
"""Two seconds of encoder positions."""
PREFIX_IDS = 4


@dataclass
class Eyes:
    """Looks at one stretch of the audio after the other; knows how likely each token is.

    The decoder looks for a token when it chooses it: while it is fed the one before.

    Attributes:
        looks: for each token fed, first and last position (exclusive) that it looks at.
        odds: of each text token: that of the chosen id to that of all other text together.
        height: by how much all logits of each text token are higher than those of the one before.
    """

    looks: list[tuple[int, int]]
    odds: list[float]
    fed: list[list[int]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    attends: bool = True
    height: float = 0.0
    spec = toy_spec()

    def step(
        self, tokens: np.ndarray, state: object, positions: np.ndarray, **named: Any
    ) -> tuple[StepOutput, object]:
        assert named == {"alignment": True}
        self.fed += tokens.tolist()
        self.asked += positions.tolist()
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
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
    text: str,
    edges: list[int],
    *,
    content_s: float = 2.0,
    odds: list[float] | None = None,
    height: float = 0.0,
    probabilities: bool = True,
) -> tuple[list[Word], Eyes, list[int]]:
    """Words of a text whose n-th token is said from the n-th edge to the next."""
    ids = list(tokenizer.encode(text))
    assert len(edges) == len(ids) + 1
    stretches = [*pairwise(edges), (edges[-1], N_POSITIONS)]
    # The prefix but for its last token looks at nothing in particular.
    eyes = Eyes([(0, N_POSITIONS)] * (PREFIX_IDS - 1) + stretches, odds or [3.0] * len(ids))
    eyes.height = height
    prefix = tokenizer.prefix("en", "transcribe", timestamps=False)
    assert len(prefix) == PREFIX_IDS
    words = align_words(
        eyes,  # type: ignore[arg-type]
        None,
        tokenizer,
        text=ids,
        prefix=prefix,
        content_s=content_s,
        language="en",
        probabilities=probabilities,
    )
    return words, eyes, [*prefix, *ids, tokenizer.special.eot]


def test_each_word_has_the_stretch_that_is_looked_at_for_it(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    """Positions are 0.02 s each."""
    words, eyes, fed = aligned(tokenizer, " one two three", [0, 20, 45, 80])
    assert [word.text for word in words] == [" one", " two", " three"]
    assert [word.tokens for word in words] == [(token,) for token in fed[PREFIX_IDS:-1]]
    assert [(word.start_s, word.end_s) for word in words] == [(0, 0.4), (0.4, 0.9), (0.9, 1.6)]
    assert eyes.fed == [fed]
    assert eyes.asked == [3, 4, 5]  # where each of the three was chosen


def test_times_alone_need_no_product_with_the_vocabulary(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    edges, odds = [0, 20, 45, 80], [1.0, 2.0, 3.0]
    exact, _, fed = aligned(tokenizer, " one two three", edges, odds=odds)
    words, eyes, _ = aligned(tokenizer, " one two three", edges, odds=odds, probabilities=False)
    assert (eyes.fed, eyes.asked) == ([fed], [])
    assert [word.probability for word in words] == [1, 1, 1]
    assert [replace(word, probability=1.0) for word in exact] == words


def test_a_word_of_several_tokens_lasts_from_its_first_to_its_last(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    n_tokens = len(tokenizer.encode(" Unbelievably"))
    assert n_tokens > 1
    edges = [10 * i for i in range(n_tokens + 2)]
    words, _, _ = aligned(tokenizer, " Unbelievably good", edges)
    assert [word.text for word in words] == [" Unbelievably", " good"]
    assert words[0].end_s == words[1].start_s == pytest.approx(0.2 * n_tokens)
    assert words[1].end_s == pytest.approx(0.2 * (n_tokens + 1))


def test_audio_ends_where_the_window_s_content_does(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    """What looks beyond 1.2 s has nowhere else to be than at its end."""
    words, _, _ = aligned(tokenizer, " one two three", [0, 20, 40, 90], content_s=1.2)
    assert [word.start_s for word in words] == [0, 0.4, 0.8]
    assert max(word.end_s for word in words) <= 1.2


def test_a_word_s_probability_is_the_mean_of_its_tokens_among_all_text(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    ids = tokenizer.encode(" Unbelievably")
    odds = [1.0, *[3.0] * (len(ids) - 1), 9.0]
    edges = [10 * i for i in range(len(ids) + 2)]
    words, _, _ = aligned(tokenizer, " Unbelievably good", edges, odds=odds)
    mean = (0.5 + 0.75 * (len(ids) - 1)) / len(ids)
    assert words[0].probability == pytest.approx(mean, abs=1e-6)
    assert words[1].probability == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("height", [-200.0, 200.0])
def test_probabilities_are_those_at_any_height_of_the_logits(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
    height: float,
) -> None:
    """`exp` of 400 is no float32, that of -400 nothing."""
    edges, odds = [0, 20, 45, 80], [1.0, 3.0, 9.0]
    words, _, _ = aligned(tokenizer, " one two three", edges, odds=odds, height=height)
    found = [word.probability for word in words]
    assert found == pytest.approx([0.5, 0.75, 0.9], abs=1e-4)


def test_what_is_spent_on_padding_makes_no_token_weaker() -> None:
    """The first looks at the audio for a thousandth of its time, and there at its beginning."""
    attention = np.full((1, 3, 30), 1e-6, np.float32)
    attention[0, 0, :4] = 0.001
    attention[0, 0, 12:] = 0.055
    attention[0, 1, :4] = 0.01
    attention[0, 1, 4:8] = 0.24
    attention[0, 2, 8:12] = 0.25
    assert token_starts(attention, 12, slice(None)).tolist() == [0, 4, 8]


def starts_by_the_book(attention: np.ndarray, n_positions: int, rows: slice) -> list[int]:
    """OpenAI Whisper's `find_alignment` in plain steps: its median is over seven positions."""
    heads = []
    for head in attention[:, :, :n_positions].astype(np.float64):
        shares = head / head.sum(axis=1, keepdims=True)
        normal = (shares - shares.mean(axis=0)) / shares.std(axis=0)
        padded = np.concatenate([normal[:, 3:0:-1], normal, normal[:, -2:-5:-1]], axis=1)
        smooth = [np.median(padded[:, at : at + 7], axis=1) for at in range(n_positions)]
        heads.append(np.stack(smooth, axis=1))
    cost = -np.mean(heads, axis=0)[rows]
    best = np.full(cost.shape, np.inf)
    for i, j in np.ndindex(*cost.shape):
        before = [best[a, b] for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if min(a, b) >= 0]
        best[i, j] = cost[i, j] + min(before, default=0.0)
    i, j = cost.shape[0] - 1, cost.shape[1] - 1
    starts = {i: j}
    while i or j:
        ways = [(a, b) for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if min(a, b) >= 0]
        i, j = min(ways, key=lambda way: float(best[way]))
        starts[i] = j
    return [starts[row] for row in sorted(starts)]


@pytest.mark.parametrize("seed", range(6))
def test_tokens_start_where_they_do_by_the_book(seed: int) -> None:
    rng = np.random.default_rng(seed)
    attention = rng.random((3, 9, 60), dtype=np.float32)
    for rows, n_positions in ((slice(2, 8), 40), (slice(None), 60), (slice(0, 1), 9)):
        found = token_starts(attention, n_positions, rows)
        assert found.tolist() == starts_by_the_book(attention, n_positions, rows)


def test_without_text_or_without_eyes_there_are_no_words(
    tokenizer: Tokenizer,  # noqa: F811 - the fixture
) -> None:
    eyes = Eyes([], [])
    asked = {"prefix": (1, 2), "content_s": 2.0, "language": "en"}
    assert align_words(eyes, None, tokenizer, text=[], **asked) == []  # type: ignore[arg-type]
    assert eyes.fed == []
    blind = Eyes([(0, 10)] * 4, [3.0], attends=False)
    assert align_words(blind, None, tokenizer, text=[5], **asked) == []  # type: ignore[arg-type]
