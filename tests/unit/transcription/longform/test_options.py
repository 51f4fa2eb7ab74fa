"""Options of long recordings: strategies, ranges and clips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.transcription.longform.options import (
    WHOLE,
    Clip,
    LongOptions,
    parse_clips,
)


def test_parse_clips_accepts_a_missing_last_end() -> None:
    assert parse_clips("") == WHOLE == (Clip(0, None),)
    assert parse_clips("1,2.5") == (Clip(16_000, 40_000),)
    assert parse_clips("0,1,2") == (Clip(0, 16_000), Clip(32_000, None))
    several = (
        Clip(0, 16_000),
        Clip(16_000, 32_000),
        Clip(48_000, 64_000),
        Clip(80_000, None),
    )
    assert parse_clips("0,1,1,2,3,4,5") == several


def test_parse_clips_rounds_to_the_nearest_sample() -> None:
    """4.02 and 8.04 s times 16,000 are a hair less than whole numbers; 1/8 ms is two samples."""
    assert parse_clips("4.02,8.04") == (Clip(64_320, 128_640),)
    assert parse_clips("0.000125,1.00025") == (Clip(2, 16_004),)


@pytest.mark.parametrize(
    "text", ["-1,2", "5,2", "2,2", "0,1,2,2", "0,5,4,6", "a,b", "nan,1"]
)
def test_parse_clips_refuses_impossible_clips(text: str) -> None:
    with pytest.raises(OptionError, match=f"--clip-timestamps .*{text}"):
        parse_clips(text)


@pytest.mark.parametrize("strategy", ["", "Seek", "vadd"])
def test_long_options_refuse_unknown_strategy(strategy: str) -> None:
    with pytest.raises(
        OptionError, match="auto, seek, overlap, dense, vad, consecutive"
    ):
        LongOptions(strategy=strategy)


@pytest.mark.parametrize("overlap_s", [0.0, -1.0, 15.01])
def test_long_options_refuse_impossible_overlap(overlap_s: float) -> None:
    with pytest.raises(OptionError, match=" 15 s"):
        LongOptions(overlap_s=overlap_s)
    assert LongOptions(overlap_s=15.0).overlap_s == 15.0


def test_long_options_defaults() -> None:
    defaults = LongOptions("auto", None, WHOLE, vad_threshold=0.35, min_silence_s=0.5)
    defaults = replace(defaults, skip_silence=True, speech_pad_s=0.2, trim_window=None)
    assert LongOptions() == defaults


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("overlap_s", [None, 0.1, 15.0], [0.0, 15.1, float("nan")]),
        ("vad_threshold", [0.01, 0.99], [0.0, 1.0, 1.5, -0.1, float("nan")]),
        ("min_silence_s", [0.0, 10.0], [-0.1, 10.1, float("nan")]),
        ("speech_pad_s", [0.0, 10.0], [-0.1, 10.1, float("nan")]),
    ],
)
def test_long_options_accept_their_stated_range(
    name: str, accepted: list[float], refused: list[float]
) -> None:
    for value in accepted:
        assert getattr(LongOptions(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in refused:
        with pytest.raises(OptionError):
            LongOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times_s", "clips"),
    [
        ((), WHOLE),
        ((0.0,), (Clip(0, None),)),
        ((0.5, 1.0, 1.0, 2.0), (Clip(8_000, 16_000), Clip(16_000, 32_000))),
        ((0.0, 0.00003), (Clip(0, 0),)),
        ((1.0, 2.0, 2.0), (Clip(16_000, 32_000), Clip(32_000, None))),
    ],
)
def test_parse_clips_accepts_touching_clips(
    times_s: tuple[float, ...], clips: tuple[Clip, ...]
) -> None:
    assert parse_clips(",".join(map(str, times_s))) == clips
    assert parse_clips(" ") == WHOLE


@pytest.mark.parametrize(
    "times_s", [(0.0, 1.0, 0.5), (1.0, 1.0), (-0.1,), (0.0, float("inf"))]
)
def test_parse_clips_refuses_falling_times(times_s: tuple[float, ...]) -> None:
    with pytest.raises(OptionError, match="--clip-timestamps"):
        parse_clips(",".join(map(str, times_s)))
