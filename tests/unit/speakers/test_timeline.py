"""Turns of people from what is active in each frame."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from whisper_hailo.speakers.segmentation import (
    HOP_FRAMES,
    N_FRAMES,
    N_VOICES,
    WindowActivity,
    frame_start_s,
)
from whisper_hailo.speakers.timeline import activity_of_speakers, turns_of_activity


def active_frames(*spans: tuple[int, int, int]) -> NDArray[np.bool_]:
    """Return activity of two people in 200 frames, of spans (begin, end, column)."""
    active = np.zeros((200, 2), bool)
    for begin, end, column in spans:
        active[begin:end, column] = True
    return active


def test_turns_of_activity_numbers_by_appearance() -> None:
    turns, order = turns_of_activity(active_frames((100, 120, 0), (10, 50, 1)))
    assert order == [1, 0]
    assert [turn.speaker for turn in turns] == [0, 1]
    assert turns[0].start_s == pytest.approx(frame_start_s(10), abs=1e-3)
    assert turns[0].end_s == pytest.approx(frame_start_s(50), abs=1e-3)


@pytest.mark.parametrize(("gap", "n_turns"), [(11, 1), (12, 2)])
def test_turns_of_activity_joins_across_short_gaps(gap: int, n_turns: int) -> None:
    """11 frames are 0.186 s, 12 frames 0.203 s."""
    turns, _ = turns_of_activity(active_frames((0, 30, 0), (30 + gap, 90, 0)))
    assert len(turns) == n_turns


@pytest.mark.parametrize(("n_frames", "n_turns"), [(5, 0), (6, 1)])
def test_turns_of_activity_drops_short_turns(n_frames: int, n_turns: int) -> None:
    """5 frames are 0.084 s, 6 frames 0.101 s."""
    turns, order = turns_of_activity(active_frames((40, 40 + n_frames, 1)))
    assert len(turns) == len(order) == n_turns


def test_activity_of_speakers_without_windows_is_empty() -> None:
    active = activity_of_speakers([], [], np.zeros(0, np.int64), 2)
    assert active.shape == (0, 2)


def test_activity_of_speakers_without_pieces_is_silent() -> None:
    """Voices that never speak alone have no name."""
    window = WindowActivity(
        np.full((N_FRAMES, N_VOICES), 255, np.uint8), np.full(N_FRAMES, -1, np.int8)
    )
    active = activity_of_speakers([window, window], [], np.zeros(0, np.int64), 2)
    assert active.shape == (HOP_FRAMES + N_FRAMES, 2)
    assert not active.any()
