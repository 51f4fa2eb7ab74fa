"""From voices of windows to turns of people: overlapping windows are averaged, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.pieces import Piece
from whisper_hailo.speakers.segmentation import (
    FRAME_S,
    HOP_FRAMES,
    N_FRAMES,
    N_VOICES,
    WindowActivity,
    frame_start_s,
)
from whisper_hailo.speakers.turns import SpeakerTurn

_LEAST_ACTIVITY: Final = 0.2
"""A person with less is not heard, even where the windows hear more people than have a name."""

_HEARD: Final = 0.3
"""A voice that never reaches it is not there."""

_LONGEST_GAP_S: Final = 0.2
"""A shorter pause belongs to the turn."""

_SHORTEST_TURN_S: Final = 0.1
"""A shorter turn is a click, or where two windows disagree."""


def activity_of_speakers(
    activities: Sequence[WindowActivity],
    pieces: Sequence[Piece],
    labels: NDArray[np.int64],
    n_speakers: int,
) -> NDArray[np.bool_]:
    """Return `(n_frames, n_speakers)`: who speaks in each frame of the recording.

    The number of people in a frame is the rounded mean of what the windows say; they are those who
    are heard most.

    Args:
        activities: of the windows, in order.
        pieces: where a voice of a window speaks alone.
        labels: `(n_pieces,)` person of each piece.
        n_speakers: number of people.
    """
    n_frames = (len(activities) - 1) * HOP_FRAMES + N_FRAMES if activities else 0
    active = np.zeros((n_frames, n_speakers), dtype=bool)
    people = np.full(n_frames, -1, np.int16)
    for piece, label in zip(pieces, labels, strict=True):
        people[piece.frames] = label
    weights = _window_weights()
    # Sums of the frames that later windows will add to: those of one window.
    sums = np.zeros((N_FRAMES, n_speakers), np.float32)
    totals = np.zeros(N_FRAMES, np.float32)
    shares = np.zeros(N_FRAMES, np.float32)
    for index, window in enumerate(activities):
        start = index * HOP_FRAMES
        activity = window.activity.astype(np.float32) / 255
        for voice in range(N_VOICES):
            named = _name_frames(window, voice, people[start : start + N_FRAMES])
            if named is not None and activity[:, voice].max() >= _HEARD:
                sums[np.arange(N_FRAMES), named] += weights * activity[:, voice]
        totals += weights * activity.sum(axis=1)
        shares += weights
        n_ready = N_FRAMES if index == len(activities) - 1 else HOP_FRAMES
        active[start : start + n_ready] = _choose_speakers(
            sums[:n_ready] / shares[:n_ready, np.newaxis],
            totals[:n_ready] / shares[:n_ready],
        )
        sums = _shift(sums)
        totals = _shift(totals)
        shares = _shift(shares)
    return active


def _name_frames(
    window: WindowActivity, voice: int, people: NDArray[np.int16]
) -> NDArray[np.int16] | None:
    """Return whose a voice is in each frame of a window: as in the nearest frame with a name.

    `None` where it has no name at all.
    """
    named_frames = np.flatnonzero((window.alone == voice) & (people >= 0))
    if not named_frames.size:
        return None
    frames = np.arange(N_FRAMES)
    after = np.searchsorted(named_frames, frames).clip(0, named_frames.size - 1)
    before = np.maximum(after - 1, 0)
    is_after_nearer = np.abs(named_frames[after] - frames) <= np.abs(
        named_frames[before] - frames
    )
    nearest = np.where(is_after_nearer, named_frames[after], named_frames[before])
    return np.asarray(people[nearest])


def _choose_speakers(activity: FloatArray, total: FloatArray) -> NDArray[np.bool_]:
    """Return who speaks, `(n_frames, n_speakers)`.

    Args:
        activity: `(n_frames, n_speakers)` mean probabilities.
        total: `(n_frames,)` mean number of voices.
    """
    n_active = np.floor(total + 0.5)
    # The rank of each person in a frame: the inverse of the order by activity.
    ranks = np.argsort(
        np.argsort(-activity, axis=1, kind="stable"), axis=1, kind="stable"
    )
    speaks: NDArray[np.bool_] = (ranks < n_active[:, np.newaxis]) & (
        activity >= _LEAST_ACTIVITY
    )
    return speaks


def _window_weights() -> FloatArray:
    """Return the weight of each frame of a window, which knows least at its ends."""
    weights: FloatArray = (0.1 + 0.9 * np.hamming(N_FRAMES)).astype(np.float32)
    return weights


def _shift(sums: FloatArray) -> FloatArray:
    """Return sums moved on to the next window."""
    moved = np.zeros_like(sums)
    moved[:-HOP_FRAMES] = sums[HOP_FRAMES:]
    return moved


def turns_of_activity(
    active: NDArray[np.bool_],
) -> tuple[tuple[SpeakerTurn, ...], list[int]]:
    """Return turns in order of time, and the column of each speaker in order of appearance.

    Args:
        active: `(n_frames, n_columns)`; columns without a turn are left out.
    """
    spans: list[tuple[int, int, int]] = []
    for column in range(active.shape[1]):
        for begin, end in _join_spans(active[:, column]):
            spans.append((begin, end, column))
    spans.sort()
    order: list[int] = []
    for _, _, column in spans:
        if column not in order:
            order.append(column)
    turns = [
        SpeakerTurn(
            round(frame_start_s(begin), 3),
            round(frame_start_s(end), 3),
            order.index(column),
        )
        for begin, end, column in spans
    ]
    return tuple(turns), order


def _join_spans(active: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first frames of turns and the frames after them, with short pauses filled."""
    edges = np.flatnonzero(np.diff(active.astype(np.int8), prepend=0, append=0))
    joined: list[tuple[int, int]] = []
    for begin, end in edges.reshape(-1, 2).tolist():
        if joined and (begin - joined[-1][1]) * FRAME_S <= _LONGEST_GAP_S:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return [
        (begin, end)
        for begin, end in joined
        if (end - begin) * FRAME_S >= _SHORTEST_TURN_S
    ]
