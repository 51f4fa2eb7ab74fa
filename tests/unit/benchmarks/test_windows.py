"""The window benchmark: its tables follow from its result, and its figures from the counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import windows

from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word


def transcript(*words: tuple[str, float]) -> Transcript:
    heard = tuple(Word(start, start + 0.1, f" {text}", 0.9) for text, start in words)
    segment = Segment(0.0, 1.0, "", (), -0.1, 0.0, words=heard)
    settings = Settings("m", "e", "d", 10, 1, 0, 1.0, 0.0, "none", 1)
    return Transcript("a.wav", 1.0, "en", "transcribe", (segment,), Timings(), settings)


def test_starts_are_compared_where_the_word_was_heard_as_said() -> None:
    said = (("Good", 0.1), ("morning,", 0.4), ("Vienna!", 1.0))
    clip = windows.Clip(Path("x"), "en", "Good morning, Vienna!", said)
    heard = transcript(("good", 0.15), ("mourning", 0.4), ("so", 0.8), ("Vienna", 0.9))
    assert windows.start_errors(clip, heard) == pytest.approx([0.05, -0.1])
    assert windows.start_errors(clip, transcript()) == []


def test_the_difference_is_of_rates_in_words_not_of_clips() -> None:
    short = [[1, 0, 0, 9], [0, 0, 0, 30]]  # 1 error in 40 words
    full = [[1, 0, 0, 9], [1, 1, 1, 28]]  # 4 errors
    point, low, high = windows.difference(short, full)
    assert point == pytest.approx(-3 / 40)
    assert low <= point <= high
    assert windows.difference(full, full) == [0.0, 0.0, 0.0]


def test_the_committed_tables_are_what_the_result_says() -> None:
    result = json.loads(windows.RESULT.read_text(encoding="utf-8"))
    page = windows.PAGE.read_text(encoding="utf-8")
    assert windows.filled(page, result) == page, (
        "docs/benchmarks.md is stale: python -m benchmarks.windows table --write"
    )
    seen = {(row["case"], row["set"]) for row in result["rows"]}
    assert {(case.name, "long") for case in windows.CASES} <= seen


def test_every_clip_of_the_manifest_has_times_that_rise() -> None:
    for name in windows.SETS:
        for clip in windows.clips(name):
            starts = [start_s for _, start_s in clip.words]
            assert clip.path.is_file()
            assert starts == sorted(starts)
            assert starts
