"""Decoder work of windows, counted pass by pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from whisper_hailo_lab.accuracy.retry_cost import WindowWork, WorkCounter, compare_work

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


def test_work_counter_tells_searches_apart() -> None:
    counter = WorkCounter(CountedDecoder())  # type: ignore[arg-type]
    for n_beam in (5, 3):
        state = counter.start(np.zeros((1, 1, 1), np.float32), ())
        extend(counter, state, 1, 1)
        extend(counter, state, 1, 10)
        extend(counter, state, n_beam, 8)
    assert [window.searches for window in counter.windows] == [[1, 10, 40], [1, 10, 24]]


def test_window_work_ratio_leaves_out_single_passes() -> None:
    assert WindowWork([1, 10, 40, 1]).ratio == 5.0


def test_compare_work_has_a_line_per_model() -> None:
    windows = [WindowWork([10]), WindowWork([10, 30]), WindowWork([1])]
    table = compare_work({"base": windows}).markdown()
    cells = [cell.strip() for cell in table.splitlines()[-1].split("|")[1:-1]]
    assert cells[:5] == ["base", "2", "50.0 %", "2.50", "2.50"]
    assert cells[-1] == "4.00"
