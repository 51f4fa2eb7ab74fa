"""The loop with a scripted decoder: tokens fed, outputs requested, and the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY, TOY_TOKENS
from tests.fakes.scripted_decoder import (
    EOT,
    PREFIX,
    ScriptedDecoder,
    State,
    TwoTokenDecoder,
    decode,
)
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
    TokenLimits,
)
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask


def run(
    decoder: ScriptedDecoder, options: DecodingOptions | None = None
) -> list[tuple[int, ...]]:
    return [decoded.tokens for decoded in decode(decoder, options)]


def test_loop_never_takes_suppressed_or_control_tokens() -> None:
    for forbidden in (7, TOY_TOKENS.sot, TOY_TOKENS.no_speech, TOY_TOKENS.translate):
        (tokens,) = run(ScriptedDecoder([[1, forbidden, EOT]]))  # type: ignore[list-item]
        assert forbidden not in tokens


def test_loop_begin_suppress_affects_first_token_only() -> None:
    assert run(ScriptedDecoder([[6, 6, EOT]])) == [(0, 6)]
    assert run(ScriptedDecoder([[EOT, EOT]])) == [(0,)]


def test_loop_repetition_penalty_breaks_repetition() -> None:
    # Base 3, repeated token 7: divided by 3 it falls below the rest, so others take over.
    looping = ScriptedDecoder([[5]], base=3.0)
    options = DecodingOptions(
        anti_repetition=AntiRepetition(repetition_penalty=3.0), max_new_tokens=4
    )
    (tokens,) = run(looping, options)
    assert tokens[0] == 5
    assert 5 not in tokens[1:]


def test_loop_repetition_penalty_ignores_prefix() -> None:
    tokens = replace(TOY_TOKENS, suppress=())
    decoder = ScriptedDecoder([[13, EOT]])
    options = DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=100.0))
    assert decode(decoder, options, tokens, (11, 13))[0].tokens == (13,)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_loop_eot_boost_ends_early(beam_size: int) -> None:
    decoder = ScriptedDecoder([[1, 2, 3, EOT]])
    search = SearchOptions(beam_size=beam_size)
    options = DecodingOptions(
        anti_repetition=AntiRepetition(eot_boost=4.5), search=search
    )
    # The first token may not be end-of-transcript.
    assert run(decoder, options) == [(1,)]


def test_loop_avg_logprob_counts_allowed_ids_and_eot() -> None:
    (decoded,) = decode(ScriptedDecoder([[1, EOT]]))
    never = 8  # control tokens and one suppressed id; first also two more
    first = 4.0 - np.log(np.exp(4.0) + TOY.n_vocab - 1 - never - 2)
    second = 4.0 - np.log(np.exp(4.0) + TOY.n_vocab - 1 - never)
    assert decoded.avg_logprob == pytest.approx((first + second) / 2, abs=1e-5)


def test_loop_penalty_keeps_avg_logprob() -> None:
    """The word that comes again is still the best by far, and as likely as the model says."""
    (plain,) = decode(ScriptedDecoder([[5, 5, 5, EOT]]))
    (penalised,) = decode(
        ScriptedDecoder([[5, 5, 5, EOT]]),
        DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=1.2)),
    )
    assert penalised.tokens == plain.tokens == (5, 5, 5)
    assert penalised.avg_logprob == plain.avg_logprob


def test_loop_no_speech_prob_is_read_at_sot() -> None:
    (decoded,) = decode(ScriptedDecoder([[1, EOT]]))
    assert decoded.no_speech_prob == pytest.approx(1 / TOY.n_vocab, abs=1e-6)
    (without,) = decode(
        ScriptedDecoder([[1, EOT]]), tokens=replace(TOY_TOKENS, no_speech=None)
    )
    assert without.no_speech_prob == 0.0


def test_loop_prompts_of_two_lengths_are_padded_left() -> None:
    seen = {}

    class Watching(ScriptedDecoder):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **rest: Any
        ) -> Any:
            seen.setdefault("first", rest.get("first"))
            seen.setdefault("looks", positions.tolist())
            return super().step(tokens, state, positions, **rest)

    decoder = Watching([[1, EOT], [2, EOT]])
    loop = DecodingLoop(decoder, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    loop.run(decoder.start(), [DecodingTask(PREFIX), DecodingTask((17, 5, 5, *PREFIX))])
    assert decoder.fed[0] == [[EOT, EOT, EOT, *PREFIX], [17, 5, 5, *PREFIX]]
    assert seen["first"].tolist() == [3, 0]
    assert seen["looks"] == [3, 6]


@pytest.mark.parametrize("seconds", [(0.5, 1.5), (1.5, 0.5)])
@pytest.mark.parametrize(
    ("search", "temperature"),
    [
        (SearchOptions(), 0.0),
        (SearchOptions(beam_size=2), 0.0),
        (SearchOptions(best_of=2), 0.01),
    ],
)
def test_loop_tokens_per_second_bound_each_window(
    search: SearchOptions, temperature: float, seconds: tuple[float, float]
) -> None:
    decoder = ScriptedDecoder([[5], [5]])
    options = DecodingOptions(search=search, limits=TokenLimits(max_per_second=2.0))
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX, content_s) for content_s in seconds]
    found = loop.run(decoder.start(), tasks, temperature)
    assert [decoded.tokens for decoded in found] == [
        (5,) * round(2 * each) for each in seconds
    ]
    assert all(decoded.runaway for decoded in found)


def test_loop_ends_at_once_is_read_before_rules() -> None:
    ended, spoken = decode(ScriptedDecoder([[EOT], [1, EOT]]))
    assert ended.ends_at_once
    assert not spoken.ends_at_once


def test_loop_row_ending_at_once_keeps_other_rows() -> None:
    """Id 6 may not come first, and the row beside it never has a first token."""
    may_end = replace(TOY_TOKENS, begin_suppress=(6,))
    decoder = ScriptedDecoder([[EOT], [1, 6, 2, EOT], [3, 6, 6, EOT]])
    batch = [decoded.tokens for decoded in decode(decoder, tokens=may_end)]
    assert batch == [(), (1, 6, 2), (3, 6, 6)]


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(max_new_tokens=9),
        DecodingOptions(
            anti_repetition=AntiRepetition(repetition_penalty=1.7, eot_boost=0.4),
            max_new_tokens=9,
        ),
        DecodingOptions(timestamps=True, max_new_tokens=9),
        DecodingOptions(limits=TokenLimits(no_repeat_ngram=2), max_new_tokens=9),
    ],
)
def test_loop_batch_matches_its_rows_alone(options: DecodingOptions) -> None:
    """Tokens and log-probabilities, under every kind of rule."""

    class Noisy(ScriptedDecoder):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
        ) -> Any:
            output, after = super().step(tokens, state, positions)
            for row, of in enumerate(state.rows):
                rng = np.random.default_rng([self.scripts[of][0], state.step])
                output.logits[row] += rng.normal(0, 2, TOY.n_vocab)
            logsumexp = np.log(np.exp(output.logits.astype(np.float64)).sum(-1))
            return StepOutput(output.logits, logsumexp.astype(np.float32)), after

    scripts = [[seed, 3, 5, EOT] for seed in range(5)]
    batch = decode(Noisy(scripts), options)
    for script, batch_result in zip(scripts, batch, strict=True):
        (alone,) = decode(Noisy([script]), options)
        assert batch_result == alone


@dataclass
class RecordingDecoder(ScriptedDecoder):
    """A scripted decoder that records the outputs requested of each step."""

    looks: list[np.ndarray] = field(default_factory=list)
    named: list[dict[str, Any]] = field(default_factory=list)

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **named: Any
    ) -> Any:
        self.looks.append(positions)
        self.named.append(named)
        return super().step(tokens, state, positions)


SEARCHES = [
    pytest.param(SearchOptions(), 0.0, id="greedy"),
    pytest.param(SearchOptions(beam_size=2), 0.0, id="beam"),
    pytest.param(SearchOptions(best_of=2), 0.5, id="sampled"),
]


@pytest.mark.parametrize(("search", "temperature"), SEARCHES)
def test_loop_requests_needed_outputs_only(
    search: SearchOptions, temperature: float
) -> None:
    """No weights of attention, no padding, and of steps always the same place, told once."""
    decoder = RecordingDecoder([[1, 2, 3, EOT], [4, 5, EOT]])
    options = DecodingOptions(search=search, max_new_tokens=4)
    decode(decoder, options, temperature=temperature)
    assert [named["alignment"] for named in decoder.named] == [False] * 4
    assert decoder.named[0]["first"] is None
    assert [looks.tolist() for looks in decoder.looks] == [[0, 3], [0], [0], [0]]
    step, *others = decoder.looks[1:]
    assert all(looks is step for looks in others)
    assert not step.flags.writeable, "a decoder need not read it again"


class Silent(ScriptedDecoder):
    """At start-of-transcript the first row is silent with 0.9, the second with 0.2."""

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        output, after = super().step(tokens, state, positions)
        rows, columns = np.nonzero(tokens[:, positions] == TOY_TOKENS.sot)
        for row, column in zip(rows, columns, strict=True):
            silent = (0.9, 0.2)[row]
            output.logits[row, column] = -30.0
            output.logits[row, column, [TOY_TOKENS.no_speech, 9]] = np.log(
                [silent, 1 - silent]
            )
            output.logsumexp[row, column] = 0.0
        return output, after


@pytest.mark.parametrize("n_before", [0, 3])
def test_loop_no_speech_prob_is_read_at_sot_of_each_row(n_before: int) -> None:
    """The second one's begins earlier: its text has a beginning, as `--prefix` gives it."""
    decoder = Silent([[1, EOT], [2, EOT]])
    loop = DecodingLoop(decoder, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    prompts = (17, 5, 5)[:n_before] + PREFIX, (*PREFIX, *[3] * 8)
    found = loop.run(decoder.start(), [DecodingTask(prompt) for prompt in prompts])
    assert [decoded.no_speech_prob for decoded in found] == pytest.approx(
        [0.9, 0.2], abs=1e-6
    )
    assert [decoded.tokens for decoded in found] == [(1,), (2,)]
    assert not any(decoded.ends_at_once for decoded in found)


def test_loop_nan_logsumexp_is_refused() -> None:
    class Broken(ScriptedDecoder):
        def step(self, *fed: Any, **_: Any) -> Any:
            output, after = super().step(*fed)
            output.logsumexp[1, -1] = np.nan
            return output, after

    with pytest.raises(ModelError):
        decode(Broken([[1, EOT], [2, EOT]]))


def prompt(n_tokens: int) -> tuple[int, ...]:
    return (*[5] * (n_tokens - len(PREFIX)), *PREFIX)


def run_with_prompt(
    decoder: ScriptedDecoder,
    lengths: list[int],
    search: SearchOptions,
    temperature: float,
) -> tuple[Decoded, ...]:
    """Decode with prompts of so many tokens."""
    options = DecodingOptions(search=search)
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(prompt(n_tokens)) for n_tokens in lengths]
    return loop.run(decoder.start(), tasks, temperature)


@pytest.mark.parametrize(("search", "temperature"), SEARCHES)
@pytest.mark.parametrize("lengths", [[4, 24], [24, 4]])
def test_loop_budget_is_bounded_by_longest_prompt(
    lengths: list[int], search: SearchOptions, temperature: float
) -> None:
    """Shorter ones are padded to it: of 32 tokens 8 are left to each window."""
    decoder = ScriptedDecoder([[1], [2]], base=-9.0)
    for found in run_with_prompt(decoder, lengths, search, temperature):
        assert len(found.tokens) == TOY.n_text_ctx - 24
        assert found.runaway
    n_fed = sum(len(fed[0]) for fed in decoder.fed)
    assert n_fed == TOY.n_text_ctx - 1, "the last token is not fed"


@pytest.mark.parametrize(("search", "temperature"), SEARCHES)
def test_loop_prompt_filling_context_gives_no_text(
    search: SearchOptions, temperature: float
) -> None:
    decoder = ScriptedDecoder([[1, EOT]])
    (found,) = run_with_prompt(decoder, [TOY.n_text_ctx], search, temperature)
    assert (found.tokens, found.runaway) == ((), True)
    assert len(decoder.fed) == 1


@dataclass
class Louder(TwoTokenDecoder):
    """All of its logits are higher by three, which changes no probability."""

    def step(self, *fed: Any, **named: Any) -> Any:
        output, after = super().step(*fed, **named)
        return StepOutput(output.logits + 3.0, output.logsumexp + 3.0), after


@pytest.mark.parametrize("make", [TwoTokenDecoder, Louder])
@pytest.mark.parametrize(
    ("search", "temperature"),
    [
        *((SearchOptions(best_of=1, seed=seed), 1.5) for seed in range(4)),
        (SearchOptions(), 0.0),
        (SearchOptions(beam_size=3), 0.0),
    ],
)
def test_loop_avg_logprob_is_independent_of_temperature(
    make: type[TwoTokenDecoder], search: SearchOptions, temperature: float
) -> None:
    """The model's own, whatever the temperature; the end is certain and counts as one more."""
    decoder = make([[0]], shares=(0.75,))
    (decoded,) = decode(
        decoder, DecodingOptions(search=search), temperature=temperature
    )
    logprobs = [np.log(0.25 if token else 0.75) for token in decoded.tokens]
    assert decoded.avg_logprob == pytest.approx(sum(logprobs) / 4, abs=1e-5)
    assert decoded.no_speech_prob == pytest.approx(0.0, abs=1e-6)
