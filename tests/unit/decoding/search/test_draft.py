"""Drafts change what decoding costs, never what it gives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.shapes import TOY, TOY_TOKENS, toy_spec
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.decoding.rules.logits import choose, lead
from whisper_hailo.decoding.search.draft import Drafted, DraftLoop
from whisper_hailo.decoding.search.loop import DecodingLoop, Task

PREFIX = (11, 12, 14, 19)
EOT = TOY_TOKENS.eot


@dataclass
class Oracle:
    """Logits are a fixed function of all tokens before: any slip of the cache shows."""

    seed: int = 0
    eot_bias: float = 0.0
    broken: bool = False
    passes: list[int] = field(default_factory=list)
    spec = toy_spec()

    def batch_size(self, state: tuple[int, ...]) -> int:
        return 1

    def step(
        self, tokens: np.ndarray, state: tuple[int, ...], positions: np.ndarray, **_: object
    ) -> tuple[StepOutput, tuple[int, ...]]:
        self.passes.append(tokens.shape[1])
        history = (*state, *tokens[0].tolist())
        assert len(history) <= TOY.n_text_ctx
        rows = [self._logits(history[: len(state) + int(p) + 1]) for p in positions]
        logits = np.stack(rows)[np.newaxis]
        logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        if self.broken:
            logsumexp[:] = np.nan
        alignment = np.zeros((1, 2, tokens.shape[1], 12), np.float32)
        for column in range(tokens.shape[1]):
            at = self.looks_at(history[: len(state) + column + 1])
            alignment[0, :, column, at] = 1.0
        return StepOutput(logits, logsumexp, alignment), history

    @staticmethod
    def looks_at(history: tuple[int, ...]) -> int:
        """Encoder position that the decoder looks at when it chooses what follows."""
        return crc32(np.array(history[-2:], np.int64).tobytes()) % 12

    def rewind(self, state: tuple[int, ...], n_tokens: int) -> tuple[int, ...]:
        assert len(PREFIX) <= n_tokens <= len(state)
        return state[:n_tokens]

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
        # Like speech, mostly decided by the last few tokens, so that drafts can hold again.
        seed = crc32(np.array([self.seed, *history[-2:], len(history) % 3], np.int64).tobytes())
        logits = np.random.default_rng(seed).normal(0, 3, TOY.n_vocab).astype(np.float32)
        logits[EOT] += self.eot_bias
        return logits


def draft_loop(decoder: Any, options: DecodingOptions) -> DraftLoop:
    return DraftLoop(decoder, TOY_TOKENS, options)


def from_scratch(decoder: Any, options: DecodingOptions) -> Decoded:
    (decoded,) = DecodingLoop(decoder, TOY_TOKENS, options).run((), [Task(PREFIX)])
    return decoded


def edited(tokens: tuple[int, ...], edits: list[tuple[str, int, int]]) -> list[int]:
    """A draft that has something to do with the truth."""
    draft = list(tokens)
    for kind, where, token in edits:
        at = where % (len(draft) + 1)
        if kind == "insert":
            draft.insert(at, token)
        elif kind == "cut":
            del draft[at:]
        elif kind == "drop":
            del draft[at : at + 1]
        else:
            draft[at : at + 1] = [token]
    return draft


edits = st.lists(
    st.tuples(
        st.sampled_from(["insert", "cut", "drop", "change"]),
        st.integers(0, 40),
        st.integers(-1, 31),
    ),
    max_size=6,
)
all_options = st.builds(
    DecodingOptions,
    cures=st.builds(
        Cures,
        repetition_penalty=st.sampled_from([1.0, 1.1, 2.0]),
        eot_boost=st.sampled_from([0.0, 0.5, 4.0]),
    ),
    max_new_tokens=st.sampled_from([None, 1, 2, 5, 40]),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3), all_options, edits)
def test_any_draft_gives_the_text_of_none(
    seed: int, bias: float, options: DecodingOptions, changes: list[tuple[str, int, int]]
) -> None:
    truth = from_scratch(Oracle(seed, bias), options)
    draft = edited(truth.tokens, changes)
    drafted = draft_loop(Oracle(seed, bias), options).run((), PREFIX, draft)
    assert drafted.decoded.tokens == truth.tokens
    assert drafted.decoded.runaway == truth.runaway
    assert drafted.decoded.avg_logprob == pytest.approx(truth.avg_logprob)
    assert drafted.decoded.no_speech_prob == truth.no_speech_prob
    assert len(drafted.probabilities) == len(truth.tokens)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), all_options, edits, st.integers(1, 4))
def test_a_long_draft_is_looked_at_in_parts(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]], at_once: int
) -> None:
    truth = from_scratch(Oracle(seed), options)
    draft, oracle = edited(truth.tokens, changes), Oracle(seed)
    with patch("whisper_hailo.decoding.search.draft._AT_ONCE", at_once):
        drafted = draft_loop(oracle, options).run((), PREFIX, draft)
    assert drafted.decoded.tokens == truth.tokens
    assert oracle.passes[0] <= len(PREFIX) + at_once
    assert all(n_fed <= 1 + at_once for n_fed in oracle.passes[1:])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), all_options, st.integers(0, 12), st.integers(1, 4))
def test_nothing_of_a_long_draft_is_lost_between_its_parts(
    seed: int, options: DecodingOptions, horizon: int, at_once: int
) -> None:
    """Neither in the count of what was confirmed nor in the guess that is held back."""
    truth = from_scratch(Oracle(seed), options)
    draft = truth.tokens[: options.budget(TOY, len(PREFIX)) - 1]
    whole = draft_loop(Oracle(seed), options).run((), PREFIX, draft, horizon=horizon)
    with patch("whisper_hailo.decoding.search.draft._AT_ONCE", at_once):
        free = draft_loop(Oracle(seed), options).run((), PREFIX, draft)
        parts = draft_loop(Oracle(seed), options).run((), PREFIX, draft, horizon=horizon)
    assert free.n_accepted == len(draft)
    assert (parts.n_accepted, parts.guess) == (whole.n_accepted, whole.guess)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), all_options, edits, st.integers(0, 12))
def test_what_is_held_back_does_not_depend_on_the_draft(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]], horizon: int
) -> None:
    truth = from_scratch(Oracle(seed), options)
    history = (*PREFIX, *truth.tokens)
    looks = [Oracle.looks_at(history[:end]) for end in range(len(PREFIX), len(history) + 1)]
    n_heard = next((i for i, at in enumerate(looks) if at >= horizon), len(truth.tokens))
    draft = edited(truth.tokens, changes)
    loop = draft_loop(Oracle(seed), options)
    drafted = loop.run((), PREFIX, draft, horizon=horizon)
    assert drafted.decoded.tokens == truth.tokens[:n_heard]
    assert drafted.held_back == (n_heard < len(truth.tokens))
    assert drafted.guess[:1] == truth.tokens[n_heard : n_heard + 1]
    assert len(drafted.probabilities) == n_heard
    assert drafted.decoded.runaway == (truth.runaway and not drafted.held_back)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), edits, st.integers(0, 12))
def test_a_guess_that_comes_true_takes_no_pass(
    seed: int, changes: list[tuple[str, int, int]], horizon: int
) -> None:
    loop = draft_loop(Oracle(seed), DecodingOptions())
    draft = edited(loop.run((), PREFIX).decoded.tokens, changes)
    held = loop.run((), PREFIX, draft, horizon=horizon)
    known = held.decoded.tokens
    plain, guessed = (loop.run((), PREFIX, [*known, *more]) for more in ((), held.guess[:1]))
    assert guessed.decoded.tokens == plain.decoded.tokens
    assert guessed.passes == plain.passes - held.held_back
    again = loop.run((), PREFIX, [*known, *held.guess], horizon=horizon)
    assert (again.decoded.tokens, again.guess) == (known, held.guess)
    assert again.passes == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), all_options)
def test_the_whole_text_as_draft_takes_one_pass(seed: int, options: DecodingOptions) -> None:
    truth = from_scratch(Oracle(seed), options)
    drafted = draft_loop(Oracle(seed), options).run((), PREFIX, truth.tokens)
    assert drafted.decoded.tokens == truth.tokens
    assert drafted.passes <= (2 if truth.runaway else 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), all_options, edits)
def test_a_draft_never_costs_more_passes_than_none(
    seed: int, options: DecodingOptions, changes: list[tuple[str, int, int]]
) -> None:
    plain = draft_loop(Oracle(seed), options).run((), PREFIX)
    draft = edited(plain.decoded.tokens, changes)
    assert draft_loop(Oracle(seed), options).run((), PREFIX, draft).passes <= plain.passes


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), all_options, st.lists(st.integers(0, 9), max_size=8), edits)
def test_fixed_tokens_stay_and_the_rest_follows_from_them(
    seed: int, options: DecodingOptions, fixed: list[int], changes: list[tuple[str, int, int]]
) -> None:
    fixed = fixed[: options.budget(TOY, len(PREFIX)) - 1]
    plain = draft_loop(Oracle(seed), options).run((), PREFIX, fixed, len(fixed))
    assert list(plain.decoded.tokens[: len(fixed)]) == fixed
    rest = edited(plain.decoded.tokens[len(fixed) :], changes)
    drafted = draft_loop(Oracle(seed), options).run((), PREFIX, [*fixed, *rest], len(fixed))
    assert drafted.decoded.tokens == plain.decoded.tokens
    assert drafted.probabilities == plain.probabilities
    assert drafted.probabilities[: len(fixed)] == (1.0,) * len(fixed)


def run(draft: list[int], truth: list[int]) -> Drafted:
    """A decoder that follows a script, whatever it is fed."""

    class Scripted(Oracle):
        def _logits(self, history: tuple[int, ...]) -> np.ndarray:
            at = len(history) - len(PREFIX)
            logits = np.zeros(TOY.n_vocab, np.float32)
            logits[truth[at] if 0 <= at < len(truth) else EOT] = 5.0
            return logits

    drafted = draft_loop(Scripted(), DecodingOptions()).run((), PREFIX, draft)
    assert drafted.decoded.tokens == tuple(truth)
    return drafted


def test_one_pass_more_for_every_kind_of_difference() -> None:
    truth = [1, 2, 3, 4, 5, 8, 9]
    assert run(truth, truth).passes == 1
    assert run(truth[:4], truth).passes == 4  # three new tokens and the end
    assert run([1, 2, 0, 4, 5, 8, 9], truth).passes == 2
    assert run([1, 2, 4, 5, 8, 9], truth).passes == 3
    assert run([1, 2, 0, 0, 3, 4, 5, 8, 9], truth).passes == 2
    assert run([1, 2, 3, 4, 5, 8, 9, 0, 0], truth).passes == 1
    assert run([], truth).passes == 8


def test_what_was_confirmed_and_fed_is_counted() -> None:
    drafted = run([1, 2, 0, 4], [1, 2, 3, 4])
    assert drafted.n_accepted == 3
    assert drafted.n_fed == len(PREFIX) + 4 + 2
    assert drafted.near_ties == 0


def test_a_draft_ends_at_eot_and_at_ids_that_are_none() -> None:
    for stop in (EOT, -1, TOY.n_vocab):
        drafted = run([1, 2, stop, 3, 4], [1, 2, 3, 4])
        assert drafted.passes == 3


def test_broken_weights_are_refused() -> None:
    with pytest.raises(ModelError, match="no numbers"):
        draft_loop(Oracle(broken=True), DecodingOptions()).run((), PREFIX, [1, 2])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=8),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_the_lead_is_what_it_takes_to_flip_the_choice(
    values: list[float], eot: int, boost: float
) -> None:
    logits = np.array(values, np.float32)
    token = choose(logits, eot, boost)
    margin = lead(logits.copy(), token, eot, boost)
    assert margin >= -1e-5
    logits[token] -= margin + 1e-3
    assert choose(logits, eot, boost) != token


@dataclass
class Close(Oracle):
    """Whatever comes, the second best lies so far behind."""

    behind: float = 0.0

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[[1, 2]] = 5.0, 5.0 - self.behind
        logits[EOT] = 9.0 if len(history) - len(PREFIX) >= 3 else 0.0
        return logits


@pytest.mark.parametrize(
    ("quantization", "behind", "n_ties"),
    [("none", 5e-4, 3), ("none", 0.3, 0), ("int8", 0.3, 3), ("int4", 0.3, 3), ("int8", 0.7, 0)],
)
def test_near_ties_are_counted(quantization: str, behind: float, n_ties: int) -> None:
    close = Close(behind=behind)
    close.spec = replace(toy_spec(), quantization=quantization)
    assert draft_loop(close, DecodingOptions()).run((), PREFIX, [1, 1]).near_ties == n_ties
