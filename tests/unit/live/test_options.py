"""Ranges, flags and defaults of caption options."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag_of
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
def test_caption_options_accept_their_stated_range(
    name: str, fits: list[Any], wrong: list[Any]
) -> None:
    for value in fits:
        assert getattr(CaptionOptions(**{name: value}), name) == value
    for value in wrong:
        with pytest.raises(OptionError):
            CaptionOptions(**{name: value})


def test_caption_options_times_are_flags_in_seconds() -> None:
    for field in fields(CaptionOptions()):
        flag = flag_of(field)
        assert flag is not None
        assert flag.topic == "Segments"
        typed = (flag.name, flag.metavar)
        bare = field.name.removesuffix("_s")
        is_time = bare != field.name
        shown = {
            "max_segment_s": "18, or less where the window is shorter",
        }
        assert flag.shown == shown.get(field.name, "")
        assert typed == ((f"--{bare.replace('_', '-')}", "S") if is_time else ("", ""))


def test_caption_options_defaults_are_documented() -> None:
    assert asdict(CaptionOptions()) == {
        "vad_threshold": 0.35,
        "min_silence_s": 0.5,
        "min_speech_s": 0.1,
        "pre_roll_s": 0.4,
        "min_partial_s": 0.5,
        "max_segment_s": None,
        "settle_s": 1.5,
        "hold_back_s": 0.2,
        "drafts": True,
    }


@pytest.mark.parametrize(
    ("given_s", "longest_s"), [(None, 9.0), (5.0, 5.0), (9.0, 9.0)]
)
def test_longest_s_is_given_or_the_window(
    given_s: float | None, longest_s: float
) -> None:
    assert CaptionOptions(max_segment_s=given_s).longest_s(9.0) == longest_s


@pytest.mark.parametrize(
    ("content_s", "longest_s"), [(30.0, 18.0), (19.0, 18.0), (9.0, 9.0)]
)
def test_longest_s_by_default_is_18_s_or_the_window(
    content_s: float, longest_s: float
) -> None:
    assert CaptionOptions().longest_s(content_s) == longest_s
    assert CaptionOptions(max_segment_s=content_s).longest_s(content_s) == content_s
