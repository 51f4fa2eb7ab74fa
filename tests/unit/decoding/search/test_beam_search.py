"""Beam search counted out by hand, as OpenAI Whisper's `BeamSearchDecoder` does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.fakes.model_sizes import TOY
from tests.fakes.scripted_decoder import (
    END,
    EOT,
    Odds,
    OddsTreeDecoder,
    ScriptedDecoder,
    State,
    decode,
    logprobs,
    unruled,
)
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.logits_rules import FilteredLogits
from whisper_hailo.decoding.options import (
    AntiRepetition,
    DecodingOptions,
    SearchOptions,
)
from whisper_hailo.decoding.search.beam_search import BeamChoice, highest_logits


def beam(size: int, patience: float = 1.0, boost: float = 0.0) -> BeamChoice:
    return BeamChoice(END, boost, size, patience)


def step(choice: BeamChoice, *rows: Odds) -> list[int]:
    return choice.advance([unruled(logprobs(odds), 0.0) for odds in rows])


def texts(hypotheses: Sequence[Any]) -> list[tuple[int, ...]]:
    return [hypothesis.tokens for hypothesis in hypotheses]


def test_beam_continues_the_best_sums() -> None:
    """Sums 0.6 * 0.5, 0.4 * 0.7, 0.6 * 0.3 and so on decide, whichever row they come from."""
    search = beam(2)
    assert step(search, {0: 0.6, 1: 0.4}) == [0, 0]
    assert texts(search.running) == [(0,), (1,)]
    assert step(search, {2: 0.5, 3: 0.3}, {4: 0.7, 0: 0.2}) == [0, 1]
    assert texts(search.running) == [(0, 2), (1, 4)]
    assert step(search, {1: 0.1, 2: 0.1}, {3: 0.6, 4: 0.4}) == [1, 1]
    assert texts(search.running) == [(1, 4, 3), (1, 4, 4)]
    assert search.running[0].sum_logprob == pytest.approx(
        np.log(0.4 * 0.7 * 0.6), abs=1e-5
    )


@pytest.mark.parametrize(
    ("patience", "n_steps"),
    [(0.5, 1), (0.8, 2), (1.0, 2), (1.2, 2), (1.5, 3), (2.0, 4)],
)
def test_beam_patience_sets_the_number_of_ends(patience: float, n_steps: int) -> None:
    """Every step finishes one, the best; two are wanted with patience 1, four with patience 2."""
    search = beam(2, patience)
    rows = 1
    for _ in range(n_steps):
        assert search.running
        step(
            search, *[{END: 0.5, 0: 0.3, 1: 0.2}, {END: 1e-9, 0: 1e-9, 1: 1e-9}][:rows]
        )
        rows = 2
    assert not search.running
    assert len(search.finish()) == max(2, n_steps)


def test_beam_with_little_patience_waits_for_one_end() -> None:
    search = beam(1, patience=0.1)
    assert search.running
    step(search, {0: 0.7, END: 0.2})
    assert search.running
    step(search, {END: 0.9, 0: 0.1})
    assert not search.running
    assert texts(search.finish()) == [(0,)]


def test_beam_with_enough_ends_drops_running_ones() -> None:
    """Two ends are wanted and found, unlikely ones; what still runs is likelier and no text yet."""
    search = beam(2)
    # Behind the two that are kept, so it is no end.
    step(search, {0: 0.9, 1: 0.06, END: 0.03})
    assert texts(search.running) == [(0,), (1,)]
    step(search, {END: 0.5, 2: 0.4, 3: 0.1}, {END: 0.9, 4: 0.05})
    assert texts(search.running) == [(0, 2), (0, 3)]
    step(search, {END: 0.4, 1: 0.6}, {END: 0.9, 1: 0.1})
    assert texts(search.finish()) == [(0,), (0, 2)]


def test_beam_with_few_ends_adds_running_ones() -> None:
    search = beam(3)
    step(search, {END: 0.5, 0: 0.25, 1: 0.15, 2: 0.1})
    hypotheses = search.finish()
    assert texts(hypotheses) == [(), (0,), (1,)]
    assert [hypothesis.done for hypothesis in hypotheses] == [True, False, False]


def test_beam_ignores_ends_behind_the_kept_ones() -> None:
    """Only those that are better than the `beam_size` kept are put aside."""
    search = beam(1)
    step(search, {0: 0.6, END: 0.4})
    assert texts(search.running) == [(0,)]
    step(search, {0: 0.4, END: 0.6})
    assert texts(search.finish()) == [(0,)]


def test_beam_with_ends_alone_is_done() -> None:
    search = beam(2, patience=4.0)
    only_end = np.full(6, -np.inf, np.float32)
    only_end[END] = 0.0
    assert search.advance([unruled(only_end, 0.0)]) == []
    assert not search.running
    assert texts(search.finish()) == [()]


def test_beam_with_boost_takes_near_eot_only() -> None:
    search = beam(1, boost=1.0)
    step(search, {0: 0.5, END: 0.3})  # log(0.5 / 0.3) is 0.51, less than the boost
    assert texts(search.finish()) == [()]
    far = beam(1, boost=0.5)
    step(far, {0: 0.5, END: 0.3})
    assert texts(far.running) == [(0,)]


TREE: dict[tuple[int, ...], Odds] = {
    (): {1: 0.5, 2: 0.3, 3: 0.2},
    (1,): {EOT: 0.45, 4: 0.55},
    (2,): {EOT: 0.9, 4: 0.1},
    (1, 4): {EOT: 0.001, 5: 0.999},
    (2, 4): {EOT: 0.6, 5: 0.4},
    (1, 4, 5): {EOT: 0.99, 5: 0.01},
    (2, 4, 5): {EOT: 0.99, 5: 0.01},
}


def decoded_tokens(**search: Any) -> tuple[int, ...]:
    decoder = OddsTreeDecoder([[0]])
    decoder.odds = {**TREE, **search.pop("odds", {})}
    options = DecodingOptions(
        search=SearchOptions(beam_size=2, **search), max_new_tokens=6
    )
    return decode(decoder, options)[0].tokens


def test_beam_with_patience_finds_better_text() -> None:
    """(2) has log(0.27), (1) log(0.225); (1, 4, 5) has log(0.272) for three tokens."""
    assert decoded_tokens() == (2,)
    assert decoded_tokens(patience=2.0) == (1, 4, 5)


@pytest.mark.parametrize(
    ("length_penalty", "tokens"), [(None, (1, 4, 5)), (0.0, (2,)), (1.0, (1, 4, 5))]
)
def test_beam_applies_length_penalty(
    length_penalty: float | None, tokens: tuple[int, ...]
) -> None:
    """Three tokens with log(0.247) against one with log(0.27): by 3, by 1, by 8 to 6."""
    odds = {(1, 4, 5): {EOT: 0.9, 5: 0.1}}
    assert (
        decoded_tokens(odds=odds, patience=2.0, length_penalty=length_penalty) == tokens
    )


@pytest.mark.parametrize("penalty", [1.0, 3.0])
def test_beam_compares_penalised_logits(penalty: float) -> None:
    decoder = ScriptedDecoder([[5]], base=3.0)
    options = DecodingOptions(
        search=SearchOptions(beam_size=2),
        anti_repetition=AntiRepetition(repetition_penalty=penalty),
        max_new_tokens=2,
    )
    assert (decode(decoder, options)[0].tokens == (5, 5)) is (penalty == 1.0)


@pytest.mark.parametrize("n_vocab", [4, 256, 1600, 51_865])
@pytest.mark.parametrize(
    "possible", ["all", "one in a hundred", "three", "the last block", "none"]
)
def test_highest_logits_match_a_whole_sort(n_vocab: int, possible: str) -> None:
    rng = np.random.default_rng(n_vocab)
    logits = np.round(rng.normal(0, 3, n_vocab), 2).astype(np.float32)  # some are equal
    ids = np.arange(n_vocab)
    keep = {
        "all": ids >= 0,
        "one in a hundred": ids % 100 == 3,
        "three": ids >= n_vocab - 3,
        "the last block": ids >= n_vocab - n_vocab % 256,
        "none": ids < 0,
    }[possible]
    logits[~keep] = -np.inf
    expected = [token for token in np.argsort(-logits, kind="stable") if keep[token]]
    for count in (1, 2, 6, 300):
        assert highest_logits(logits, count) == expected[:count]


def test_beam_drop_loops_stops_where_most_loop() -> None:
    search = beam(1)
    for _ in range(40):
        step(search, {0: 0.9, 1: 0.1})
    assert search.drop_loops() == []
    fresh = beam(2)
    step(fresh, {0: 0.6, 1: 0.4})
    assert fresh.drop_loops() == [0, 1]


def test_beam_finds_likelier_text_than_greedy() -> None:
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

    assert decode(Garden([[0]]))[0].tokens[0] == 1
    options = DecodingOptions(search=SearchOptions(beam_size=3))
    assert decode(Garden([[0]]), options)[0].tokens == (2,)


def test_beam_without_allowed_ids_gives_empty_text() -> None:
    beam = BeamChoice(EOT, 0.0, 2, 1.0)
    barred = np.full(30, -np.inf, np.float32)
    assert beam.advance([FilteredLogits(barred, 0.0, barred)]) == []
    assert not beam.running
    (found,) = beam.finish()
    assert (found.tokens, found.done) == ((), False)
