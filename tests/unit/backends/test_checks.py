"""Checks of the arrays that encoder and decoder are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.backends.checks import (
    check_features,
    check_mel,
    check_positions,
    check_step,
)
from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.spec import ModelSpec


@pytest.mark.parametrize(
    ("shape", "takes", "data"),
    [
        ((1, 80, 3000), None, r"\b3000 .*\b300 \(3 s.*--window 3$"),
        ((1, 80, 302), None, r"\b302 .*\b300 "),
        ((1, 80, 99), None, r"\b99 .*\b300 "),
        ((1, 80, 0), None, r"\b0 .*\b300 "),
        ((1, 80, 198), 200, r"\b198 .*\b200 \(2 s.*--window 2$"),
        ((1, 80, 202), 200, r"\b202 .*\b200 \(2 s.*--window 2$"),
        ((1, 128, 100), None, r"\(1, 128, 100\), .*\(batch, 80, n_frames\)"),
        ((80, 100), None, r"\(80, 100\), .*\(batch, 80, n_frames\)"),
    ],
)
def test_check_mel_of_unfit_shape_is_refused(
    spec: ModelSpec, shape: tuple[int, ...], takes: int | None, data: str
) -> None:
    with pytest.raises(ShapeError, match=data):
        check_mel(np.zeros(shape, np.float32), spec, takes)


@pytest.mark.parametrize(("n_frames", "takes"), [(2, None), (300, None), (200, 200)])
def test_check_mel_accepts_windows_up_to_the_context(
    spec: ModelSpec, n_frames: int, takes: int | None
) -> None:
    check_mel(np.zeros((2, 80, n_frames), np.float32), spec, takes)


@pytest.mark.parametrize("shape", [(1, 30, 65), (30, 64), (1, 0, 64)])
def test_check_features_of_unfit_shape_is_refused(
    spec: ModelSpec, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ShapeError, match=r"\(batch, n_audio_ctx, 64\)"):
        check_features(np.zeros(shape, np.float32), None, spec)


def test_check_features_without_lengths_returns_full_ones(spec: ModelSpec) -> None:
    features = np.zeros((2, 30, 64), np.float32)
    assert check_features(features, None, spec).tolist() == [30, 30]
    lengths = np.array([20, 30])
    assert check_features(features, lengths, spec) is lengths


@pytest.mark.parametrize(("n_positions", "window_s"), [(150, 3), (120, 3), (101, 3)])
def test_check_positions_names_the_window_in_whole_seconds(
    n_positions: int, window_s: int
) -> None:
    check_positions(100, 100)
    with pytest.raises(
        ShapeError, match=rf"\b100 .*\b{n_positions};.*--window {window_s}$"
    ):
        check_positions(100, n_positions)


@pytest.fixture
def state() -> Any:
    """State of two rows behind 60 tokens."""
    return SimpleNamespace(n_tokens=60, first=np.array([0, 2]))


def test_check_step_returns_columns_of_first_tokens(
    spec: ModelSpec, state: Any
) -> None:
    tokens = np.array([[0, 199, 5, 7], [1, 2, 3, 4]])
    assert check_step(tokens, state, None, spec) is state.first
    first = check_step(tokens, state, np.array([1, 3], np.int32), spec)
    assert first.dtype == np.int64
    assert first.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("tokens", "data"),
    [
        ([[3, 200], [4, 5]], r"\b3 .*\b200, .*\b200;"),
        ([[3, -1], [4, 5]], r"-1 .*\b5, .*\b200;"),
        ([[1] * 5] * 2, r"\b65 .*\b64;"),
    ],
)
def test_check_step_of_unknown_or_surplus_tokens_is_refused(
    spec: ModelSpec, state: Any, tokens: list[list[int]], data: str
) -> None:
    with pytest.raises(ShapeError, match=data):
        check_step(np.array(tokens), state, None, spec)
