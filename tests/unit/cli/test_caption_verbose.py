"""One line for each event, with what was heard and computed since the one before."""

from __future__ import annotations

import sys

import pytest

from whisper_hailo.cli.caption_views import VerboseView
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import (
    Away,
    Back,
    CaptionWord,
    Cleared,
    Completed,
    Event,
    Lost,
    Marker,
    Partial,
    Settings,
    Started,
)
from whisper_hailo.live.statistics import CaptionStatistics

WORDS = (CaptionWord(" a"), CaptionWord(" b"))


def test_each_line_has_its_own_share_of_the_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    statistics = CaptionStatistics()
    view = VerboseView(statistics)
    view.put(Started(7, 1.5, 2.0, 2.0))
    statistics.n_heard_samples, statistics.compute_s, statistics.partial_passes = 8000, 0.02, 3
    view.put(Partial(7, 1.5, 2.0, WORDS, WORDS[:1], 0, 2.0, 2.0))
    statistics.n_heard_samples += SAMPLE_RATE_HZ
    statistics.compute_s += 0.05
    view.put(Completed(7, 1.5, 2.5, WORDS, "silence", 4, 3.0, 3.0))
    view.put(Lost(3.0, 4.25, 4.25, 4.0))
    statistics.partial_passes += 2
    view.put(Partial(8, 4.25, 5.0, (), WORDS, 0, 5.0, 5.0))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "segment 7 starts at 1.50 s",
        "segment 7: 0.50 s heard in 20 ms, decoder passes: 3; words that stay: 2, "
        "that may change: 1",
        "segment 7 ends at 2.50 s (silence): 1.00 s heard in 50 ms; words: 2, partials skipped: 4",
        "lost: 3.00 to 4.25 s",
        "segment 8: 0.00 s heard in 0 ms, decoder passes: 2; words that stay: 0, "
        "that may change: 2",
    ]


def test_on_a_terminal_the_running_line_is_erased_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    VerboseView(CaptionStatistics()).put(Started(0, 0.0, 0.0, 0.0))
    assert capsys.readouterr().err == "\r\x1b[Ksegment 0 starts at 0.00 s\n"


def test_what_happens_between_segments_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    statistics = CaptionStatistics(n_heard_samples=16_000, compute_s=1.0, partial_passes=5)
    view = VerboseView(statistics)
    events: list[Event] = [
        Away(1.5, "the cable is out", 9.0, 9.0),
        Back(1.5, 4.0, 9.0, 9.0),
        Marker(2.5, "two\nlines", 9.0, 9.0),
        Cleared(3.5, 9.0, 9.0),
        Settings(4.5, {"min_silence_s": 0.3, "language": "de"}, 9.0, 9.0),
    ]
    for event in events:
        view.put(event)
    statistics.compute_s += 0.5
    view.put(Completed(0, 0.0, 5.0, (), "end", 0, 9.0, 9.0))
    assert capsys.readouterr().err.splitlines() == [
        "away from 1.50 s: the cable is out",
        "back after 2.50 s",
        r"marker at 2.50 s: 'two\nlines'",
        "cleared at 3.50 s",
        "settings from 4.50 s on: min_silence_s 0.3, language de",
        "segment 0 ends at 5.00 s (end): 0.00 s heard in 500 ms; words: 0",
    ]


def test_partials_that_were_skipped_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    statistics = CaptionStatistics()
    VerboseView(statistics).put(Partial(0, 0.0, 1.0, (), WORDS, 3, 1.0, 1.0))
    told = capsys.readouterr().err
    assert told.endswith("words that stay: 0, that may change: 2, partials skipped: 3\n")
