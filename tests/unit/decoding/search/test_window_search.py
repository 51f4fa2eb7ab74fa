"""Beam search counted out by hand, as OpenAI Whisper's `BeamSearchDecoder` does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_decoder import (
    EOT,
    OddsTreeDecoder,
    ScriptedDecoder,
    decode,
)
from whisper_hailo.decoding.options import (
    DecodingOptions,
    SearchOptions,
)


def texts(hypotheses: Sequence[Any]) -> list[tuple[int, ...]]:
    return [hypothesis.tokens for hypothesis in hypotheses]


def test_window_search_rows_follow_hypotheses() -> None:
    """(2, 3) with 0.36 overtakes (1, 3) with 0.105; it ends, the other one would go on."""
    decoder = OddsTreeDecoder([[0]])
    decoder.odds = {
        (): {1: 0.5, 2: 0.4, 4: 0.1},
        (1,): {3: 0.21, 4: 0.2, 5: 0.2, 8: 0.2, 9: 0.19},
        (2,): {3: 0.9, 4: 0.1},
        (2, 3): {EOT: 0.9, 5: 0.1},
        (1, 3): {5: 0.9, 4: 0.1},
        (1, 3, 5): {EOT: 0.99},
        (2, 3, 5): {EOT: 0.99},
    }
    options = DecodingOptions(search=SearchOptions(beam_size=2), max_new_tokens=6)
    (decoded,) = decode(decoder, options)
    assert decoded.tokens == (2, 3)
    assert decoded.avg_logprob == pytest.approx(np.log(0.4 * 0.9 * 0.9) / 3, abs=1e-3)


def test_window_search_of_windows_matches_each_alone() -> None:
    """Two windows with beams of their own give what each gives alone."""
    options = DecodingOptions(search=SearchOptions(beam_size=3), max_new_tokens=5)
    scripts = [[1, 2, EOT], [3, EOT], [4, 5, 6, 8, EOT]]
    alone = [decode(ScriptedDecoder([script]), options)[0] for script in scripts]
    assert list(decode(ScriptedDecoder(scripts), options)) == alone
    assert [one.tokens for one in alone] == [(1, 2), (3,), (4, 5, 6, 8)]


def test_window_search_stops_at_budget() -> None:
    decoder = ScriptedDecoder([[1]])
    options = DecodingOptions(search=SearchOptions(beam_size=2), max_new_tokens=3)
    (decoded,) = decode(decoder, options)
    assert decoded.tokens == (1, 1, 1)
    assert decoded.runaway
    assert len(decoder.fed) == 3
