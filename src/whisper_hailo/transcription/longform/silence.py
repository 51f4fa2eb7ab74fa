"""Where a window can end without cutting a word: the pauses that loudness alone tells of."""

from __future__ import annotations

from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

_FRAME: Final = SAMPLE_RATE_HZ // 50
_SHORTEST_FRAMES: Final = 10
"""0.2 s: the closure of a consonant, which is quiet too, is shorter."""

_SHARE: Final = 0.25
"""A pause is quieter than this way up from the window's quiet frames to its loud ones, in dB."""

_LEAST_DB: Final = 6.0
"""Less between quiet and loud is no speech with pauses, but a steady sound."""


def find_silence(audio: FloatArray, start: int) -> int | None:
    """The middle of the longest pause in the last part of a window.

    Args:
        audio: `(n_samples,)` float32 of the window, whose own loudness is the measure.
        start: position in samples from which on a pause is looked for.

    Returns:
        position in samples; `None` where there is no pause of 0.2 s.
    """
    frames = audio[: audio.size // _FRAME * _FRAME].reshape(-1, _FRAME).astype(np.float64)
    if len(frames) == 0:
        return None
    loudness_db = 10 * np.log10((frames**2).mean(axis=1) + 1e-10)
    quiet_db, loud_db = np.quantile(loudness_db, [0.1, 0.9])
    if loud_db - quiet_db < _LEAST_DB:
        return None
    is_quiet = loudness_db <= quiet_db + _SHARE * (loud_db - quiet_db)
    first = -(-start // _FRAME)
    edges = np.diff(is_quiet[first:].astype(np.int8), prepend=0, append=0)
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = ends - begins
    if not lengths.size or lengths.max() < _SHORTEST_FRAMES:
        return None
    longest = int(lengths.argmax())
    return (2 * first + int(begins[longest] + ends[longest])) * _FRAME // 2
