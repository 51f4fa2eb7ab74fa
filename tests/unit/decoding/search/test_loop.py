"""The loop against a decoder that follows a script: what is fed, what is asked, when it stops."""

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
    decode,
)
from tests.fakes.two_token_decoder import (
    TwoTokenDecoder,
    tried,
    two_token_decoder,
)
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
)
from whisper_hailo.decoding.prompt import detect_languages
from whisper_hailo.decoding.search.beam_search import BeamChoice
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask


def run(
    decoder: ScriptedDecoder, options: DecodingOptions | None = None
) -> list[tuple[int, ...]]:
    return [decoded.tokens for decoded in decode(decoder, options)]


def test_greedy_follows_the_best_token_until_eot() -> None:
    decoder = ScriptedDecoder([[1, 2, 3, EOT]])
    assert run(decoder) == [(1, 2, 3)]
    assert decoder.fed == [[list(PREFIX)], [[1]], [[2]], [[3]]]


def test_greedy_rows_leave_the_batch_when_done() -> None:
    decoder = ScriptedDecoder([[1, EOT], [2, 3, 4, EOT]])
    assert run(decoder) == [(1,), (2, 3, 4)]
    assert decoder.fed[1:] == [[[1], [2]], [[3]], [[4]]]


def test_runaway_stops_at_the_budget() -> None:
    (decoded,) = decode(ScriptedDecoder([[5]]), DecodingOptions(max_new_tokens=3))
    assert decoded.tokens == (5, 5, 5)
    assert decoded.runaway


def test_eot_on_the_last_allowed_step_is_no_runaway() -> None:
    (decoded,) = decode(
        ScriptedDecoder([[5, 5, EOT]]), DecodingOptions(max_new_tokens=3)
    )
    assert decoded.tokens == (5, 5)
    assert not decoded.runaway


def test_no_step_follows_the_budget() -> None:
    decoder = ScriptedDecoder([[5]])
    run(decoder, DecodingOptions(max_new_tokens=3))
    assert len(decoder.fed) == 3


def test_suppressed_and_control_tokens_are_never_taken() -> None:
    for forbidden in (7, TOY_TOKENS.sot, TOY_TOKENS.no_speech, TOY_TOKENS.translate):
        (tokens,) = run(ScriptedDecoder([[1, forbidden, EOT]]))  # type: ignore[list-item]
        assert forbidden not in tokens


def test_begin_suppress_holds_for_the_first_token_only() -> None:
    assert run(ScriptedDecoder([[6, 6, EOT]])) == [(0, 6)]
    assert run(ScriptedDecoder([[EOT, EOT]])) == [(0,)]


def test_repetition_penalty_breaks_loops() -> None:
    # Base 3, repeated token 7: divided by 3 it falls below the rest, so others take over.
    looping = ScriptedDecoder([[5]], base=3.0)
    options = DecodingOptions(
        anti_repetition=AntiRepetition(repetition_penalty=3.0), max_new_tokens=4
    )
    (tokens,) = run(looping, options)
    assert tokens[0] == 5
    assert 5 not in tokens[1:]


def test_prefix_is_not_penalised() -> None:
    tokens = replace(TOY_TOKENS, suppress=())
    decoder = ScriptedDecoder([[13, EOT]])
    options = DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=100.0))
    assert decode(decoder, options, tokens, (11, 13))[0].tokens == (13,)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_eot_boost_ends_early(beam_size: int) -> None:
    decoder = ScriptedDecoder([[1, 2, 3, EOT]])
    search = SearchOptions(beam_size=beam_size)
    options = DecodingOptions(
        anti_repetition=AntiRepetition(eot_boost=4.5), search=search
    )
    # The first token may not be end-of-transcript.
    assert run(decoder, options) == [(1,)]


def test_avg_logprob_is_among_allowed_ids_with_eot() -> None:
    (decoded,) = decode(ScriptedDecoder([[1, EOT]]))
    never = 8  # control tokens and one suppressed id; first also two more
    first = 4.0 - np.log(np.exp(4.0) + TOY.n_vocab - 1 - never - 2)
    second = 4.0 - np.log(np.exp(4.0) + TOY.n_vocab - 1 - never)
    assert decoded.avg_logprob == pytest.approx((first + second) / 2, abs=1e-5)


def test_penalty_keeps_avg_logprob() -> None:
    """The word that comes again is still the best by far, and as likely as the model says."""
    (plain,) = decode(ScriptedDecoder([[5, 5, 5, EOT]]))
    (penalised,) = decode(
        ScriptedDecoder([[5, 5, 5, EOT]]),
        DecodingOptions(anti_repetition=AntiRepetition(repetition_penalty=1.2)),
    )
    assert penalised.tokens == plain.tokens == (5, 5, 5)
    assert penalised.avg_logprob == plain.avg_logprob


def test_no_speech_prob_is_read_at_start_of_transcript() -> None:
    (decoded,) = decode(ScriptedDecoder([[1, EOT]]))
    assert decoded.no_speech_prob == pytest.approx(1 / TOY.n_vocab, abs=1e-6)
    (without,) = decode(
        ScriptedDecoder([[1, EOT]]), tokens=replace(TOY_TOKENS, no_speech=None)
    )
    assert without.no_speech_prob == 0.0


def test_detect_languages_ranks_the_languages_only() -> None:
    decoder = ScriptedDecoder([[13], [12], [9]])
    first, second, third = detect_languages(decoder, decoder.start(), TOY_TOKENS)  # type: ignore[arg-type]
    assert list(first) == ["de", "en"]
    assert list(second) == ["en", "de"]
    assert first["de"] == pytest.approx(np.exp(4) / (np.exp(4) + 1), abs=1e-6)
    assert third == {"en": 0.5, "de": 0.5}
    assert decoder.fed == [[[TOY_TOKENS.sot]] * 3]


def test_detect_languages_of_english_model_needs_no_step() -> None:
    decoder, english = ScriptedDecoder([[1]]), replace(TOY_TOKENS, languages={})
    assert detect_languages(decoder, decoder.start(), english) == ({"en": 1.0},)  # type: ignore[arg-type]
    assert decoder.fed == []


def test_prompts_of_two_lengths_are_padded_left() -> None:
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
def test_tokens_per_second_bound_each_window(
    search: SearchOptions, temperature: float, seconds: tuple[float, float]
) -> None:
    decoder = ScriptedDecoder([[5], [5]])
    options = DecodingOptions(search=search, limits=TokenLimits(max_per_second=2.0))
    loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
    tasks = [DecodingTask(PREFIX, content_s) for content_s in seconds]
    found = loop.run(decoder.start(), tasks, temperature)
    assert [one.tokens for one in found] == [(5,) * round(2 * each) for each in seconds]
    assert all(one.runaway for one in found)


def test_sampling_repeats_with_the_same_seed_and_key() -> None:
    def sample(seed: int, key: int = 0) -> tuple[int, ...]:
        decoder = ScriptedDecoder([[1, 2, 3, 4, EOT]])
        options = DecodingOptions(
            search=SearchOptions(seed=seed, best_of=3), max_new_tokens=12
        )
        loop = DecodingLoop(decoder, TOY_TOKENS, options)  # type: ignore[arg-type]
        return loop.run(decoder.start(), [DecodingTask(PREFIX, key=key)], 1.5)[0].tokens

    assert sample(0) == sample(0)
    assert len({sample(seed) for seed in range(8)}) > 1
    assert len({sample(0, key) for key in range(8)}) > 1


def test_beam_finds_what_greedy_misses() -> None:
    class Garden(ScriptedDecoder):
        """Token 1 looks best and leads to a flat distribution; token 2 to a certain one."""

        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
        ) -> Any:
            logits = np.zeros((len(tokens), len(positions), TOY.n_vocab), np.float32)
            for row, last in enumerate(tokens[:, -1]):
                if state.step == 0:
                    logits[row, -1, 1], logits[row, -1, 2] = 4.0, 3.9
                elif last == 2:
                    logits[row, -1, EOT] = 9.0
                else:
                    logits[row, -1, EOT] = 0.1
            logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(
                np.float32
            )
            return StepOutput(logits, logsumexp), State(state.step + 1, state.rows)

    assert run(Garden([[0]]))[0][0] == 1
    assert run(Garden([[0]]), DecodingOptions(search=SearchOptions(beam_size=3))) == [
        (2,)
    ]


@pytest.mark.parametrize(
    ("no_speech_prob", "avg_logprob", "silence"),
    [(0.61, -1.0, True), (0.6, -3.0, False), (0.99, -0.99, False), (0.0, -9.0, False)],
)
def test_is_silence_needs_no_speech_and_unlikely_text(
    no_speech_prob: float, avg_logprob: float, silence: bool
) -> None:
    decoded = Decoded((1,), avg_logprob, no_speech_prob, runaway=False)
    assert decoded.is_silence(Thresholds()) is silence


@pytest.mark.parametrize(("no_speech_prob", "silence"), [(0.61, True), (0.6, False)])
def test_is_silence_of_text_ending_at_once_is_true(
    no_speech_prob: float, silence: bool
) -> None:
    decoded = Decoded((1,), -0.01, no_speech_prob, runaway=False, ends_at_once=True)
    assert decoded.is_silence(Thresholds()) is silence
    assert not decoded.is_silence(Thresholds(no_speech=None))


def test_ends_at_once_is_read_before_any_rule() -> None:
    ended, spoken = decode(ScriptedDecoder([[EOT], [1, EOT]]))
    assert ended.ends_at_once
    assert not spoken.ends_at_once


def test_done_rows_stay_while_most_rows_run() -> None:
    """To leave, the keys and values of those that stay are copied: not for each one."""
    decoder = ScriptedDecoder(
        [[1, EOT], [2, 2, EOT], [3, 3, 3, 3, EOT], [4, 4, 4, EOT]]
    )
    alone = [run(ScriptedDecoder([script]))[0] for script in decoder.scripts]
    assert run(decoder) == alone == [(1,), (2, 2), (3, 3, 3, 3), (4, 4, 4)]
    assert [len(fed) for fed in decoder.fed] == [4, 4, 4, 2, 1]
    assert decoder.fed[2] == [[EOT], [2], [3], [4]]


def test_row_that_ends_at_once_leaves_others_alone() -> None:
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
def test_batch_gives_the_results_of_its_rows(options: DecodingOptions) -> None:
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
    for script, of_batch in zip(scripts, batch, strict=True):
        (alone,) = decode(Noisy([script]), options)
        assert of_batch == alone


@dataclass
class Asked(ScriptedDecoder):
    """Notes what it is asked for."""

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
def test_decoder_is_asked_for_needed_outputs_only(
    search: SearchOptions, temperature: float
) -> None:
    """No weights of attention, no padding, and of steps always the same place, told once."""
    asked = Asked([[1, 2, 3, EOT], [4, 5, EOT]])
    options = DecodingOptions(search=search, max_new_tokens=4)
    decode(asked, options, temperature=temperature)
    assert [named["alignment"] for named in asked.named] == [False] * 4
    assert asked.named[0]["first"] is None
    assert [looks.tolist() for looks in asked.looks] == [[0, 3], [0], [0], [0]]
    step, *others = asked.looks[1:]
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
def test_no_speech_prob_is_read_at_each_row_s_sot(n_before: int) -> None:
    """The second one's begins earlier: its text has a beginning, as `--prefix` gives it."""
    decoder = Silent([[1, EOT], [2, EOT]])
    loop = DecodingLoop(decoder, TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    prompts = (17, 5, 5)[:n_before] + PREFIX, (*PREFIX, *[3] * 8)
    found = loop.run(decoder.start(), [DecodingTask(prompt) for prompt in prompts])
    assert [one.no_speech_prob for one in found] == pytest.approx([0.9, 0.2], abs=1e-6)
    assert [one.tokens for one in found] == [(1,), (2,)]
    assert not any(one.ends_at_once for one in found)


def test_nan_in_logsumexp_is_refused() -> None:
    class Broken(ScriptedDecoder):
        def step(self, *fed: Any, **_: Any) -> Any:
            output, after = super().step(*fed)
            output.logsumexp[1, -1] = np.nan
            return output, after

    with pytest.raises(ModelError, match="not numbers"):
        decode(Broken([[1, EOT], [2, EOT]]))


def test_retry_of_a_whole_batch_copies_no_state() -> None:
    """Keys and values of a window are megabytes."""

    class Heavy(TwoTokenDecoder):
        def select(self, state: State, rows: np.ndarray) -> State:
            assert rows.tolist() != list(range(len(state.rows)))
            return super().select(state, rows)

    decoder = Heavy([[0]] * 2, shares=(0.5, 0.5))
    tried(decoder)
    assert decoder.heard == [{0, 1}] * 12, "at three temperatures"


def test_default_key_draws_like_key_zero() -> None:
    class Flat(ScriptedDecoder):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
        ) -> Any:
            logits = np.zeros(
                (len(state.rows), len(positions), TOY.n_vocab), np.float32
            )
            sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
            return StepOutput(logits, sums), State(state.step + 1, state.rows)

    def drawn(*tasks: DecodingTask) -> tuple[int, ...]:
        options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=12)
        loop = DecodingLoop(Flat([[0]]), TOY_TOKENS, options)  # type: ignore[arg-type]
        return loop.run(State(0, (0,)), tasks, 1.0)[0].tokens

    assert drawn(DecodingTask(PREFIX)) == drawn(DecodingTask(PREFIX, key=0))
    assert drawn(DecodingTask(PREFIX)) != drawn(DecodingTask(PREFIX, key=1))


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
def test_budget_is_bounded_by_the_longest_prompt(
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
def test_prompt_filling_the_context_leaves_no_text(
    search: SearchOptions, temperature: float
) -> None:
    decoder = ScriptedDecoder([[1, EOT]])
    (found,) = run_with_prompt(decoder, [TOY.n_text_ctx], search, temperature)
    assert (found.tokens, found.runaway) == ((), True)
    assert len(decoder.fed) == 1


def test_beam_without_allowed_ids_gives_empty_text() -> None:
    beam = BeamChoice(EOT, 0.0, 2, 1.0)
    barred = np.full(30, -np.inf, np.float32)
    assert beam.advance([FilteredLogits(barred, 0.0, barred)]) == []
    assert not beam.running
    (found,) = beam.finish()
    assert (found.tokens, found.done) == ((), False)


class Flat(ScriptedDecoder):
    """Every id is as likely as any other."""

    def step(
        self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
    ) -> Any:
        logits = np.zeros((len(state.rows), len(positions), TOY.n_vocab), np.float32)
        sums = np.full(logits.shape[:2], np.log(TOY.n_vocab), np.float32)
        return StepOutput(logits, sums), State(state.step + 1, state.rows)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_sampling_at_each_temperature_differs(beam_size: int) -> None:
    """Where all is even the temperature changes nothing: only other numbers give other texts."""
    search = SearchOptions(best_of=1, beam_size=beam_size)  # which is of temperature 0
    options = DecodingOptions(search=search, max_new_tokens=12)
    drawn = {
        decode(Flat([[0]]), options, temperature=t)[0].tokens for t in (0.2, 0.4, 0.6)
    }
    assert len(drawn) == 3


def test_sampling_takes_the_best_of_several() -> None:
    """The first of five is the one that is drawn alone, so that five are as good or better."""

    def score(best_of: int, seed: int) -> float:
        options = DecodingOptions(
            search=SearchOptions(best_of=best_of, seed=seed), max_new_tokens=6
        )
        return decode(two_token_decoder(0.7), options, temperature=1.0)[0].avg_logprob

    gained = [score(5, seed) - score(1, seed) for seed in range(10)]
    assert min(gained) == 0.0
    assert sum(gain > 0.1 for gain in gained) > 3


@pytest.mark.parametrize(
    ("temperature", "share"), [(0.5, 0.9), (1.0, 0.75), (2.0, 0.634)]
)
def test_sampling_divides_logits_by_temperature(
    temperature: float, share: float
) -> None:
    """Odds of 3 to 1 become 9 to 1 at half the temperature, and the root of 3 at twice it."""
    options = DecodingOptions(search=SearchOptions(best_of=1), max_new_tokens=1)
    n_taken = 0
    for seed in range(400):
        loop = DecodingLoop(two_token_decoder(0.75), TOY_TOKENS, options)  # type: ignore[arg-type]
        (decoded,) = loop.run(
            State(0, (0,)), [DecodingTask(PREFIX, key=seed)], temperature
        )
        n_taken += decoded.tokens == (0,)
    assert n_taken / 400 == pytest.approx(share, abs=0.06)


def test_sampling_with_boost_takes_near_eot() -> None:
    """The end has odds of 1 to 3 with the best: within a boost of 1.5, not within one of 1."""

    class Ending(TwoTokenDecoder):
        def step(
            self, tokens: np.ndarray, state: State, positions: np.ndarray, **_: Any
        ) -> Any:
            output, after = super().step(tokens, state, positions)
            output.logits[:, -1, EOT] = np.log(0.33)
            return output, after

    def tokens(boost: float) -> tuple[int, ...]:
        options = DecodingOptions(
            search=SearchOptions(best_of=1),
            anti_repetition=AntiRepetition(eot_boost=boost),
            max_new_tokens=3,
        )
        decoder = Ending([[0]], shares=(0.99,))
        return decode(decoder, options, temperature=0.01)[0].tokens

    assert tokens(1.5) == (0,)  # the first token may not be end-of-transcript
    assert tokens(1.0) == (0, 0, 0)
