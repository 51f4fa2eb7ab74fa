"""Pieces of speech with one voice each."""

from __future__ import annotations

import numpy as np

from whisper_hailo.speakers.pieces import cut_pieces, middle_frames
from whisper_hailo.speakers.segmentation import (
    N_FRAMES,
    WindowActivity,
)


def _alone(*runs: tuple[int, int]) -> WindowActivity:
    """Return a window with runs of a voice, or -1, of so many frames."""
    alone = np.full(N_FRAMES, -1, np.int8)
    frame = 0
    for voice, n_frames in runs:
        alone[frame : frame + n_frames] = voice
        frame += n_frames
    return WindowActivity(np.zeros((N_FRAMES, 3), np.uint8), alone)


def test_cut_pieces_splits_long_speech_evenly() -> None:
    pieces = cut_pieces(_alone((0, 420)), 0, 0, N_FRAMES)
    assert [piece.frames.size for piece in pieces] == [105] * 4


def test_cut_pieces_ends_at_other_voice_and_at_pauses() -> None:
    activity = _alone((0, 60), (1, 40), (0, 50), (-1, 10), (0, 20), (-1, 50), (0, 60))
    pieces = cut_pieces(activity, 2, 0, N_FRAMES)
    assert [(piece.voice, piece.frames.size) for piece in pieces] == [
        (0, 60),
        (1, 40),
        (0, 70),
        (0, 60),
    ]
    assert pieces[0].window_frames[0] == 0
    assert pieces[0].frames[0] == 2 * 148


def test_cut_pieces_leaves_out_what_is_too_short() -> None:
    assert cut_pieces(_alone((0, 10), (1, 10)), 0, 0, N_FRAMES) == []


def test_middle_frames_of_windows_follow_each_other() -> None:
    first = middle_frames(is_first=True, is_last=False)
    second = middle_frames(is_first=False, is_last=True)
    assert first[0] == 0
    assert first[1] == second[0] + 148
    assert second[1] == N_FRAMES
