"""How long cues are shown."""

from __future__ import annotations

import pytest

from whisper_hailo.text.cue_times import GAP_S, time_cue


def test_time_cue_short_gap_is_closed() -> None:
    _, end_s = time_cue(0.0, 2.0, reading_s=1.0, next_start_s=2.4)
    assert end_s == pytest.approx(2.4 - GAP_S)
    _, end_s = time_cue(0.0, 2.0, reading_s=1.0, next_start_s=4.0)
    assert end_s == 2.0


def test_time_cue_fast_speech_appears_early() -> None:
    start_s, end_s = time_cue(
        2.0, 2.5, reading_s=1.5, previous_end_s=0.0, next_start_s=3.0
    )
    assert start_s == pytest.approx(1.7)
    assert end_s == pytest.approx(3.0 - GAP_S)


def test_time_cue_long_word_is_cut_at_7_s() -> None:
    assert time_cue(0.0, 30.0, reading_s=1.0) == (0.0, 7.0)
