"""Settings of captions end where they are said to."""

from __future__ import annotations

from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.options import CaptionOptions


@pytest.mark.parametrize(
    ("name", "fits", "wrong"),
    [
        ("vad_threshold", [0.01, 1.0], [0.0, 1.01]),
        ("min_silence_s", [0.032, 30.0], [0.031, 30.1]),
        ("min_speech_s", [0.0, 30.0], [-0.1, 30.1]),
        ("pre_roll_s", [0.0, 30.0], [-0.1, 30.1]),
        ("min_partial_s", [0.0, 30.0], [-0.1, 30.1, float("nan")]),
        ("settle_s", [0.0, 30.0], [-0.1, 30.1]),
        ("hold_back_s", [0.0, 30.0], [-0.1, 30.1]),
        ("max_segment_s", [None, 1.0, 99.0], [0.99, float("inf")]),
    ],
)
def test_options_end_where_they_are_said_to(name: str, fits: list[Any], wrong: list[Any]) -> None:
    for value in fits:
        assert getattr(CaptionOptions(**{name: value}), name) == value
    for value in wrong:
        with pytest.raises(OptionError):
            CaptionOptions(**{name: value})


@pytest.mark.parametrize(("asked_s", "longest_s"), [(None, 9.0), (5.0, 5.0), (9.0, 9.0)])
def test_a_segment_is_as_long_as_asked_for_or_as_the_engine_hears(
    asked_s: float | None, longest_s: float
) -> None:
    assert CaptionOptions(max_segment_s=asked_s).longest_s(9.0) == longest_s
