"""Windows of a recording, and the powerset of voices in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.graphs import write_constant_graph
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.speakers.segmentation import (
    HOP_SAMPLES,
    N_FRAMES,
    WINDOW_SAMPLES,
    SegmentationModel,
    cut_windows,
    decode_powerset,
)


def _blocks(n_samples: int, size: int) -> Iterator[FloatArray]:
    audio = np.arange(n_samples, dtype=np.float32)
    for start in range(0, n_samples, size):
        yield audio[start : start + size]


@pytest.mark.parametrize("size", [1000, 16_000, 400_000])
@pytest.mark.parametrize(
    ("n_samples", "n_windows"),
    [
        (1, 1),
        (WINDOW_SAMPLES, 1),
        (WINDOW_SAMPLES + 1, 2),
        (WINDOW_SAMPLES + HOP_SAMPLES, 2),
        (WINDOW_SAMPLES + 3 * HOP_SAMPLES + 5, 5),
    ],
)
def test_cut_windows_covers_the_recording(
    n_samples: int, n_windows: int, size: int
) -> None:
    windows = list(cut_windows(_blocks(n_samples, size)))
    starts = [int(window[0]) for window, _ in windows]
    assert starts == [index * HOP_SAMPLES for index in range(n_windows)]
    assert [is_last for _, is_last in windows] == [False] * (n_windows - 1) + [True]
    last, _ = windows[-1]
    assert last[-1] == n_samples - 1
    assert all(window.size == WINDOW_SAMPLES for window, _ in windows[:-1])


def test_cut_windows_without_audio_has_none() -> None:
    assert list(cut_windows(iter(()))) == []


def test_decode_powerset_names_voices() -> None:
    logits = np.full((7, 7), -9.0, np.float32)
    np.fill_diagonal(logits, 3.0)
    activity = decode_powerset(logits)
    assert activity.alone.tolist() == [-1, 0, 1, 2, -1, -1, -1]
    heard = (activity.activity > 128).tolist()
    assert heard[0] == [False, False, False]
    assert heard[4:] == [[True, True, False], [True, False, True], [False, True, True]]


def test_decode_powerset_takes_log_probabilities_too() -> None:
    logits = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(
        decode_powerset(logits).alone, decode_powerset(logs).alone
    )


def test_segment_reads_any_names_of_input_and_output(tmp_path: Path) -> None:
    path = write_constant_graph(tmp_path / "model.onnx", (1, N_FRAMES, 7))
    with SegmentationModel(path, 1) as model:
        activity = model.segment(np.ones(16_000, np.float32))
    assert activity.activity.shape == (N_FRAMES, 3)


def test_segment_of_another_model_is_refused(tmp_path: Path) -> None:
    path = write_constant_graph(tmp_path / "model.onnx", (1, 5, 7))
    with SegmentationModel(path, 1) as model, pytest.raises(ModelError):
        model.segment(np.ones(16_000, np.float32))
