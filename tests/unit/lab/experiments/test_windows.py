"""The window benchmark: its tables follow from its result, and word starts from what was said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word
from whisper_hailo_lab.data.clips import SpokenClip, spoken_clips
from whisper_hailo_lab.documents.windows import CASES, RESULT, SETS, tables
from whisper_hailo_lab.experiments.windows import start_errors


def transcript(*words: tuple[str, float]) -> Transcript:
    heard = tuple(Word(start, start + 0.1, f" {text}", 0.9) for text, start in words)
    segment = Segment(0.0, 1.0, "", (), -0.1, 0.0, words=heard)
    settings = Settings("m", "e", "d", 10, 1, 0, 1.0, 0.0, "none", 1)
    return Transcript("a.wav", 1.0, "en", "transcribe", (segment,), Timings(), settings)


def test_starts_are_compared_where_the_word_was_heard_as_said() -> None:
    said = (("Good", 0.1, 0.4), ("morning,", 0.4, 0.9), ("Vienna!", 1.0, 1.5))
    clip = SpokenClip("x", Path("x"), "en", "Good morning, Vienna!", said)
    heard = transcript(("good", 0.15), ("mourning", 0.4), ("so", 0.8), ("Vienna", 0.9))
    assert start_errors(clip, heard) == pytest.approx([0.05, -0.1])
    assert start_errors(clip, transcript()) == []


def test_the_table_gives_rates_of_words_not_of_clips() -> None:
    counts = {"10 s": [[1, 0, 0, 9], [0, 0, 0, 30]], "30 s": [[1, 0, 0, 9], [1, 1, 1, 28]]}
    rows = [
        {"case": case, "set": "seen", "counts": found, "start_errors_s": [0.05, -0.15, 0.3]}
        for case, found in counts.items()
    ]
    text = tables({"machine": "m", "limit": 2, "rows": rows}, "")["windows"]
    assert "| seen | 2 | 40 | 2.5 % | 10.0 % | - | -7.5 (" in text
    assert "| seen | 10 s | 3 | 0.15 | +0.07 | 33 % | 67 % |" in text


def test_the_kept_result_has_long_audio_in_every_case() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    seen = {(row["case"], row["set"]) for row in result["rows"]}
    assert {(case.name, "long") for case in CASES} <= seen


def test_every_clip_of_the_manifest_has_times_that_rise() -> None:
    for name in SETS:
        for clip in spoken_clips(name):
            starts = [start_s for _, start_s, _ in clip.words]
            assert clip.path.is_file()
            assert starts == sorted(starts)
            assert starts
