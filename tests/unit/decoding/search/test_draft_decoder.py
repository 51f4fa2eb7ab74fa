"""A model that decodes ahead changes what decoding costs, never what it gives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.decoding.search.oracle import EOT, PREFIX, Oracle, all_options, edited, edits
from tests.unit.shapes import TOY, TOY_TOKENS, toy_spec
from whisper_hailo.convert.options import QUANTIZATIONS
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import LogitsRules
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.decoding.search.draft_decoder import (
    DraftDecoder,
    DraftState,
    DraftStats,
    draft_cost,
    draft_speed,
    is_promising,
)
from whisper_hailo.decoding.search.greedy import GreedyChoice
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft

CHEAP = 0.15
"""Cost of a drafted token, in passes."""

LONG = DecodingOptions(max_new_tokens=40)


@dataclass
class Pupil(Oracle):
    """Says what an oracle says, but for a share of the places where it is as sure and wrong."""

    wrong: float = 0.0

    def rewind(self, state: tuple[int, ...], n_tokens: int) -> tuple[int, ...]:
        assert n_tokens < len(state), "what is not shorter need not be cut"
        return state[:n_tokens]

    def logits(self, history: tuple[int, ...]) -> np.ndarray:
        logits = super().logits(history)
        luck = crc32(np.array([7, *history], np.int64).tobytes()) / 2**32
        return np.roll(logits, 1) if luck < self.wrong else logits


def decode(
    seed: int,
    tally: DraftStats | None,
    options: DecodingOptions = LONG,
    *,
    wrong: float = 0.0,
    bias: float = 0.0,
    draft: tuple[int, ...] = (),
    temperature: float = 0.0,
) -> tuple[Decoded, Oracle, Pupil]:
    """A window, with or without a pupil."""
    oracle, pupil = Oracle(seed, bias), Pupil(seed, bias, wrong=wrong)
    ahead = None if tally is None else DraftState(pupil, (), tally)  # type: ignore[arg-type]
    task = DecodingTask(PREFIX, ahead=ahead, draft=Draft(draft) if draft else None)
    loop = DecodingLoop(oracle, TOY_TOKENS, options)  # type: ignore[arg-type]
    (decoded,) = loop.run((), [task], temperature)
    return decoded, oracle, pupil


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000),
    st.floats(-3, 3),
    all_options,
    st.tuples(st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.sampled_from([None, 1, 3, 16])),
    edits,
)
def test_any_assistant_gives_the_text_of_none(
    seed: int,
    bias: float,
    options: DecodingOptions,
    assistant: tuple[float, int | None],
    changes: list[tuple[str, int, int]],
) -> None:
    wrong, always = assistant
    truth, _, _ = decode(seed, None, options, bias=bias)
    draft = tuple(edited(truth.tokens, changes))[:4]
    helped, _, _ = decode(
        seed, DraftStats(CHEAP, always), options, wrong=wrong, bias=bias, draft=draft
    )
    assert helped.tokens == truth.tokens
    assert helped.runaway == truth.runaway
    assert helped.avg_logprob == pytest.approx(truth.avg_logprob)
    assert helped.no_speech_prob == truth.no_speech_prob


def long_one(bias: float = -9.0) -> dict[str, Any]:
    """A text of 28 tokens, all that the text context holds."""
    return {"seed": 3, "bias": bias}


def test_an_assistant_that_is_right_saves_passes() -> None:
    tally = DraftStats(CHEAP, always=4)
    helped, oracle, _ = decode(tally=tally, **long_one())
    assert len(helped.tokens) == 28
    # Four tokens of the assistant and one of its own in each pass, in the last one what is left.
    assert oracle.passes == [len(PREFIX) + 4, 5, 5, 5, 5, 3]
    assert (tally.n_tokens, tally.n_passes, tally.n_accepted) == (28, 6, 22)
    assert tally.n_steps == 22
    assert tally.spent == pytest.approx(6 + CHEAP * 22)


def test_the_assistant_is_fed_what_is_new_and_nothing_else() -> None:
    _, _, pupil = decode(tally=DraftStats(CHEAP, always=3), **long_one())
    # First the prompt; then, each time, its own last token and the one behind it.
    assert pupil.passes == [4, 1, 1] + 6 * [2, 1, 1]
    _, _, pupil = decode(tally=DraftStats(CHEAP, always=3), wrong=1.0, **long_one())
    # All of its tokens but the first are forgotten, and the one that came in its place is new.
    assert set(pupil.passes[3:]) == {1}


def test_no_more_is_drafted_than_is_likely_to_be_worth_it() -> None:
    dear, cheap = DraftStats(1.4), DraftStats(0.02)
    decode(tally=dear, **long_one())
    decode(tally=cheap, **long_one())
    assert dear.n_steps == 0
    assert cheap.n_steps > cheap.n_passes
    assert cheap.n_accepted > 0


@pytest.mark.parametrize("cost", [0.12, 0.26, 0.47])
def test_a_draft_is_as_long_as_is_best(cost: float) -> None:
    tally, rng = DraftStats(cost), np.random.default_rng(0)
    for _ in range(1000):
        _propose_and_see(tally, rng, 0.8)
    assert tally.n_tokens / tally.spent == pytest.approx(draft_speed(cost, 0.8), rel=0.015)


def _propose_and_see(tally: DraftStats, rng: np.random.Generator, right: float) -> None:
    """A draft whose tokens are right as often as is said, and what becomes of it."""
    k = 0
    while tally.is_worth_a_step(k, right**k):
        k += 1
    accepted = next((n for n in range(k) if rng.random() >= right), k)
    tally.n_steps += k
    tally.n_passes += 1
    tally.n_accepted += accepted
    tally.n_tokens += accepted + 1


def test_what_drafts_gain_is_that_of_the_best_length() -> None:
    # Two tokens ahead, at 0.45 each: 2.44 tokens for 1.9 passes; one gives 1.24, three 1.26.
    assert draft_speed(0.45, 0.8) == pytest.approx(2.44 / 1.9)
    assert draft_speed(0.6, 0.5) == 1.0, "none at all is the best"
    assert draft_speed(0.0, 1.0) == pytest.approx(17.0)
    # One token ahead, right in 80 of 100: 1.8 tokens, for 1.1 of which there may be 1.636 passes.
    assert is_promising(0.63)
    assert not is_promising(0.64)


def test_unpromising_assistant_is_not_asked_unless_wished() -> None:
    assert not DraftStats(0.8).is_profitable
    assert DraftStats(0.8, always=2).is_profitable
    assert DraftStats(CHEAP).is_profitable


def test_an_assistant_is_tried_for_a_while_before_it_must_pay() -> None:
    tried = DraftStats(0.5, n_tokens=63, n_passes=63, n_steps=63)
    assert tried.spent > tried.n_tokens
    assert tried.is_profitable
    assert not replace(tried, n_tokens=64).is_profitable
    assert replace(tried, n_tokens=200).is_profitable
    assert replace(tried, n_tokens=64, always=2).is_profitable


@pytest.mark.parametrize(("n_passes", "pays"), [(40, True), (90, False)])
def test_it_pays_where_text_took_less_than_pass_for_each_token(n_passes: int, pays: bool) -> None:
    tally = DraftStats(CHEAP, n_tokens=90, n_passes=n_passes, n_steps=30)
    assert tally.is_profitable == pays


def test_four_tokens_for_four_passes_are_believed_in_at_first() -> None:
    fresh = DraftStats(0.75)
    assert (fresh.speed, fresh.spent) == (1.0, 0.0)
    assert replace(fresh, n_tokens=12, n_passes=4).speed == 2.0
    assert replace(fresh, n_tokens=2, n_passes=4).speed == 1.0, "alone it is no slower"


def test_a_token_is_drafted_where_it_is_worth_more_than_it_costs() -> None:
    """0.8 of a token for less than 0.8 of a pass, of which others have become cheaper."""
    assert [DraftStats(cost).is_worth_a_step(3, 1.0) for cost in (0.8, 0.79)] == [False, True]
    quick = DraftStats(CHEAP, n_tokens=396, n_passes=196)
    assert quick.speed == 2.0
    assert [quick.is_worth_a_step(3, sure) for sure in (0.37, 0.38)] == [False, True]


@pytest.mark.parametrize("always", [1, 3])
def test_as_many_as_are_asked_for_are_drafted_however_unlikely(always: int) -> None:
    tally = DraftStats(1.8, always)
    assert [tally.is_worth_a_step(n, 0.0) for n in (0, always - 1, always)] == [True, True, False]


def test_it_must_bring_more_than_a_tenth() -> None:
    """88 tokens for 80 passes are a tenth more."""
    tally = DraftStats(CHEAP, n_tokens=88, n_passes=80)
    assert tally.spent == 80.0
    assert not tally.is_profitable
    assert replace(tally, n_tokens=89).is_profitable


def test_sampled_tokens_take_no_drafts() -> None:
    tally, options = DraftStats(CHEAP, always=4), replace(LONG, search=SearchOptions(best_of=1))
    plain, _, _ = decode(3, None, options, temperature=0.6)
    helped, oracle, pupil = decode(3, tally, options, temperature=0.6)
    assert helped == plain
    assert (pupil.passes, tally.n_passes) == ([], 0)
    assert set(oracle.passes[1:]) == {1}


def test_costs_follow_from_the_weights() -> None:
    large = replace(toy_spec(), dims=_sized(768, 12), quantization="int8")
    small = replace(toy_spec(), dims=_sized(384, 4), quantization="int8")
    step = (4 * 14 * 384**2 + 51_865 * 384) / 138_930_432
    assert draft_cost(large, small) > step
    whole = replace(small, quantization="none")
    difference = draft_cost(large, whole) - draft_cost(large, small)
    assert difference == pytest.approx((32 / 12 - 1) * step, rel=1e-3)


@pytest.mark.parametrize(
    ("machine", "forms"), [("x86_64", {"none", "int8"}), ("aarch64", {"none"})]
)
def test_where_tiny_is_worth_its_place_ahead_of_small(
    monkeypatch: pytest.MonkeyPatch, machine: str, forms: set[str]
) -> None:
    """Kernels of Arm compute each row by itself, so that a further token costs more there."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    tiny = replace(toy_spec(), dims=_sized(384, 4), quantization="int4")
    small = replace(toy_spec(), dims=_sized(768, 12))
    costs = {form: draft_cost(replace(small, quantization=form), tiny) for form in QUANTIZATIONS}
    assert {form for form, cost in costs.items() if is_promising(cost)} == forms


def _sized(width: int, layers: int) -> Dimensions:
    return replace(TOY, d_model=width, n_decoder_layers=layers, n_vocab=51_865)


TEXT = (1, 2, 3, 4)


@dataclass
class Reader(Oracle):
    """Reads a text out, nearly sure of it, and notes what it has heard and is asked for."""

    heard: list[tuple[int, ...]] = field(default_factory=list)
    looks: list[np.ndarray] = field(default_factory=list)

    def step(self, tokens: np.ndarray, state: Any, positions: np.ndarray, **named: Any) -> Any:
        assert positions.min() >= 0, "where something is fed"
        self.heard.append((*state, *tokens[0].tolist()))
        self.looks.append(positions)
        return super().step(tokens, state, positions, **named)

    def logits(self, history: tuple[int, ...]) -> np.ndarray:
        at = len(history) - len(PREFIX)
        logits = np.zeros(TOY.n_vocab, np.float32)
        logits[TEXT[at] if 0 <= at < len(TEXT) else EOT] = 9.0
        return logits


def assistant(reader: Reader, always: int) -> DraftDecoder:
    rules = LogitsRules(TOY_TOKENS, TOY, DecodingOptions())
    ahead = DraftState(reader, (), DraftStats(CHEAP, always))  # type: ignore[arg-type]
    return DraftDecoder(ahead, GreedyChoice(rules, EOT, 0.0), PREFIX)


def helped(always: int, draft: Draft | None = None) -> tuple[Decoded, Reader, Reader, DraftStats]:
    """The text, the large model, the small one and what is noted of it."""
    large, small, tally = Reader(), Reader(), DraftStats(CHEAP, always)
    task = DecodingTask(PREFIX, draft=draft, ahead=DraftState(small, (), tally))  # type: ignore[arg-type]
    loop = DecodingLoop(large, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    (decoded,) = loop.run((), [task])
    assert decoded.tokens == TEXT
    return decoded, large, small, tally


def test_it_goes_on_from_the_text_as_it_is_now() -> None:
    """Whatever it was asked before, and if it is asked twice."""
    reader = Reader()
    asked = assistant(reader, always=1)
    for text in ((1, 2, 3, 4), (1, 9, 3, 4), (1, 9, 3, 4), (1, 9), (8, 9, 3)):
        reader.heard.clear()
        asked.propose(text, 1)
        assert reader.heard == [(*PREFIX, *text)]


def test_it_is_asked_for_one_token_at_a_time() -> None:
    """Of the prompt for what comes behind it; of steps always the same place, told once."""
    reader = Reader()
    assert assistant(reader, always=3).propose((), 3) == TEXT[:3]
    first, *steps = reader.looks
    assert [looks.tolist() for looks in reader.looks] == [[len(PREFIX) - 1], [0], [0]]
    assert steps[0] is steps[1]
    assert not steps[0].flags.writeable, "a decoder need not read it again"
    assert first is not steps[0]


def test_the_end_is_not_proposed() -> None:
    """Behind it comes nothing that the large model could look at."""
    _, large, small, tally = helped(always=8)
    assert large.heard == [(*PREFIX, *TEXT)]
    assert len(small.heard) == tally.n_steps == len(TEXT) + 1
    assert tally.n_accepted == len(TEXT)


def test_a_pass_gives_the_end_as_well() -> None:
    """One token ahead and one of its own: two passes for the text, a third for its end."""
    _, large, _, tally = helped(always=1)
    assert [len(heard) - len(PREFIX) for heard in large.heard] == [1, 3, 4]
    assert (tally.n_passes, tally.n_tokens) == (3, len(TEXT) + 1)


def test_where_there_is_a_draft_it_is_not_asked() -> None:
    decoded, large, small, tally = helped(always=2, draft=Draft(TEXT))
    assert large.heard == [(*PREFIX, *TEXT)]
    assert (small.heard, tally.n_passes) == ([], 0)
    assert decoded.drafted is not None
    assert decoded.drafted.n_passes == 1
