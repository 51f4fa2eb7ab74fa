"""Latency of words of captions: first shown, and final."""

from __future__ import annotations

import pytest

from whisper_hailo_lab.captions.latency import (
    Shown,
    TimedWord,
    Utterance,
    measure_latency,
    measure_settling,
)

UTTERANCES = (
    Utterance("Open the window.", 1.0, 2.0),
    Utterance("It is late.", 4.0, 5.0),
)


def test_measure_latency_from_first_shown_to_settled() -> None:
    shown = [
        Shown(1.5, "", "Open"),
        Shown(2.4, "Open the", "widow"),
        Shown(3.0, "Open the window.", ""),
        Shown(4.5, "Open the window.", "It is"),
        Shown(6.0, "Open the window. It is late.", ""),
    ]
    latency = measure_latency(UTTERANCES, shown)
    assert latency.first_s == pytest.approx((0.5, 0.5))
    assert latency.final_s == pytest.approx((1.0, 1.0))
    assert latency.n_unheard == 0


def test_measure_latency_of_late_words_ends_with_the_stream() -> None:
    shown = [Shown(2.5, "", "Open a widow"), Shown(9.0, "Open a widow", "")]
    latency = measure_latency(UTTERANCES, shown)
    assert latency.first_s == pytest.approx((1.5,))
    assert latency.final_s == pytest.approx((7.0,))
    assert latency.n_unheard == 1


def test_measure_latency_ignores_text_before_the_utterance() -> None:
    # For a moment more words are shown than have been said.
    shown = [
        Shown(2.0, "", "Open the big window"),
        Shown(4.4, "Open the window. It is late.", ""),
    ]
    assert measure_latency(UTTERANCES, shown).first_s == pytest.approx((1.0, 0.4))


def test_measure_settling_counts_from_the_end_of_each_word() -> None:
    words = [TimedWord(" One,", 1.0), TimedWord(" two", 2.0), TimedWord(" three", 3.0)]
    shown = [
        Shown(1.5, "", "one two"),
        Shown(2.5, "One", "too"),
        Shown(4.0, "One two.", ""),
        Shown(5.0, "One two. Four", ""),
    ]
    assert measure_settling(words, shown) == [1.5, 2.0]
