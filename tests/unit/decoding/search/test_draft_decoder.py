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
from whisper_hailo.decoding.search.draft_decoder import Costs, DraftDecoder, DraftState, DraftStats
from whisper_hailo.decoding.search.greedy import GreedyChoice
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.decoding.search.verify_draft import Draft

CHEAP = Costs(step=0.1, row=0.05)
LONG = DecodingOptions(max_new_tokens=40)


@dataclass
class Pupil(Oracle):
    """Says what an oracle says, but for a share of the places where it is as sure and wrong."""

    wrong: float = 0.0

    def rewind(self, state: tuple[int, ...], n_tokens: int) -> tuple[int, ...]:
        assert n_tokens < len(state), "what is not shorter need not be cut"
        return state[:n_tokens]

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
        logits = super()._logits(history)
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
    assert (tally.n_fed, tally.n_steps) == (28, 22)
    assert tally.spent == pytest.approx(6 + 0.05 * 22 + 0.1 * 22)


def test_the_assistant_is_fed_what_is_new_and_nothing_else() -> None:
    _, _, pupil = decode(tally=DraftStats(CHEAP, always=3), **long_one())
    # First the prompt; then, each time, its own last token and the one behind it.
    assert pupil.passes == [4, 1, 1] + 6 * [2, 1, 1]
    _, _, pupil = decode(tally=DraftStats(CHEAP, always=3), wrong=1.0, **long_one())
    # All of its tokens but the first are forgotten, and the one that came in its place is new.
    assert set(pupil.passes[3:]) == {1}


def test_no_more_is_drafted_than_is_likely_to_be_worth_it() -> None:
    dear, cheap = DraftStats(Costs(0.9, 0.5)), DraftStats(Costs(0.01, 0.01))
    decode(tally=dear, **long_one())
    decode(tally=cheap, **long_one())
    assert dear.n_steps == 0
    assert cheap.n_steps > cheap.n_passes
    assert cheap.n_accepted > 0


@pytest.mark.parametrize("costs", [Costs(0.06, 0.06), Costs(0.2, 0.06), Costs(0.2, 0.27)])
def test_a_draft_is_as_long_as_is_best(costs: Costs) -> None:
    tally, rng = DraftStats(costs), np.random.default_rng(0)
    for _ in range(1000):
        _propose_and_see(tally, rng, 0.8)
    best = max(
        sum(0.8**n for n in range(k + 1)) / (1 + k * (costs.row + costs.step)) for k in range(16)
    )
    assert tally.n_tokens / tally.spent == pytest.approx(best, rel=0.015)


def test_what_drafts_gain_is_that_of_the_best_length() -> None:
    # Two tokens ahead, at 0.45 each: 2.44 tokens for 1.9 passes; one gives 1.24, three 1.26.
    assert Costs(0.2, 0.25).gain(0.8) == pytest.approx(2.44 / 1.9)
    assert Costs(0.3, 0.3).gain(0.5) == 1.0, "none at all is the best"
    assert Costs(0.0, 0.0).gain(1.0) == pytest.approx(17.0)
    # One token ahead, right in 80 of 100: 1.8 tokens, for 1.1 of which there may be 1.636 passes.
    assert Costs(0.3, 0.33).is_promising
    assert not Costs(0.3, 0.34).is_promising


def test_an_assistant_that_promises_little_is_not_asked_unless_it_is_wished() -> None:
    assert not DraftStats(Costs(0.5, 0.3)).is_profitable
    assert DraftStats(Costs(0.5, 0.3), always=2).is_profitable
    assert DraftStats(CHEAP).is_profitable


def _propose_and_see(tally: DraftStats, rng: np.random.Generator, right: float) -> None:
    """A draft whose tokens are right as often as is said, and what becomes of it."""
    k = 0
    while tally.is_worth_a_step(k, right**k):
        k += 1
        tally.n_steps += 1
        tally.likely += right
        tally.expected += right**k
    accepted = next((n for n in range(k) if rng.random() >= right), k)
    tally.n_passes += 1
    tally.n_fed += 1 + k
    tally.n_accepted += accepted
    tally.n_tokens += accepted + 1


def test_where_tokens_have_become_cheap_an_unlikely_one_is_not_looked_at() -> None:
    fresh, quick = DraftStats(CHEAP), DraftStats(CHEAP, n_tokens=400, n_passes=100, n_fed=100)
    assert quick.speed > 3
    assert [one.is_worth_a_row(0.1) for one in (fresh, quick)] == [True, False]


def test_a_token_that_is_too_unsure_is_decoded_and_not_proposed() -> None:
    tally = DraftStats(Costs(step=0.0, row=0.7))
    _, oracle, _ = decode(tally=tally, **long_one())
    assert tally.n_steps > 0
    assert oracle.passes == [len(PREFIX)] + 27 * [1], "the large model looks at its own tokens only"


def test_who_is_sure_and_wrong_is_believed_less() -> None:
    right, wrong = DraftStats(CHEAP), DraftStats(CHEAP)
    decode(tally=right, **long_one())
    decode(tally=wrong, wrong=1.0, **long_one())
    assert right.calibration > 0.8
    assert wrong.calibration < 0.5
    assert wrong.n_steps / wrong.n_passes < right.n_steps / right.n_passes


def test_an_assistant_is_tried_for_a_while_before_it_must_pay() -> None:
    costs = Costs(step=0.3, row=0.2)
    tried = DraftStats(costs, n_tokens=63, n_passes=63, n_fed=126, n_steps=63)
    assert tried.spent > tried.n_tokens
    assert tried.is_profitable
    assert not replace(tried, n_tokens=64).is_profitable
    assert replace(tried, n_tokens=200).is_profitable
    assert replace(tried, n_tokens=64, always=2).is_profitable


@pytest.mark.parametrize(("n_passes", "pays"), [(40, True), (90, False)])
def test_it_pays_where_the_text_took_less_than_a_pass_for_each_token(
    n_passes: int, pays: bool
) -> None:
    assert (
        DraftStats(CHEAP, n_tokens=90, n_passes=n_passes, n_fed=99, n_steps=30).is_profitable
        == pays
    )


def test_before_there_are_tokens_four_are_believed_in() -> None:
    """Four for four passes, of which an assistant is right in eight of ten, as it says."""
    fresh = DraftStats(Costs(step=0.5, row=0.25))
    assert (fresh.calibration, fresh.speed, fresh.spent) == (1.0, 1.0, 0.0)
    assert replace(fresh, expected=4.0).calibration == 0.5
    assert replace(fresh, expected=4.0, n_accepted=2).calibration == 0.75
    assert replace(fresh, expected=4.0, n_accepted=9).calibration == 1.0
    assert replace(fresh, n_tokens=12, n_passes=4, n_fed=4).speed == 2.0
    assert replace(fresh, n_tokens=2, n_passes=4, n_fed=4).speed == 1.0, "alone it is no slower"


def test_a_step_and_a_row_are_worth_more_than_they_cost() -> None:
    """0.8 of a token for less than 0.8 of a pass; of those decoded, all were sure."""
    even, less = DraftStats(Costs(0.5, 0.3)), DraftStats(Costs(0.5, 0.29))
    assert [one.is_worth_a_step(3, 1.0) for one in (even, less)] == [False, True]
    sure = replace(even, n_steps=4, likely=4.0)
    assert [sure.is_worth_a_step(3, p) for p in (0.88, 0.9)] == [False, True]
    unsure = replace(less, n_steps=4, likely=2.0)
    assert not unsure.is_worth_a_step(3, 1.0)
    assert [even.is_worth_a_row(p) for p in (0.3, 0.31)] == [False, True]
    doubted = replace(even, expected=4.0)
    assert [doubted.is_worth_a_row(p) for p in (0.6, 0.61)] == [False, True]


@pytest.mark.parametrize("always", [1, 3])
def test_as_many_as_are_asked_for_are_drafted_however_unlikely(always: int) -> None:
    tally = DraftStats(Costs(0.9, 0.9), always, expected=99.0)
    assert [tally.is_worth_a_step(n, 0.0) for n in (0, always - 1, always)] == [True, True, False]
    assert tally.is_worth_a_row(0.0)


def test_it_must_bring_more_than_a_tenth() -> None:
    """88 tokens for 80 passes are a tenth more."""
    tally = DraftStats(CHEAP, n_tokens=88, n_passes=80, n_fed=80)
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
    costs = Costs.of(large, small)
    assert costs.step == pytest.approx((4 * 14 * 384**2 + 51_865 * 384) / 138_930_432, rel=1e-3)
    assert costs.row > Costs.of(replace(large, quantization="none"), small).row
    whole = replace(small, quantization="none")
    assert Costs.of(large, whole).step == pytest.approx(32 / 12 * costs.step)


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
    costs = {form: Costs.of(replace(small, quantization=form), tiny) for form in QUANTIZATIONS}
    assert {form for form, found in costs.items() if found.is_promising} == forms


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

    def _logits(self, history: tuple[int, ...]) -> np.ndarray:
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
    assert (tally.n_accepted, tally.n_fed) == (len(TEXT), 1 + len(TEXT))


def test_a_pass_gives_the_end_as_well() -> None:
    """One token ahead and one of its own: two passes for the text, a third for its end."""
    _, large, _, tally = helped(always=1)
    assert [len(heard) - len(PREFIX) for heard in large.heard] == [1, 3, 4]
    assert (tally.n_passes, tally.n_tokens) == (3, len(TEXT) + 1)


def test_what_it_expects_of_itself_is_counted_once() -> None:
    """It is nearly sure of every token, and right."""
    for always in (1, 2, 3):
        _, _, _, tally = helped(always)
        assert tally.expected == pytest.approx(tally.n_accepted, rel=0.02)


def test_where_there_is_a_draft_it_is_not_asked() -> None:
    decoded, large, small, tally = helped(always=2, draft=Draft(TEXT))
    assert large.heard == [(*PREFIX, *TEXT)]
    assert (small.heard, tally.n_passes) == ([], 0)
    assert decoded.drafted is not None
    assert decoded.drafted.n_passes == 1
