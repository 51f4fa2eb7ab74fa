"""Diarisation error rate: missed speech, false alarms and confused speakers, by frame.

Frames of 10 ms; speakers of the reference are mapped one to one to those of the hypothesis so that
they agree for as long as possible. A collar leaves out so much before and after each boundary of
the reference, as NIST's md-eval does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo_lab.speakers.conversations import Turn

FRAMES_PER_SECOND: Final = 100


@dataclass(frozen=True, slots=True)
class DiarizationErrors:
    """Seconds of each kind of error, and of speech by all speakers of the reference."""

    missed_s: float = 0.0
    false_alarm_s: float = 0.0
    confused_s: float = 0.0
    speech_s: float = 0.0

    def __add__(self, other: DiarizationErrors) -> DiarizationErrors:
        return DiarizationErrors(
            self.missed_s + other.missed_s,
            self.false_alarm_s + other.false_alarm_s,
            self.confused_s + other.confused_s,
            self.speech_s + other.speech_s,
        )

    @property
    def rate(self) -> float:
        """The diarisation error rate; above 1 where there are more errors than speech."""
        total_s = self.missed_s + self.false_alarm_s + self.confused_s
        return total_s / self.speech_s if self.speech_s else float(total_s > 0)


def score_turns(
    reference: Sequence[Turn], hypothesis: Sequence[Turn], collar_s: float = 0.0
) -> DiarizationErrors:
    """Return the errors of a hypothesis.

    Args:
        reference: who really spoke when.
        hypothesis: what a system says; its names need not be those of the reference.
        collar_s: not scored on either side of each boundary of the reference.
    """
    n_frames = 1 + max(
        [_frame(turn.end_s) for turn in (*reference, *hypothesis)], default=0
    )
    spoken = _activity(reference, n_frames)
    said = _activity(hypothesis, n_frames)
    scored = np.ones(n_frames, dtype=bool)
    if collar_s:
        for turn in reference:
            for edge_s in (turn.start_s, turn.end_s):
                scored[
                    max(0, _frame(edge_s - collar_s)) : _frame(edge_s + collar_s)
                ] = False
    spoken = spoken[:, scored]
    said = said[:, scored]
    n_spoken = spoken.sum(axis=0)
    n_said = said.sum(axis=0)
    n_right = np.zeros(n_spoken.size, dtype=np.int64)
    for row, column in map_speakers(
        spoken.astype(np.float64) @ said.T.astype(np.float64)
    ):
        n_right += spoken[row] & said[column]
    confused = np.minimum(n_spoken, n_said) - n_right
    return DiarizationErrors(
        missed_s=float(np.maximum(0, n_spoken - n_said).sum()) / FRAMES_PER_SECOND,
        false_alarm_s=float(np.maximum(0, n_said - n_spoken).sum()) / FRAMES_PER_SECOND,
        confused_s=float(confused.sum()) / FRAMES_PER_SECOND,
        speech_s=float(n_spoken.sum()) / FRAMES_PER_SECOND,
    )


def speaker_mapping(
    reference: Sequence[Turn], hypothesis: Sequence[Turn]
) -> dict[str, str]:
    """Return the reference's name for each speaker of a hypothesis who has one."""
    n_frames = 1 + max(
        [_frame(turn.end_s) for turn in (*reference, *hypothesis)], default=0
    )
    spoken = _activity(reference, n_frames).astype(np.float64)
    said = _activity(hypothesis, n_frames).astype(np.float64)
    rows = _names(reference)
    columns = _names(hypothesis)
    return {columns[column]: rows[row] for row, column in map_speakers(spoken @ said.T)}


def map_speakers(shared: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the one-to-one mapping of rows to columns with the largest sum.

    By the method of Kuhn and Munkres with potentials, after Jonker and Volgenant.

    Args:
        shared: `(n_rows, n_columns)` frames that two speakers have in common.
    """
    n_rows, n_columns = shared.shape
    size = max(n_rows, n_columns)
    if not size:
        return []
    cost = np.zeros((size + 1, size + 1))
    cost[1 : n_rows + 1, 1 : n_columns + 1] = -shared
    row_potential = np.zeros(size + 1)
    column_potential = np.zeros(size + 1)
    row_of = np.zeros(size + 1, dtype=np.int64)
    for row in range(1, size + 1):
        row_of[0] = row
        column = 0
        slack = np.full(size + 1, np.inf)
        used = np.zeros(size + 1, dtype=bool)
        previous = np.zeros(size + 1, dtype=np.int64)
        while row_of[column]:
            used[column] = True
            current = row_of[column]
            reduced = cost[current] - row_potential[current] - column_potential
            better = ~used & (reduced < slack)
            better[0] = False
            slack[better] = reduced[better]
            previous[better] = column
            free = np.where(used, np.inf, slack)
            free[0] = np.inf
            column = int(np.argmin(free))
            step = free[column]
            row_potential[row_of[used]] += step
            column_potential[used] -= step
            slack[~used] -= step
        while column:
            row_of[column] = row_of[previous[column]]
            column = int(previous[column])
    pairs = [(int(row_of[column]) - 1, column - 1) for column in range(1, size + 1)]
    return [
        (row, column) for row, column in pairs if row < n_rows and column < n_columns
    ]


def _activity(turns: Sequence[Turn], n_frames: int) -> NDArray[np.bool_]:
    """Return `(n_speakers, n_frames)`: who speaks in which frame."""
    names = _names(turns)
    active = np.zeros((len(names), n_frames), dtype=bool)
    for turn in turns:
        active[names.index(turn.speaker), _frame(turn.start_s) : _frame(turn.end_s)] = (
            True
        )
    return active


def _names(turns: Sequence[Turn]) -> list[str]:
    return sorted({turn.speaker for turn in turns})


def _frame(seconds: float) -> int:
    return round(seconds * FRAMES_PER_SECOND)
