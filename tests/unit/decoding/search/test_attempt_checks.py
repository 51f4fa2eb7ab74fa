"""Doubtful text: unlikely or repeated, and no silence."""

from __future__ import annotations

import pytest

from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search.attempt_checks import is_doubtful


@pytest.mark.parametrize(
    ("logprob", "ratio", "no_speech", "doubtful"),
    [
        (-1.1, 1.0, 0.1, True),
        (-1.0, 1.0, 0.1, False),
        (-0.1, 2.5, 0.1, True),
        (-0.1, 2.4, 0.1, False),
        (-1.1, 1.0, 0.7, False),  # silence
        (-1.1, 9.0, 0.7, False),  # silence, even if repeated
        (-0.1, 9.0, 0.7, True),  # likely text is no silence
        (-1.1, 1.0, 0.6, True),
    ],
)
def test_is_doubtful_combines_three_thresholds(
    logprob: float, ratio: float, no_speech: float, doubtful: bool
) -> None:
    for runaway in (False, True):  # a runaway alone is not doubtful
        decoded = Decoded((1,), logprob, no_speech, runaway, compression_ratio=ratio)
        assert is_doubtful(decoded, Thresholds()) is doubtful


@pytest.mark.parametrize(
    ("thresholds", "doubtful"),
    [
        (Thresholds(logprob=None), True),
        (Thresholds(compression_ratio=None), True),
        (Thresholds(logprob=None, compression_ratio=None), False),
        (Thresholds(no_speech=None), True),
    ],
)
def test_is_doubtful_ignores_thresholds_that_are_off(
    thresholds: Thresholds, doubtful: bool
) -> None:
    spoken = Decoded((1,), -5.0, 0.1, runaway=False, compression_ratio=9.0)
    assert is_doubtful(spoken, thresholds) is doubtful
    # Without a threshold for silence nothing is silent, so that all unlikely text is tried again.
    silent = Decoded((1,), -5.0, 0.99, runaway=False)
    assert is_doubtful(silent, thresholds) is (thresholds.no_speech is None)


def test_is_doubtful_without_logprob_retries_repeats() -> None:
    """Silence needs unlikely text, as in OpenAI Whisper."""
    silent = Decoded((1,), -5.0, 0.99, runaway=False, compression_ratio=9.0)
    assert is_doubtful(silent, Thresholds(logprob=None))
    assert not is_doubtful(silent, Thresholds())
