"""One line for each event, with what was heard and computed since the one before."""

from __future__ import annotations

import sys

import pytest

from whisper_hailo.cli.caption_views import VerboseView
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import CaptionWord, Completed, Lost, Marker, Partial, Started
from whisper_hailo.live.statistics import CaptionStatistics

WORDS = (CaptionWord(" a"), CaptionWord(" b"))


def test_each_line_has_its_own_share_of_the_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    statistics = CaptionStatistics()
    view = VerboseView(statistics)
    view.put(Started(segment_id=7, start_s=1.5, heard_s=2.0, at_s=2.0))
    statistics.n_heard_samples, statistics.compute_s, statistics.partial_passes = 8000, 0.02, 3
    view.put(
        Partial(
            segment_id=7,
            start_s=1.5,
            end_s=2.0,
            committed=WORDS,
            tentative=WORDS[:1],
            heard_s=2.0,
            at_s=2.0,
        )
    )
    statistics.n_heard_samples += SAMPLE_RATE_HZ
    statistics.compute_s += 0.05
    view.put(
        Completed(
            segment_id=7,
            start_s=1.5,
            end_s=2.5,
            words=WORDS,
            reason="silence",
            heard_s=3.0,
            at_s=3.0,
        )
    )
    view.put(Lost(start_s=3.0, end_s=4.25, heard_s=4.25, at_s=4.0))
    captured = capsys.readouterr()
    assert captured.out == ""
    nothing = "0.00 s heard in 0 ms, 0 passes"
    assert captured.err.splitlines() == [
        f"event started, start_s 1.5, segment_id 7; {nothing}",
        "event partial, start_s 1.5, segment_id 7, end_s 2.0, language , "
        "text a b a, committed_text a b; 0.50 s heard in 20 ms, 3 passes",
        "event completed, start_s 1.5, segment_id 7, end_s 2.5, reason silence, "
        "language , text a b; 1.00 s heard in 50 ms, 0 passes",
        f"event lost, start_s 3.0, end_s 4.25; {nothing}",
    ]


def test_on_a_terminal_the_running_line_is_erased_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    VerboseView(CaptionStatistics()).put(Started(segment_id=0, start_s=0.0, heard_s=0.0, at_s=0.0))
    assert capsys.readouterr().err.startswith("\r\x1b[Kevent started")


def test_labels_of_users_stay_on_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    VerboseView(CaptionStatistics()).put(
        Marker(start_s=2.5, label="two\nlines\x1b[31m", heard_s=9.0, at_s=9.0)
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert r"label two lines\x1b[31m" in line
