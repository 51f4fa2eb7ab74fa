"""Generated tables of given results, and the check that the committed ones are current."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from lab.training import tables
from lab.training.tables import RESULTS, ROOT


def row(pad_to: int, penalty: float, runaway: float) -> dict[str, float | int]:
    return {
        "window_s": 10.0,
        "pad_to": pad_to,
        "penalty": penalty,
        "boost": 0.0,
        "clips": 4,
        "runaway": runaway,
        "wer": 12.34,
        "insertions": 1,
        "tokens": 20.0,
    }


def test_illness_table_has_rows_and_columns() -> None:
    table = tables.illness_table(
        [row(0, 1.0, 50.0), row(0, 1.1, 25.0), row(700, 1.0, 0.0), row(700, 1.1, 0.0)]
    )
    assert table.splitlines() == [
        "| window | padded to | neither | penalty 1.1 |",
        "| --- | --- | --- | --- |",
        "| 10 s | none | 50.0 / 12.3 / 20.0 | 25.0 / 12.3 / 20.0 |",
        "| 10 s | 700 | 0.0 / 12.3 / 20.0 | 0.0 / 12.3 / 20.0 |",
    ]


def test_run_table_has_every_thousandth_step() -> None:
    rates = {"dev": {"wer": 5.0}, "dev-de": {"wer": 7.0}}
    common = {"minutes": 3.2, "loss": 1.0, "ctc": 0.5}
    log = [
        {"step": step, **common, **(rates if step % 500 == 0 else {})}
        for step in (500, 600, 1000, 1500)
    ]
    assert [
        line.split(" | ")[0] for line in tables.run_table(log).splitlines()[2:]
    ] == [
        "| 1000",
        "| 1500",
    ]


def test_committed_tables_are_current() -> None:
    for path in tables.PAGES:
        page = path.read_text(encoding="utf-8")
        assert tables.filled(page) == page, (
            f"{path} is stale: python -m lab.training.tables"
        )


WEIGHTS = ROOT / "src" / "whisper_hailo" / "assets" / "micro" / "model.safetensors"
RESULT: dict[str, Any] = json.loads(
    (RESULTS / "micro.json").read_text(encoding="utf-8")
)

SHORT = RESULT["windows"]["10"]
FULL = RESULT["windows"]["30"]
MOST_WRONG = {"seen": 4.0, "unseen": 15.0, "noisy": 12.0, "german": 10.0}
"""Word error rates in per cent, at windows of 10 s."""


def test_micro_result_is_of_the_bundled_weights() -> None:
    assert hashlib.sha256(WEIGHTS.read_bytes()).hexdigest() == RESULT["weights_sha256"]


@pytest.mark.parametrize("name", MOST_WRONG)
def test_micro_result_word_error_rates_are_bounded(name: str) -> None:
    figures = SHORT[name]
    assert figures["words"] > 2000
    assert figures["wer"] <= MOST_WRONG[name]


@pytest.mark.parametrize("window", [SHORT, FULL], ids=["10 s", "30 s"])
def test_micro_result_silence_times_and_languages_are_good(
    window: dict[str, Any],
) -> None:
    silence = window["silence"]
    times = window["segment_times"]
    languages = window["language_detection"]
    assert silence["with_text"] <= 0.02 * silence["clips"]
    assert times["within"] >= 0.90 * times["boundaries"], "within 0.2 s"
    assert languages["correct"] >= 0.98 * languages["clips"]
    assert min(silence["clips"], times["boundaries"], languages["clips"]) >= 60


@pytest.mark.parametrize("name", [*MOST_WRONG, "phrases", "translation"])
def test_micro_result_full_windows_equal_short_ones(name: str) -> None:
    """Rates are not above the bootstrap interval of the short windows."""
    _, high = SHORT[name]["interval"]
    assert FULL[name]["wer"] <= high
