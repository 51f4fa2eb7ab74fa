"""Answers of a server under load, its memory, and commands beside long uploads."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo_lab.experiments import server_command
from whisper_hailo_lab.experiments.server_clients import ProcessWatch, RefusedError
from whisper_hailo_lab.experiments.server_command import (
    CommandCost,
    count_other_windows,
    processor_s,
    summarize_costs,
    write_repeated,
)
from whisper_hailo_lab.experiments.server_load import measure_load, merge_rows

pytest.importorskip("wyoming", reason="the server extra is not installed")


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


def test_summarize_costs_gives_median_and_largest() -> None:
    costs = [CommandCost(0.3, 0), CommandCost(0.9, 2), CommandCost(0.4, 1)]
    row = summarize_costs("base", "alone", costs)
    assert (row.n_commands, row.median_cpu_s, row.max_cpu_s) == (3, 0.4, 0.9)
    assert row.max_windows == 2


def test_count_other_windows_leaves_commands_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = (
        'whisper_hailo_windows_total{priority="interactive"} 7.0\n'
        'whisper_hailo_windows_total{priority="long"} 4.0\n'
        'whisper_hailo_windows_total{priority="batch"} 1.0\n'
    )
    monkeypatch.setattr(server_command, "read_metrics", lambda _: page)
    assert count_other_windows("http://127.0.0.1:1") == 5


def test_processor_s_rises_with_work() -> None:
    before = processor_s(os.getpid())
    np.sort(np.random.default_rng(0).standard_normal(1 << 16))
    assert processor_s(os.getpid()) > before


def test_write_repeated_lasts_as_long_as_its_header_says(tmp_path: Path) -> None:
    piece = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) / 10
    path = write_repeated(tmp_path / "a.mp3", piece, 5).path
    with open_audio(path) as stream:
        promised_s = stream.duration_s
    assert promised_s is not None
    assert promised_s >= 5
    assert load_audio(path).size / 16_000 == pytest.approx(promised_s, abs=0.1)
