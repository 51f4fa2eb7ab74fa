"""Speakers and samples of known people."""

from __future__ import annotations

import numpy as np

from whisper_hailo.speakers.known_speakers import match_known_speakers

_EYE = np.eye(4, 6, dtype=np.float32)


def test_match_known_speakers_finds_the_same_person() -> None:
    assert match_known_speakers(_EYE[:3], _EYE[[2, 0]]) == [1, None, 0]


def test_match_known_speakers_gives_a_sample_to_one_speaker() -> None:
    alike = np.array([[0.8, 0.6, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], np.float32)
    assert match_known_speakers(alike, _EYE[:1]) == [None, 0]


def test_match_known_speakers_ignores_silent_samples() -> None:
    silent = np.zeros((1, 6), np.float32)
    assert match_known_speakers(_EYE[:2], silent) == [None, None]


def test_match_known_speakers_without_samples_or_speakers() -> None:
    nobody = np.empty((0, 6), np.float32)
    assert match_known_speakers(_EYE[:2], nobody) == [None, None]
    assert match_known_speakers(nobody, _EYE[:2]) == []
