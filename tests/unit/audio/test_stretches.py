"""Stretches of speech out of probabilities that are written down."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from whisper_hailo.audio.vad import Speech, _one_thread, frames_to_seconds, speech_stretches

S, Q, N = 0.9, 0.4, 0.1
"""Speech; too quiet to begin, not too quiet to go on at a threshold of 0.5; none."""


def found(*frames: float, silence: int = 3, longest: int = 99) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in speech_stretches(frames, 0.5, silence, longest)]


def test_speech_begins_at_the_threshold() -> None:
    assert found(0.49, 0.5, S, S, N, N, N) == [(1, 4)]


def test_speech_goes_on_until_it_falls_well_below_the_threshold() -> None:
    """By Silero's 0.15: what is at 0.35 still belongs to it, what is at 0.34 does not."""
    assert found(S, S, Q, Q, Q, Q, S, N, N, N) == [(0, 7)]
    assert found(S, S, S, 0.36, 0.34, N, N) == [(0, 4)]
    assert found(S, S, S, 0.5 - 0.15, 0.34, N, N) == [(0, 4)]
    assert found(Q, Q, Q, Q) == []  # but does not begin


def test_a_pause_that_is_too_short_belongs_to_the_speech() -> None:
    assert found(S, S, S, N, N, S, S, S, N, N, N) == [(0, 8)]
    assert found(S, S, S, N, N, N, S, S, S, N, N, N) == [(0, 3), (6, 9)]
    assert found(S, S, S, N, S, S, S, silence=1) == [(0, 3), (4, 7)]
    assert found(S, S, S, N, S, S, S, silence=0) == [(0, 3), (4, 7)]


def test_clicks_are_left_out() -> None:
    """Two frames are 64 ms, three 96."""
    assert found(N, S, S, N, N, N, S, S, S, N, N, N) == [(6, 9)]
    assert found(N, S, S) == []


def test_what_is_still_said_at_the_end_counts() -> None:
    assert found(N, S, S, S) == [(1, 4)]
    assert found(N, S, S, S, N, N) == [(1, 4)]
    assert found(S, S, S) == [(0, 3)], "from beginning to end"


def test_long_speech_is_cut_where_it_is_least_likely_in_its_second_half() -> None:
    frames = [S, 0.6, S, S, S, 0.7, S, S, S, S, S, N, N, N]
    cut = list(speech_stretches(frames, 0.5, 3, 8))
    assert cut == [Speech(0, 6, continues=True), Speech(6, 11)]


def test_nothing_of_its_first_half_is_cut_off_long_speech() -> None:
    frames = [S, S, S, 0.4, S, S, 0.7, S, S, N, N, N]
    assert found(*frames, longest=8) == [(0, 7), (7, 9)]
    odd = [S, S, S, 0.4, 0.6, S, S, S, N, N, N]  # of seven frames the second half has four
    assert found(*odd, longest=7) == [(0, 4), (4, 8)]


def test_the_length_is_counted_anew_from_each_cut() -> None:
    """Cut behind frame 5, then, eight frames on, behind frame 11, its quietest."""
    frames = [S, S, S, S, S, 0.7, S, S, S, S, S, 0.6, S, S, S, S, N, N, N]
    assert found(*frames, longest=8) == [(0, 6), (6, 12), (12, 16)]


def test_what_is_left_behind_a_cut_is_kept_however_short() -> None:
    frames = [S, S, S, S, S, S, 0.6, S, N, N, N]
    assert found(*frames, longest=8) == [(0, 7), (7, 8)]


@pytest.mark.parametrize(("frames", "expected_s"), [(0, 0.0), (1, 0.032), (125, 4.0)])
def test_a_frame_is_32_ms(frames: int, expected_s: float) -> None:
    assert frames_to_seconds(frames) == pytest.approx(expected_s)


@pytest.mark.parametrize("before", [None, "3"])
def test_libraries_loaded_meanwhile_compute_in_one_thread(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """And those loaded later as they would have."""
    monkeypatch.delenv("OMP_THREAD_LIMIT", raising=False)
    if before is not None:
        monkeypatch.setenv("OMP_THREAD_LIMIT", before)
    with suppress(ImportError), _one_thread():
        assert os.environ["OMP_THREAD_LIMIT"] == "1"
        raise ImportError("where the library is missing")
    assert os.environ.get("OMP_THREAD_LIMIT") == before


def test_a_pause_counts_from_the_last_frame_that_belongs_to_the_speech() -> None:
    """Quiet frames that go on with the speech begin the count anew."""
    assert found(S, S, S, N, N, Q, N, N, N, S) == [(0, 6)]
    assert found(N, N, S, S, S, Q, N, N, N) == [(2, 6)]


def test_each_stretch_is_counted_by_itself() -> None:
    """A click behind speech is a click, and what is cut is cut by its own length."""
    assert found(S, S, S, N, N, N, S, S, N, N, N) == [(0, 3)]
    frames = [S, S, S, S, S, N, N, N, S, S, 0.6, S, S, N, N, N]
    assert found(*frames, longest=8) == [(0, 5), (8, 13)]
    cut = [S] * 5 + [0.6, S, S, N, N, N, S, S, N, N, N]
    assert found(*cut, longest=8) == [(0, 6), (6, 8)], "behind a cut stretch, too"


def test_silence_behind_a_cut_is_no_stretch() -> None:
    """The eighth frame is the quietest, so that the cut is behind it; nobody speaks there."""
    frames = [S, S, S, S, S, S, S, 0.4, N, N, N, N]
    assert found(*frames, longest=8) == [(0, 8)]
