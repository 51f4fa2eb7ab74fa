"""Where speech begins, by probabilities of frames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from whisper_hailo.audio.vad import find_onset

SPEECH, HELD, SILENCE = 0.9, 0.4, 0.1
"""Above the threshold of 0.5, above what ends speech, and below it."""


def onset(*probabilities: list[float]) -> int | None:
    return find_onset((one for part in probabilities for one in part), 0.5)


@pytest.mark.parametrize(("n_frames", "expected"), [(7, None), (8, 3), (50, 3)])
def test_quarter_of_a_second_of_speech_is_an_onset(n_frames: int, expected: int | None) -> None:
    assert onset([SILENCE] * 3, [SPEECH] * n_frames, [SILENCE] * 60) == expected


@pytest.mark.parametrize("n_frames", [1, 3, 7])
def test_clicks_half_a_second_apart_are_no_onset(n_frames: int) -> None:
    assert onset(*[[SPEECH] * n_frames, [SILENCE] * 16] * 20) is None


@pytest.mark.parametrize(("gap", "expected"), [(15, 2), (16, 22)])
def test_gaps_of_half_a_second_begin_anew(gap: int, expected: int) -> None:
    """Speech of 4 frames, a gap, and speech that is long enough by itself."""
    assert onset([SILENCE] * 2, [SPEECH] * 4, [SILENCE] * gap, [SPEECH] * 20) == expected


def test_speech_goes_on_below_threshold_until_hysteresis_ends_it() -> None:
    assert onset([SPEECH], [HELD] * 7) == 0
    assert onset([HELD] * 50) is None, "it begins at the threshold"
    assert onset([SPEECH], [0.34] * 30) is None
    assert onset([SPEECH], [0.351] * 7) == 0


def test_threshold_itself_is_speech() -> None:
    assert onset([0.5] * 8) == 0
    assert onset([0.499] * 80) is None


@pytest.mark.parametrize("probabilities", [[], [SILENCE] * 100, [SPEECH] * 7])
def test_recording_without_speech_has_no_onset(probabilities: list[float]) -> None:
    assert onset(probabilities) is None


def test_no_more_frames_are_asked_for_than_it_takes() -> None:
    asked = 0

    def endless() -> Iterator[float]:
        nonlocal asked
        while True:
            asked += 1
            yield SPEECH if asked > 5 else SILENCE

    assert find_onset(endless(), 0.5) == 5
    assert asked == 5 + 8


def test_speech_after_a_click_and_long_silence_begins_anew() -> None:
    assert onset([SPEECH], [SILENCE] * 40, [SPEECH] * 8) == 41
