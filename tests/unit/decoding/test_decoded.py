"""The compression ratio of a text, which finds repetition."""

from __future__ import annotations

from whisper_hailo.decoding.decoded import compression_ratio


def test_compression_ratio_of_repetition_is_high() -> None:
    assert compression_ratio("and then " * 40) > 2.4
    assert compression_ratio("Every word here differs from the next.") < 1.5
    assert compression_ratio("") == 0.0
