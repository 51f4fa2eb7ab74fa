"""Greedy text that is searched again with a beam."""

from __future__ import annotations

import pytest

from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.beam_retry import is_unsure


@pytest.mark.parametrize(
    ("logprob", "ratio", "no_speech", "unsure"),
    [
        (-0.39, 1.0, 0.1, False),
        (-0.41, 1.0, 0.1, True),
        (-0.1, 2.5, 0.1, True),  # repeats itself
        (-1.1, 1.0, 0.7, False),  # silence
        (-0.6, 1.0, 0.7, True),  # likely text is no silence
    ],
)
def test_is_unsure_starts_above_the_doubtful_threshold(
    logprob: float, ratio: float, no_speech: float, unsure: bool
) -> None:
    decoded = Decoded((1,), logprob, no_speech, runaway=False, compression_ratio=ratio)
    assert is_unsure(decoded, Thresholds()) is unsure
