"""All rules together: what is left to the ids that are not masked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.shapes import TINY, TOY_TOKENS
from whisper_hailo.decoding.option_groups import TokenLimits
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.decoding.rules.logits_rules import LogitsRules

N_VOCAB = 521


@pytest.mark.parametrize("generated", [(), (1,), (20, 1, 2, 1, 60)])
@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(),
        DecodingOptions(timestamps=True),
        DecodingOptions(limits=TokenLimits(no_repeat_ngram=2)),
        DecodingOptions(cures=Cures(repetition_penalty=1.7)),
        DecodingOptions(
            cures=Cures(repetition_penalty=1.7),
            timestamps=True,
            limits=TokenLimits(no_repeat_ngram=2, suppress=tuple(range(2, 9))),
        ),
    ],
)
def test_rules_in_place_are_the_rules(options: DecodingOptions, generated: tuple[int, ...]) -> None:
    """What may come, how likely it is, and what the model itself says of what may come."""
    rules = LogitsRules(TOY_TOKENS, TINY, options, 10.0)
    raw = np.random.default_rng(0).normal(0, 2, N_VOCAB).astype(np.float32)
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    expected = rules.apply(raw, total, generated)
    found, own = rules.apply_in_place(raw.copy(), total, generated)
    assert found.logits.tolist() == expected.logits.tolist()
    assert found.logsumexp == expected.logsumexp
    may_come = expected.logits > -np.inf
    assert own[may_come].tolist() == raw[may_come].tolist()
    left = raw[may_come].astype(np.float64)
    assert found.logsumexp == pytest.approx(float(np.log(np.exp(left).sum())), abs=1e-5)


def test_an_id_on_both_suppress_lists_is_taken_off_once() -> None:
    twice = 4
    special = replace(TOY_TOKENS, suppress=(twice,), begin_suppress=(twice, TOY_TOKENS.eot))
    rules = LogitsRules(special, TINY, DecodingOptions())
    raw = np.random.default_rng(0).normal(size=N_VOCAB).astype(np.float32)
    raw[twice] = 5.0  # a part that counts, but not so large that the sum is made anew
    total = float(np.log(np.exp(raw.astype(np.float64)).sum()))
    alone = rules.apply(raw.copy(), total, ())
    left = raw[alone.logits > -np.inf].astype(np.float64)
    exact = float(np.log(np.exp(left).sum()))
    assert alone.logsumexp == pytest.approx(exact, abs=1e-6)
    in_place, _ = rules.apply_in_place(raw.copy(), total, ())
    assert in_place.logsumexp == pytest.approx(exact, abs=1e-6)
