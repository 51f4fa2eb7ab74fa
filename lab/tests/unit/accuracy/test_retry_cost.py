"""Decoder work of windows, counted pass by pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from whisper_hailo_lab.accuracy.retry_cost import (
    SearchWork,
    WindowWork,
    WorkCounter,
    summarize_work,
)

LAST = np.zeros(1, np.int64)


class CountedDecoder:
    """A decoder whose states are new objects."""

    def start(self, *_: object) -> object:
        return object()

    def step(self, *_: object, **__: object) -> tuple[None, object]:
        return None, object()

    def select(self, *_: object) -> object:
        return object()

    def rewind(self, *_: object) -> object:
        return object()


def extend(counter: WorkCounter, state: Any, n_rows: int, n_steps: int) -> None:
    """Search from a state with as many rows."""
    state = counter.select(state, np.zeros(n_rows, np.int64))
    for _ in range(n_steps):
        _, state = counter.step(np.zeros((n_rows, 1), np.int64), state, LAST)
        state = counter.rewind(counter.select(state, np.arange(n_rows)), 1)


def make_window(*searches: tuple[int, float]) -> WindowWork:
    return WindowWork([SearchWork(*search) for search in searches])


def test_work_counter_tells_searches_apart() -> None:
    counter = WorkCounter(CountedDecoder())  # type: ignore[arg-type]
    for n_beam in (5, 3):
        state = counter.start(np.zeros((1, 1, 1), np.float32), ())
        extend(counter, state, 1, 1)
        extend(counter, state, 1, 10)
        extend(counter, state, n_beam, 8)
    n_rows = [
        [search.n_rows for search in window.searches] for window in counter.windows
    ]
    assert n_rows == [[1, 10, 40], [1, 10, 24]]


def test_window_work_ratios_leave_out_single_passes() -> None:
    window = make_window((1, 9.0), (10, 2.0), (40, 5.0), (1, 9.0))
    assert window.row_ratio == 5.0
    assert window.time_ratio == 3.5


def test_summarize_work_counts_first_searches_as_one() -> None:
    windows = [
        make_window((10, 1.0)),
        make_window((10, 1.0), (30, 2.0)),
        make_window((1, 1.0)),
    ]
    work = summarize_work(windows)
    assert work["windows"] == 2
    assert work["retried"] == 1
    assert work["rows"]["all"] == 2.5
    assert work["rows"]["worst"] == 4.0
    assert work["time"]["median"] == 2.0
