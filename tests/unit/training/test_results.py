"""The measured figures of the bundled model are its own, and reach what was set out for it."""

import hashlib
import json
from typing import Any

import pytest
from training.tables import RESULTS, ROOT

WEIGHTS = ROOT / "src" / "whisper_hailo" / "assets" / "micro" / "model.safetensors"
RESULT: dict[str, Any] = json.loads((RESULTS / "micro.json").read_text(encoding="utf-8"))

SHORT, FULL = RESULT["windows"]["10"], RESULT["windows"]["30"]
MOST_WRONG = {"seen": 4.0, "unseen": 15.0, "noisy": 12.0, "german": 10.0}
"""Word error rates in per cent, at windows of 10 s."""


def test_the_figures_are_of_the_bundled_weights() -> None:
    assert hashlib.sha256(WEIGHTS.read_bytes()).hexdigest() == RESULT["weights_sha256"]


@pytest.mark.parametrize("name", MOST_WRONG)
def test_word_error_rates(name: str) -> None:
    figures = SHORT[name]
    assert figures["words"] > 2000
    assert figures["wer"] <= MOST_WRONG[name]


@pytest.mark.parametrize("window", [SHORT, FULL], ids=["10 s", "30 s"])
def test_silence_times_and_languages(window: dict[str, Any]) -> None:
    silence, times = window["silence"], window["segment_times"]
    languages = window["language_detection"]
    assert silence["with_text"] <= 0.02 * silence["clips"]
    assert times["within"] >= 0.90 * times["boundaries"], "within 0.2 s"
    assert languages["correct"] >= 0.98 * languages["clips"]
    assert min(silence["clips"], times["boundaries"], languages["clips"]) >= 60


@pytest.mark.parametrize("name", [*MOST_WRONG, "phrases", "translation"])
def test_full_windows_are_no_worse_than_short_ones(name: str) -> None:
    """As far as chance tells: not above the bootstrap interval of the short ones."""
    _, high = SHORT[name]["interval"]
    assert FULL[name]["wer"] <= high
