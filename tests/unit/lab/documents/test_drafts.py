"""The tables of drafts, from a result that can be checked by hand."""

from __future__ import annotations

from typing import Any

from whisper_hailo_lab.documents.drafts import tables

RESULT: dict[str, Any] = {
    "machine": "Test CPU",
    "weights": "m",
    "texts": [
        {
            **{"form": "int8", "n_tokens": 4, "texts": 10, "same": 9, "other": 1},
            **{"tokens": 300, "passes": 100, "steps": 400, "accepted": 200},
        }
    ],
    "times": [
        {
            **{"model": "small", "draft_model": "tiny", "form": "int8", "threads": 1},
            **{"accept": 0.8, "alone_ms": 10.0, "helped_ms": 8.0, "times": 1.25},
            **{"expected_times": 1.2, "tokens_per_pass": 2.5},
        },
        {"model": "base", "draft_model": "tiny", "form": "int4", "threads": 1, "gain": 1.03},
    ],
}


def test_texts_are_counted_and_shares_are_of_what_was_drafted() -> None:
    text = tables(RESULT, "m")["draft-texts"]
    assert text.startswith("Test CPU.\n\n| decoder | texts |")
    assert "| int8, 4 tokens ahead | 10 | 9 | 1 | 50.0 % | 3.00 |" in text


def test_times_are_told_beside_what_the_costs_say() -> None:
    text = tables(RESULT, "m")["draft-times"]
    assert "| small, tiny | int8 | 1 | 80.0 % | 10.00 | 8.00 | 1.25 | 1.20 | 2.50 |" in text


def test_a_pair_that_is_left_out_says_what_it_promised() -> None:
    text = tables(RESULT, "m")["draft-times"]
    assert "| base, tiny | int4 | 1 | - | - | left out | - | 1.03 at 80 % | - |" in text


def test_other_weights_are_told() -> None:
    assert tables(RESULT, "m")["draft-texts"] != tables(RESULT, "n")["draft-texts"]
