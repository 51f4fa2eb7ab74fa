"""The bundled model on its frozen test sets: what the data card claims is true."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.micro_wer import Case, measure

WER_SEEN = 0.08
"""Sentences never trained on, voices that were."""

INT8_LOSS = 0.01
INT4_LOSS = 0.03


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    return {quantize: measure(Case(10.0, quantize)) for quantize in ("none", "int8", "int4")}


def wer(row: dict[str, Any], name: str) -> float:
    figures = row[name]
    assert figures["words"] > 200
    return float(figures["wer"])


def test_unseen_sentences_in_seen_voices(rows: dict[str, dict[str, Any]]) -> None:
    assert wer(rows["none"], "seen") <= WER_SEEN


def test_silence_gives_no_text(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["none"]["silence"] == {"clips": 20, "with_text": 0}


def test_small_weights_cost_little(rows: dict[str, dict[str, Any]]) -> None:
    float32 = wer(rows["none"], "seen")
    assert wer(rows["int8"], "seen") <= float32 + INT8_LOSS
    assert wer(rows["int4"], "seen") <= float32 + INT4_LOSS
