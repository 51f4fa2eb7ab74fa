"""One line for each event, with what was heard and computed since the one before."""

from __future__ import annotations

import sys

import pytest

from whisper_hailo.cli.captions.verbose import VerboseView
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import CaptionWord, Completed, Lost, Partial, Started
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
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "segment 7 starts at 1.50 s",
        "segment 7: 0.50 s heard in 20 ms, decoder passes: 3; words that stay: 2, "
        "that may change: 1",
        "segment 7 ends at 2.50 s (silence): 1.00 s heard in 50 ms; words: 2, partials skipped: 4",
        "lost: 3.00 to 4.25 s",
    ]


def test_on_a_terminal_the_running_line_is_erased_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    VerboseView(CaptionStatistics()).put(Started(0, 0.0, 0.0, 0.0))
    assert capsys.readouterr().err == "\r\x1b[Ksegment 0 starts at 0.00 s\n"
