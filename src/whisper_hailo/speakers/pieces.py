"""Pieces: stretches of about 2 s in which one voice speaks alone, from which prints are taken.

A window's voice can hold two people that the segmentation takes for one, so that voices are cut
into pieces, which cost no more: each moment is looked at once, in the window whose middle is
nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.speakers.segmentation import (
    FRAME_S,
    HOP_FRAMES,
    N_FRAMES,
    WindowActivity,
)

_LONGEST_S: Final = 2.5
"""A longer stretch is cut into pieces of about 2 s: prints of 2 s differ enough between people, and
a change that the segmentation missed spoils only one piece."""

_USUAL_S: Final = 2.0
_SHORTEST_S: Final = 0.3
"""Prints of less say nothing."""

_PAUSE_S: Final = 0.5
"""A longer silence may hide that another person speaks."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Speech of one voice of a window.

    Attributes:
        window: index of the window.
        voice: of that window.
        frames: `(n,)` int32 frames of the recording, in order, in which it speaks alone.
    """

    window: int
    voice: int
    frames: NDArray[np.int32]

    @property
    def seconds(self) -> float:
        return self.frames.size * FRAME_S

    @property
    def window_frames(self) -> NDArray[np.int32]:
        """The frames, counted from the start of the window."""
        return self.frames - self.window * HOP_FRAMES


def middle_frames(is_first: bool, is_last: bool) -> tuple[int, int]:
    """Return the frames of a window, end exclusive, whose nearest window middle is its own."""
    margin = (N_FRAMES - HOP_FRAMES) // 2
    begin = 0 if is_first else margin
    end = N_FRAMES if is_last else margin + HOP_FRAMES
    return begin, end


def cut_pieces(
    activity: WindowActivity, window: int, begin: int, end: int
) -> list[Piece]:
    """Return the pieces in frames `begin` to `end` of a window.

    A piece ends where another voice speaks alone, or no voice does for half a second.
    """
    pieces: list[Piece] = []
    stretch: list[int] = []
    voice = -1
    for frame in range(begin, end):
        speaker = int(activity.alone[frame])
        if speaker < 0:
            continue
        if stretch:
            is_after_pause = (frame - stretch[-1]) * FRAME_S > _PAUSE_S
            if speaker != voice or is_after_pause:
                pieces += _split_stretch(stretch, window, voice)
                stretch = []
        voice = speaker
        stretch.append(frame)
    if stretch:
        pieces += _split_stretch(stretch, window, voice)
    return pieces


def _split_stretch(stretch: list[int], window: int, voice: int) -> list[Piece]:
    """Return the pieces of a stretch of frames of a window, none if it is too short."""
    seconds = len(stretch) * FRAME_S
    if seconds < _SHORTEST_S:
        return []
    n_parts = round(seconds / _USUAL_S) if seconds > _LONGEST_S else 1
    frames = np.asarray(stretch, np.int32) + window * HOP_FRAMES
    return [Piece(window, voice, part) for part in np.array_split(frames, n_parts)]
