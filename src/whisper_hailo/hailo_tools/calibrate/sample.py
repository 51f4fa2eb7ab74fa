"""Draws windows of speech from recordings, file by file, so that memory stays flat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.hailo_tools.calibrate.sources import window_order

MIN_SPEECH_S: Final = 0.5
"""A recording's last window may be shorter than the others, but not by so much."""

SILENCE: Final = 1e-3
"""Windows whose loudest sample lies below it (-60 dB) teach the statistics nothing."""


def quota_per_turn(n_windows: int, n_files: int) -> int:
    """Windows that each file gives per turn, so that one turn is enough if files are long."""
    return max(1, math.ceil(n_windows / n_files))


def draw(
    path: Path, name: str, plan: WindowPlan, seed: int, turn: tuple[int, int]
) -> Iterator[tuple[int, FloatArray]]:
    """The windows that one file gives in one turn.

    Args:
        path: the recording.
        name: its path in the folder, which its own shuffling depends on.
        plan: the window.
        seed: of the shuffling.
        turn: number of the turn, and windows per turn.

    Yields:
        number of the window in the file and its `(n_samples,)` float32 audio, in their order.

    Raises:
        AudioError: the file cannot be read.
    """
    number, quota = turn
    with open_audio(path) as stream:
        n_windows = _count(stream.duration_s, plan)
        wanted: set[int] | None = None
        if n_windows is not None:
            order = window_order(name, n_windows, seed)
            wanted = set(order[number * quota : (number + 1) * quota])
            if not wanted:
                return
        last = (number + 1) * quota - 1 if wanted is None else max(wanted)
        for index, audio in enumerate(stream.blocks(plan.content_samples)):
            is_drawn = index >= number * quota if wanted is None else index in wanted
            if is_drawn and _is_usable(audio):
                yield index, audio
            if index >= last:
                return


def _count(duration_s: float | None, plan: WindowPlan) -> int | None:
    """Windows of a recording, `None` where its header does not say how long it is."""
    if duration_s is None:
        return None
    return max(1, math.ceil(duration_s * SAMPLE_RATE_HZ / plan.content_samples))


def _is_usable(audio: FloatArray) -> bool:
    long_enough = audio.size >= MIN_SPEECH_S * SAMPLE_RATE_HZ
    return long_enough and bool(np.max(np.abs(audio)) >= SILENCE)
