"""Commands beside long uploads: what is made of their costs, and the uploads."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo_lab.experiments import server_command
from whisper_hailo_lab.experiments.server_command import (
    CommandCost,
    count_other_windows,
    processor_s,
    summarize_costs,
    write_repeated,
)


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
