"""The loop against a decoder that follows a script: what is fed, what is asked, when it stops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.unit.shapes import TOY, TOY_TOKENS, toy_spec
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.decoding.greedy import Decoded, Greedy, detect_language
from whisper_hailo.decoding.options import Cures, DecodingOptions

PREFIX = (11, 12, 14, 19)
EOT = TOY_TOKENS.eot


@dataclass
class Scripted:
    """Gives row r's k-th token of the script the highest logit (4) at the k-th step."""

    scripts: list[list[int]]
    fed: list[list[list[int]]] = field(default_factory=list)
    base: float = 0.0
    spec = toy_spec()

    def batch_size(self, state: int) -> int:
        return len(self.scripts)

    def step(
        self, tokens: np.ndarray, state: int, positions: np.ndarray, **_: object
    ) -> tuple[StepOutput, int]:
        self.fed.append(tokens.tolist())
        logits = np.full((len(self.scripts), len(positions), TOY.n_vocab), self.base, np.float32)
        for row, script in enumerate(self.scripts):
            logits[row, -1, script[min(state, len(script) - 1)]] = self.base + 4.0
        logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1)).astype(np.float32)
        return StepOutput(logits=logits, logsumexp=logsumexp), state + 1


def run(decoder: Scripted, options: DecodingOptions | None = None) -> list[tuple[int, ...]]:
    greedy = Greedy(decoder, TOY_TOKENS, options or DecodingOptions())  # type: ignore[arg-type]
    return [decoded.tokens for decoded in greedy.run(0, PREFIX)]


def test_follows_the_best_token_until_eot() -> None:
    decoder = Scripted([[1, 2, 3, EOT]])
    assert run(decoder) == [(1, 2, 3)]
    assert decoder.fed == [[list(PREFIX)], [[1]], [[2]], [[3]]]


def test_rows_end_on_their_own_and_are_fed_eot_afterwards() -> None:
    decoder = Scripted([[1, EOT], [2, 3, 4, EOT]])
    assert run(decoder) == [(1,), (2, 3, 4)]
    assert decoder.fed[2:] == [[[EOT], [3]], [[EOT], [4]]]


def test_runaway_stops_at_the_budget_and_says_so() -> None:
    greedy = Greedy(Scripted([[5]]), TOY_TOKENS, DecodingOptions(max_new_tokens=3))  # type: ignore[arg-type]
    (decoded,) = greedy.run(0, PREFIX)
    assert decoded.tokens == (5, 5, 5)
    assert decoded.runaway


def test_an_eot_on_the_last_allowed_step_is_no_runaway() -> None:
    greedy = Greedy(Scripted([[5, 5, EOT]]), TOY_TOKENS, DecodingOptions(max_new_tokens=3))  # type: ignore[arg-type]
    (decoded,) = greedy.run(0, PREFIX)
    assert decoded.tokens == (5, 5)
    assert not decoded.runaway


def test_no_step_is_wasted_after_the_budget() -> None:
    decoder = Scripted([[5]])
    run(decoder, DecodingOptions(max_new_tokens=3))
    assert len(decoder.fed) == 3


def test_suppressed_ids_and_control_tokens_are_never_taken() -> None:
    for forbidden in (7, TOY_TOKENS.sot, TOY_TOKENS.no_speech, TOY_TOKENS.translate):
        (tokens,) = run(Scripted([[1, forbidden, EOT]]))  # type: ignore[list-item]
        assert forbidden not in tokens


def test_begin_suppress_holds_for_the_first_token_only() -> None:
    assert run(Scripted([[6, 6, EOT]])) == [(0, 6)]
    assert run(Scripted([[EOT, EOT]])) == [(0,)]


def test_repetition_penalty_breaks_a_loop() -> None:
    # Base 3, repeated token 7: divided by 3 it falls below the rest, so others take over.
    looping = Scripted([[5]], base=3.0)
    options = DecodingOptions(cures=Cures(repetition_penalty=3.0), max_new_tokens=4)
    (tokens,) = run(looping, options)
    assert tokens[0] == 5
    assert 5 not in tokens[1:]


def test_the_prefix_is_not_penalised() -> None:
    tokens = replace(TOY_TOKENS, suppress=())
    decoder = Scripted([[13, EOT]])
    options = DecodingOptions(cures=Cures(repetition_penalty=100.0))
    greedy = Greedy(decoder, tokens, options)  # type: ignore[arg-type]
    assert greedy.run(0, (11, 13))[0].tokens == (13,)


def test_eot_boost_ends_early() -> None:
    decoder = Scripted([[1, 2, 3, EOT]])
    options = DecodingOptions(cures=Cures(eot_boost=4.5))
    assert run(decoder, options) == [(1,)]  # the first token may not be end-of-transcript


def test_avg_logprob_counts_eot_and_is_the_models_own() -> None:
    greedy = Greedy(Scripted([[1, EOT]]), TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    (decoded,) = greedy.run(0, PREFIX)
    expected = 4.0 - np.log(np.exp(4.0) + TOY.n_vocab - 1)
    assert decoded.avg_logprob == pytest.approx(expected, abs=1e-5)


def test_no_speech_prob_is_read_at_start_of_transcript() -> None:
    greedy = Greedy(Scripted([[1, EOT]]), TOY_TOKENS, DecodingOptions())  # type: ignore[arg-type]
    (decoded,) = greedy.run(0, PREFIX)
    assert decoded.no_speech_prob == pytest.approx(1 / TOY.n_vocab, abs=1e-6)
    without = Greedy(Scripted([[1, EOT]]), replace(TOY_TOKENS, no_speech=None), DecodingOptions())  # type: ignore[arg-type]
    assert without.run(0, PREFIX)[0].no_speech_prob == 0.0


def test_detect_language_ranks_the_languages_only() -> None:
    decoder = Scripted([[13]])
    ranked = detect_language(decoder, 0, TOY_TOKENS)  # type: ignore[arg-type]
    assert list(ranked) == ["de", "en"]
    assert ranked["de"] == pytest.approx(np.exp(4) / (np.exp(4) + 1), abs=1e-6)
    assert decoder.fed == [[[TOY_TOKENS.sot]]]


@pytest.mark.parametrize(
    ("no_speech_prob", "avg_logprob", "silence"),
    [(0.61, -1.0, True), (0.6, -3.0, False), (0.99, -0.99, False), (0.0, -9.0, False)],
)
def test_silence_is_no_speech_and_unlikely_text(
    no_speech_prob: float, avg_logprob: float, silence: bool
) -> None:
    decoded = Decoded((1,), avg_logprob, no_speech_prob, runaway=False)
    assert decoded.is_silence(DecodingOptions()) is silence
