"""The bundled model on its frozen test sets: what the data card claims is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.micro_wer import Case, measure

RESULTS = Path(__file__).parents[2] / "training" / "results" / "micro.json"

INT8_LOSS = 0.01
INT4_LOSS = 0.01


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    cases = ("none", "int8", "int4")
    return {quantize: measure(Case(10.0, quantize), ["seen"]) for quantize in cases}


def wer(row: dict[str, Any], name: str) -> float:
    figures = row[name]
    assert figures["words"] > 200
    return float(figures["wer"])


def test_unseen_sentences_in_seen_voices(rows: dict[str, dict[str, Any]]) -> None:
    # The figures of the data card come from another program, plain greedy decoding in torch.
    claimed = json.loads(RESULTS.read_text(encoding="utf-8"))["windows"]["10"]["seen"]
    assert rows["none"]["seen"]["words"] == claimed["words"]
    assert wer(rows["none"], "seen") == pytest.approx(claimed["wer"] / 100, abs=0.005)


def test_silence_gives_no_text(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["none"]["silence"] == {"clips": 60, "with_text": 0}


def test_small_weights_cost_little(rows: dict[str, dict[str, Any]]) -> None:
    float32 = wer(rows["none"], "seen")
    assert wer(rows["int8"], "seen") <= float32 + INT8_LOSS
    assert wer(rows["int4"], "seen") <= float32 + INT4_LOSS
