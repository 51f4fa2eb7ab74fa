"""Diarisation error rates of turns that can be counted by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from whisper_hailo_lab.speakers.conversations import Turn, read_rttm, write_rttm
from whisper_hailo_lab.speakers.score import (
    DiarizationErrors,
    map_speakers,
    score_turns,
    speaker_mapping,
)

REFERENCE = [Turn(0, 10, "anna"), Turn(10, 20, "ben"), Turn(18, 22, "anna")]


def test_score_turns_same_turns_by_other_names_have_no_error() -> None:
    hypothesis = [
        Turn(turn.start_s, turn.end_s, turn.speaker[::-1]) for turn in REFERENCE
    ]
    errors = score_turns(REFERENCE, hypothesis)
    assert errors == DiarizationErrors(speech_s=24.0)
    assert errors.rate == 0


@pytest.mark.parametrize(
    ("hypothesis", "errors"),
    [
        ([], DiarizationErrors(missed_s=24, speech_s=24)),
        ([Turn(0, 22, "0")], DiarizationErrors(missed_s=2, confused_s=8, speech_s=24)),
        (
            [Turn(0, 12, "0"), Turn(12, 20, "1"), Turn(18, 25, "0")],
            DiarizationErrors(false_alarm_s=3, confused_s=2, speech_s=24),
        ),
        (
            [Turn(0, 5, "0"), Turn(5, 10, "2"), Turn(10, 20, "1"), Turn(18, 22, "0")],
            DiarizationErrors(confused_s=5, speech_s=24),
        ),
    ],
)
def test_score_turns_counts_each_kind_of_error(
    hypothesis: list[Turn], errors: DiarizationErrors
) -> None:
    assert score_turns(REFERENCE, hypothesis) == errors


def test_score_turns_collar_forgives_boundaries() -> None:
    late = [
        Turn(turn.start_s + 0.2, turn.end_s + 0.2, turn.speaker) for turn in REFERENCE
    ]
    assert score_turns(REFERENCE, late).rate > 0
    assert score_turns(REFERENCE, late, 0.25).rate == 0


def test_score_turns_speech_in_silence_is_all_wrong() -> None:
    assert score_turns([], [Turn(0, 1, "0")]).rate == 1
    assert score_turns([], []).rate == 0


def test_map_speakers_finds_the_largest_sum() -> None:
    # The largest number first would give 9 + 1.
    assert sorted(map_speakers(np.array([[9.0, 8.0], [7.0, 1.0]]))) == [(0, 1), (1, 0)]
    assert sorted(map_speakers(np.array([[1.0, 5.0, 2.0]]))) == [(0, 1)]


def test_map_speakers_agrees_with_all_permutations() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        shared = rng.integers(0, 50, size=(4, 4)).astype(np.float64)
        best = max(
            sum(shared[row, order[row]] for row in range(4))
            for order in permutations(range(4))
        )
        assert sum(shared[row, column] for row, column in map_speakers(shared)) == best


def test_speaker_mapping_leaves_out_speakers_too_many() -> None:
    hypothesis = [
        Turn(0, 10, "x"),
        Turn(10, 16, "y"),
        Turn(16, 20, "z"),
        Turn(18, 22, "x"),
    ]
    mapping = speaker_mapping(REFERENCE, hypothesis)
    assert mapping["x"] == "anna"
    assert mapping["y"] == "ben"


def test_read_rttm_reads_what_write_rttm_writes() -> None:
    assert read_rttm(write_rttm("talk", REFERENCE)) == {"talk": REFERENCE}
