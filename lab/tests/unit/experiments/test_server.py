"""Answers of a server under load, and its memory."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

from whisper_hailo_lab.experiments.server_clients import ProcessWatch, RefusedError
from whisper_hailo_lab.experiments.server_load import measure_load, merge_rows


@pytest.mark.slow
def test_measure_load_counts_each_answer_once() -> None:
    lock = threading.Lock()
    turn = iter(["right", "other", RefusedError("503"), OSError("away")])

    def ask() -> str:
        with lock:
            answer = next(turn, "right")
        if isinstance(answer, Exception):
            raise answer
        return answer

    load = measure_load(
        "openai", ask, 2, seconds=0.3, server=os.getpid(), expected="right"
    )
    assert load.n_wrong == 1
    assert load.n_failed == 1
    assert load.refused == {"503": 1}
    assert load.n_done >= load.n_in_time > 0
    assert load.peak_mib >= max(load.rss_mib) > 0


def test_process_watch_thirds_show_a_leak() -> None:
    watch = ProcessWatch(os.getpid())
    watch.samples = [
        (100.0, 8),
        (102.0, 8),
        (150.0, 20),
        (160.0, 30),
        (113.0, 9),
        (111.0, 9),
    ]
    assert watch.thirds == ((101.0, 8), (112.0, 9))
    assert watch.peak_mib == 160.0


def test_merge_rows_replaces_a_row_measured_again() -> None:
    def row(door: str, clients: int, done: int) -> dict[str, Any]:
        return {"door": door, "clients": clients, "n_done": done}

    kept = [row("openai", 64, 1), row("wyoming", 1, 2)]
    assert merge_rows(kept, [row("openai", 64, 3), row("openai", 1, 4)]) == [
        row("openai", 1, 4),
        row("openai", 64, 3),
        row("wyoming", 1, 2),
    ]
