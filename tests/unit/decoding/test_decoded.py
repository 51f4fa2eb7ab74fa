"""What a window's tokens say of it where the engine that found them tells no more."""

from __future__ import annotations

from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import Thresholds


def test_what_an_engine_does_not_tell_is_nothing() -> None:
    """As of one with a loop of its own: no heat, no repetition, no choice that was close."""
    decoded = Decoded((1,), -0.1, 0.0, runaway=False)
    assert (decoded.temperature, decoded.compression_ratio) == (0.0, 0.0)
    assert not decoded.is_doubtful(Thresholds(compression_ratio=0.5))
