"""Dynamic time warping of tokens against encoder positions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.core.types import FloatArray, IntArray

MEDIAN_WIDTH: Final = 7
"""Encoder positions, as in OpenAI Whisper."""

_DIAGONAL, _DOWN, _ACROSS = 0, 1, 2


def token_starts(attention: FloatArray, n_positions: int, rows: slice) -> IntArray:
    """Where each token begins, by the cross-attention of the alignment heads.

    The weights are cut to the positions that hold audio and made to sum to one again, which leaves
    out what was spent on padding; then normalised per position over the tokens, smoothed over time
    by a median, and averaged over the heads. The cheapest monotonic path through the negated
    result gives each token a stretch of time.

    Args:
        attention: `(n_heads, n_tokens, n_audio_ctx)` float32 weights.
        n_positions: leading positions that hold audio, at least 1.
        rows: the tokens that are warped; all of them take part in the normalisation.

    Returns:
        `(n_rows,)` int64 first position of each of these tokens, never decreasing.

    Source: OpenAI Whisper, `find_alignment`.
    """
    weights = attention[:, :, :n_positions].astype(np.float64)
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    spread = weights.std(axis=-2, keepdims=True)
    weights = (weights - weights.mean(axis=-2, keepdims=True)) / np.maximum(spread, 1e-30)
    matrix = median_filter(weights, MEDIAN_WIDTH).mean(axis=0)
    tokens, positions = warp(-matrix[rows])
    _, begins = np.unique(tokens, return_index=True)
    starts: IntArray = positions[begins]
    return starts


def median_filter(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Running median along the last axis, whose ends are reflected.

    Args:
        values: `(..., n)` float64; left as it is when n is at most half the width.
        width: odd number of values.
    """
    reach = width // 2
    if values.shape[-1] <= reach:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(reach, reach)], mode="reflect")
    around = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    return np.partition(around, reach)[..., reach]


def warp(cost: NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Cheapest monotonic path from the first to the last corner.

    The table is filled by anti-diagonals, whose cells do not depend on each other.

    Args:
        cost: `(n, m)` float64.

    Returns:
        row and column of each cell on the path, both `(n_steps,)` int64.
    """
    n, m = cost.shape
    trace = np.zeros((n + 1, m + 1), dtype=np.int8)
    table = np.full(trace.shape, np.inf)
    table[0, 0] = 0.0
    for total in range(2, n + m + 1):
        rows = np.arange(max(1, total - m), min(n, total - 1) + 1)
        columns = total - rows
        diagonal = table[rows - 1, columns - 1]
        down = table[rows - 1, columns]
        across = table[rows, columns - 1]
        is_diagonal = (diagonal < down) & (diagonal < across)
        is_down = (down < diagonal) & (down < across)
        best = np.where(is_diagonal, diagonal, np.where(is_down, down, across))
        table[rows, columns] = cost[rows - 1, columns - 1] + best
        trace[rows, columns] = np.where(is_diagonal, _DIAGONAL, np.where(is_down, _DOWN, _ACROSS))
    return _path(trace)


def _path(trace: NDArray[np.int8]) -> tuple[IntArray, IntArray]:
    """Follow the trace back from its last cell; it leaves the table by its first one."""
    row, column = trace.shape[0] - 1, trace.shape[1] - 1
    cells: list[tuple[int, int]] = []
    while row > 0:
        cells.append((row - 1, column - 1))
        move = trace[row, column]
        row -= int(move != _ACROSS)
        column -= int(move != _DOWN)
    path = np.array(cells[::-1], dtype=np.int64)
    return path[:, 0], path[:, 1]
