"""A command here and at others, in turns."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

from whisper_hailo_lab.experiments.server_peers import (
    make_row,
    measure_pairs,
    merge_rows,
)


def test_make_row_ratio_is_that_of_pairs() -> None:
    row = make_row(
        ("HTTP", "peer", "base"), [(1.0, 2.0), (2.0, 8.0), (1.0, 3.0)], ("a", "b")
    )
    assert row.ratio == 3.0
    assert row.ratios == (2.0, 4.0)
    assert row.n_pairs == 3


def test_measure_pairs_asks_both_in_turns() -> None:
    asked = []

    def ask(name: str) -> str:
        asked.append(name)
        return f" {name} "

    ours = (os.getpid(), lambda: ask("ours"))
    theirs = (os.getpid(), lambda: ask("theirs"))
    pairs, texts = measure_pairs(ours, theirs, 2)
    assert asked == ["ours", "theirs"] * 3  # the first two load what is loaded late
    assert len(pairs) == 2
    assert texts == ("ours", "theirs")


def test_merge_rows_replaces_a_model_measured_again() -> None:
    def row(protocol: str, model: str, ratio: float) -> dict[str, object]:
        return {"protocol": protocol, "model": model, "ratio": ratio}

    kept = [row("Wyoming", "base", 1.0), row("HTTP", "base", 2.0)]
    merged = merge_rows(kept, [row("Wyoming", "base", 3.0)])
    assert merged == [row("Wyoming", "base", 3.0), row("HTTP", "base", 2.0)]
