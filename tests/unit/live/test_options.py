"""Settings of captions end where they are said to."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag_of
from whisper_hailo.live.commit_policy import CommitPolicy
from whisper_hailo.live.options import CaptionOptions


@pytest.mark.parametrize(
    ("name", "fits", "wrong"),
    [
        ("vad_threshold", [0.01, 1.0], [0.0, 1.01]),
        ("min_silence_s", [0.032, 30.0], [0.031, 30.1]),
        ("sentence_silence_s", [0.0, 30.0], [-0.1, 30.1]),
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


def test_what_is_a_time_is_typed_in_seconds() -> None:
    for field in fields(CaptionOptions()):
        how = flag_of(field)
        assert how is not None
        assert how.panel == "Segments"
        typed = (how.name, how.metavar)
        bare = field.name.removesuffix("_s")
        is_time = bare != field.name
        shown = {
            "settle_s": "2, or 1 with alignatt",
            "max_segment_s": "18, or less where the window is shorter",
            "trim_window": "where the encoder can",
        }
        assert how.shown == shown.get(field.name, "")
        assert typed == ((f"--{bare.replace('_', '-')}", "S") if is_time else ("", ""))


def test_default_options_are_those_of_the_documents() -> None:
    assert asdict(CaptionOptions()) == {
        "vad_threshold": 0.35, "min_silence_s": 0.5, "sentence_silence_s": 0.0,
        "min_speech_s": 0.1, "pre_roll_s": 0.4, "min_partial_s": 0.5,
        "max_segment_s": None, "settle_s": None, "hold_back_s": 0.2,
        "policy": "agreement", "drafts": True, "trim_window": None,
    }  # fmt: skip


def test_what_may_change_while_captions_run() -> None:
    options = CaptionOptions(pre_roll_s=0.3)
    changed = options.changed({"settle_s": 2, "vad_threshold": 0.25})
    assert changed == CaptionOptions(pre_roll_s=0.3, settle_s=2, vad_threshold=0.25)
    assert changed.changeable == {
        "vad_threshold": 0.25, "min_silence_s": 0.5, "min_partial_s": 0.5, "settle_s": 2,
        "hold_back_s": 0.2,
    }  # fmt: skip
    assert options.changed({}) == options


def test_commit_policy_by_name_has_its_own_settle() -> None:
    assert CommitPolicy.of(CaptionOptions()) == CommitPolicy("agreement", 2.0)
    assert CommitPolicy.of(CaptionOptions(policy="alignatt")) == CommitPolicy("alignatt", 1.0)
    assert CommitPolicy.of(CaptionOptions(policy="alignatt", settle_s=0.0)) == CommitPolicy(
        "alignatt", 0.0
    )
    assert CaptionOptions(policy="alignatt").changeable["settle_s"] == 1.0
    with pytest.raises(OptionError, match="agreement"):
        CaptionOptions(policy="wait-k")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pre_roll_s": 0.2}, "'pre_roll_s' cannot be changed; what can: vad_threshold, "),
        ({"settle_s": "1"}, "settle_s is '1', expected a number"),
        ({"settle_s": True}, "settle_s is True, expected a number"),
        ({"settle_s": None}, "settle_s is None, expected a number"),
        ({"settle_s": 31}, "settle is 31"),
    ],
)
def test_what_may_not_change_is_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        CaptionOptions().changed(given)


@pytest.mark.parametrize(("asked_s", "longest_s"), [(None, 9.0), (5.0, 5.0), (9.0, 9.0)])
def test_segment_is_as_long_as_asked_for_or_as_engine_hears(
    asked_s: float | None, longest_s: float
) -> None:
    assert CaptionOptions(max_segment_s=asked_s).longest_s(9.0) == longest_s


@pytest.mark.parametrize(("content_s", "longest_s"), [(30.0, 18.0), (19.0, 18.0), (9.0, 9.0)])
def test_unasked_segments_end_after_18_seconds_or_the_window(
    content_s: float, longest_s: float
) -> None:
    assert CaptionOptions().longest_s(content_s) == longest_s
    assert CaptionOptions(max_segment_s=content_s).longest_s(content_s) == content_s
