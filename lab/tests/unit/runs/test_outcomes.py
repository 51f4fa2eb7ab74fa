from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.runs.outcomes import (
    OutcomeTotals,
    count_repetitions,
    is_loop,
    score_transcript,
    split_units,
    sum_outcomes,
)
from whisper_hailo_lab.runs.transcripts import (
    TranscriptLine,
    common_transcripts,
    parse_line,
    read_transcripts,
)


def make_line(reference: str, text: str, **changed: Any) -> TranscriptLine:
    values: dict[str, Any] = {
        "set": "s",
        "id": "a",
        "language": "en",
        "seconds": 2.0,
        "reference": reference,
        "text": text,
        "language_found": "en",
        "segments": ((0.0, 1.0, text),),
        "seconds_cpu": 0.5,
        "system": "x",
        "model": "base",
    }
    return TranscriptLine(**(values | changed))


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("", 0),
        ("a", 1),
        ("a b c", 1),
        ("a a a", 3),
        ("x a b a b a b y", 3),
        ("a b c d a b c d", 2),
        ("a b a a b a b", 2),
    ],
)
def test_count_repetitions_counts_phrases_in_a_row(text: str, times: int) -> None:
    assert count_repetitions(text.split()) == times


@pytest.mark.parametrize(
    ("expected", "recognized", "loop"),
    [
        ("no no", "no no no", False),
        ("no", "no no no no", True),
        ("no no no", "no no no no", False),
        ("", "a b a b a b a b", True),
        ("", "a b a b a b a", False),
    ],
)
def test_is_loop_needs_more_than_the_reference(
    expected: str, recognized: str, loop: bool
) -> None:
    assert is_loop(expected.split(), recognized.split()) is loop


def test_score_transcript_compressible_text_is_a_loop() -> None:
    phrases = " ".join(f"one thing after another {n} and" for n in range(3))
    assert not score_transcript(make_line("x", phrases)).is_loop
    long = (
        "this is a very long phrase of many different words which then starts again, "
        * 6
    )
    assert score_transcript(make_line("x", long)).is_loop
    assert not score_transcript(make_line(long, long)).is_loop


def test_split_units_of_chinese_and_korean_ignores_blanks() -> None:
    assert split_units("你好 世界。", "zh") == list("你好世界")
    assert split_units("안녕 하세요", "ko") == split_units("안녕하세요", "ko")
    assert len(split_units("안녕 하세요", "ko")) > 4
    assert split_units("Guten Tag!", "de") == ["guten", "tag"]


def test_sum_outcomes_separates_speech_and_no_speech() -> None:
    lines = [
        make_line("red blue green white", "red blue grin"),
        make_line("ja", "ja und nein", language="de", language_found="nl"),
        make_line("", "Thank you.", language="none"),
        make_line("", " ", language="none"),
    ]
    totals = sum_outcomes(lines)
    assert totals.score == Score(substitutions=1, deletions=1, insertions=2, hits=3)
    assert totals.recordings == 2
    assert totals.language_right == 1
    assert totals.no_speech == 2
    assert totals.no_speech_with_text == 1
    assert totals.invented == 2
    assert totals.as_json()["seconds_cpu"] == 2.0
    assert totals + OutcomeTotals() == totals


def test_sum_outcomes_failed_recording_counts_as_deleted() -> None:
    totals = sum_outcomes([make_line("red blue", "", error="no memory")])
    assert totals.failed == 1
    assert totals.deletions == 2


def test_read_transcripts_reads_written_lines(tmp_path: Path) -> None:
    line = make_line("é", "è", options={"window": "10"})
    assert parse_line(line.as_json()) == line
    path = tmp_path / "x.jsonl"
    first = make_line("é", "e").as_json()
    path.write_text(f"{first}\n{line.as_json()}\n{first[:20]}", encoding="utf-8")
    assert read_transcripts(path) == [line]
    path.write_text('{"id": "a"}\n', encoding="utf-8")
    with pytest.raises(OptionError, match="transcripts"):
        read_transcripts(path)
    with pytest.raises(OptionError, match=r"missing\.jsonl"):
        read_transcripts(tmp_path / "missing.jsonl")


def test_parse_line_ignores_unknown_fields() -> None:
    text = make_line("a", "b").as_json()[:-1] + ', "copied": true}'
    assert parse_line(text) == make_line("a", "b")


def test_common_transcripts_keeps_shared_recordings_in_order() -> None:
    a, b, c = (make_line("x", "y", id=name) for name in "abc")
    assert common_transcripts([[a, b, c], [c, a]]) == [[a, c], [a, c]]
    assert common_transcripts([]) == []
