"""All rules together: what is left to the ids that are not masked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.shapes import TINY, TOY_TOKENS
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.rules.logits_rules import LogitsRules

N_VOCAB = 521


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
