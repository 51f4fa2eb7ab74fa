"""What may be asked of how long recordings are taken apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.transcription.longform.plan import WHOLE, LongOptions


@pytest.mark.parametrize("strategy", ["", "Seek", "vadd"])
def test_unknown_strategies_are_refused(strategy: str) -> None:
    with pytest.raises(Exception, match="expected one of: auto, seek, overlap, vad, consecutive"):
        LongOptions(strategy=strategy)


@pytest.mark.parametrize("overlap_s", [0.0, -1.0, 15.01])
def test_overlaps_that_no_window_has_are_refused(overlap_s: float) -> None:
    with pytest.raises(OptionError, match="more than 0 s, at most 15 s"):
        LongOptions(overlap_s=overlap_s)
    assert LongOptions(overlap_s=15.0).overlap_s == 15.0


def test_what_nobody_tells_of_long_recordings() -> None:
    told = LongOptions("auto", None, WHOLE, vad_threshold=0.35, min_silence_s=0.5)
    told = replace(told, skip_silence=True, speech_pad_s=0.2, trim_window=None)
    assert LongOptions() == told


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("overlap_s", [None, 0.1, 15.0], [0.0, 15.1, float("nan")]),
        ("vad_threshold", [0.01, 0.99], [0.0, 1.0, 1.5, -0.1, float("nan")]),
        ("min_silence_s", [0.0, 10.0], [-0.1, 10.1, float("nan")]),
        ("speech_pad_s", [0.0, 10.0], [-0.1, 10.1, float("nan")]),
    ],
)
def test_options_of_long_recordings_end_where_they_are_said_to(
    name: str, accepted: list[float], refused: list[float]
) -> None:
    for value in accepted:
        assert getattr(LongOptions(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in refused:
        with pytest.raises(OptionError, match="expected"):
            LongOptions(**{name: value})  # type: ignore[arg-type]
