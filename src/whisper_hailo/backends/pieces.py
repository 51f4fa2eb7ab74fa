"""Many tokens behind others, be they of text or of audio in fewer bits, for many rows.

The runtime's grouped attention takes many tokens behind others for one row only, so a pass falls
into several: a row at a time, or a token at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from whisper_hailo.backends.state import CachedState
from whisper_hailo.core.protocols import StepOutput
from whisper_hailo.core.types import FloatArray, IntArray

Pass: TypeAlias = Callable[[IntArray, CachedState, IntArray], StepOutput]
"""Tokens `(batch, n)`, a state whose last n places are theirs, and positions `(K,)`."""


def in_pieces(run: Pass, tokens: IntArray, state: CachedState, positions: IntArray) -> StepOutput:
    """What one pass would give, in as few passes as there can be.

    Each reads all weights once, and costs little more for each further row or token.

    Args:
        run: one pass that the runtime can do.
        tokens: `(batch, n_new)`.
        state: whose last n_new places are theirs.
        positions: `(K,)` which of the tokens to look at.
    """
    batch, n_new = tokens.shape
    by = _token_by_token if n_new <= batch else _row_by_row
    return by(run, tokens, state, positions)


def _row_by_row(run: Pass, tokens: IntArray, state: CachedState, positions: IntArray) -> StepOutput:
    rows = [slice(row, row + 1) for row in range(state.batch)]
    return _joined([run(tokens[row], _one_row(state, row), positions) for row in rows])


def _one_row(state: CachedState, rows: slice) -> CachedState:
    """One row of a state, in its place: what is added to its cache is added to the state's."""
    return replace(
        state,
        cache=state.cache.row(rows.start),
        cross=state.cross.rows(np.array([rows.start])),
        cross_bias=state.cross_bias[rows],
        first=state.first[rows],
        audio_rows=state.audio_rows[rows],
    )


def _joined(outputs: Sequence[StepOutput]) -> StepOutput:
    """Outputs of single rows as those of a batch."""
    return StepOutput(
        np.concatenate([output.logits for output in outputs]),
        np.concatenate([output.logsumexp for output in outputs]),
        _alignment(outputs, axis=0),
    )


def _token_by_token(
    run: Pass, tokens: IntArray, state: CachedState, positions: IntArray
) -> StepOutput:
    """A token that is not looked at is not projected to the vocabulary."""
    look, away = np.zeros(1, np.int64), np.zeros(0, np.int64)
    places = positions.tolist()
    outputs, n_new = [], tokens.shape[1]
    for column in range(n_new):
        output = run(
            np.ascontiguousarray(tokens[:, column : column + 1]),
            replace(state, n_tokens=state.n_tokens - n_new + column + 1),
            look if column in places else away,
        )
        # The next pass may write to the same arrays.
        kept = output.logits.copy(), output.logsumexp.copy()
        outputs.append(StepOutput(*kept, output.alignment))
    empty = outputs[0].logits[:, :0], outputs[0].logsumexp[:, :0]
    return StepOutput(
        np.concatenate([empty[0], *(outputs[place].logits for place in places)], axis=1),
        np.concatenate([empty[1], *(outputs[place].logsumexp for place in places)], axis=1),
        _alignment(outputs, axis=2),
    )


def _alignment(outputs: Sequence[StepOutput], axis: int) -> FloatArray | None:
    """Alignment weights side by side, where they were asked for."""
    weights = [output.alignment for output in outputs if output.alignment is not None]
    return np.concatenate(weights, axis=axis) if weights else None
