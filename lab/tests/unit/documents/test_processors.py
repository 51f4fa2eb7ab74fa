from __future__ import annotations

import json
from importlib import resources

import pytest

from whisper_hailo_lab.documents.processors import (
    COUNTED_S,
    SHAPES,
    STUDY_DECODER_MS,
    STUDY_ENCODER_MS,
    TINY,
    expected_times,
)


def test_study_times_are_those_of_its_report() -> None:
    file = resources.files("whisper_hailo_lab.report") / "study.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["librispeech"]
    study = next(row for row in rows if row[0] == "10 s encoder + cached INT8")
    assert (study[1], study[2]) == (STUDY_ENCODER_MS, STUDY_DECODER_MS)


def test_expected_times_grow_with_the_model() -> None:
    times = list(expected_times())
    assert [time.model for time in times] == [shape.name for shape in SHAPES]
    totals = [time.total_s for time in times]
    assert totals == sorted(totals)
    for time in times:
        assert time.real_time_factor == pytest.approx(time.total_s / 60)


def test_encoder_products_of_layers_without_attention_are_linear() -> None:
    """Attention is the only part that grows with the square of the window."""
    short = TINY.encoder_products(COUNTED_S)
    long = TINY.encoder_products(2 * COUNTED_S)
    squares = TINY.n_encoder_layers * 2 * (COUNTED_S * 50) ** 2 * TINY.width
    assert long - 2 * short == pytest.approx(2 * squares)


def test_token_bytes_are_mostly_the_vocabulary_of_tiny() -> None:
    vocabulary = TINY.n_vocab * TINY.width
    assert vocabulary < TINY.token_bytes(COUNTED_S) < 2 * vocabulary
