"""From audio to turns, with people who whistle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.fakes.voices_of_tones import (
    TonePrints,
    ToneSegmentation,
    tone_diarizer,
    whistle,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.speakers.diarization import SpeakerDiarizer, label_pieces
from whisper_hailo.speakers.options import SpeakerCount
from whisper_hailo.speakers.turns import SpeakerTurns

_TALK = (
    (None, 1.0),
    (1, 4.0),
    (None, 0.6),
    (0, 3.0),
    (1, 5.0),
    (None, 2.0),
    (2, 4.0),
    (0, 6.0),
    (2, 3.0),
)


def _blocks(audio: FloatArray, size: int = 7001) -> Iterator[FloatArray]:
    for start in range(0, audio.size, size):
        yield audio[start : start + size]


def _diarize(audio: FloatArray, count: SpeakerCount | None = None) -> SpeakerTurns:
    with tone_diarizer() as diarizer:
        return diarizer.diarize(_blocks(audio), count)


def test_diarize_three_people_gives_their_turns_in_order() -> None:
    found = _diarize(whistle(_TALK))
    assert [turn.speaker for turn in found.turns] == [0, 1, 0, 2, 1, 2]
    starts_s = [1.0, 5.6, 8.6, 15.6, 19.6, 25.6]
    assert [turn.start_s for turn in found.turns] == pytest.approx(starts_s, abs=0.06)
    assert found.n_speakers == 3


def test_diarize_recording_of_minutes_keeps_speakers_apart() -> None:
    found = _diarize(whistle(_TALK * 4))
    assert found.n_speakers == 3
    assert [turn.speaker for turn in found.turns] == [0, 1, 0, 2, 1, 2] * 4


def test_diarize_block_sizes_do_not_change_turns() -> None:
    audio = whistle(_TALK)
    with tone_diarizer() as diarizer:
        assert (
            diarizer.diarize(_blocks(audio, 400)).turns
            == diarizer.diarize([audio]).turns
        )


def test_diarize_prints_each_moment_once() -> None:
    prints = TonePrints()
    with SpeakerDiarizer(ToneSegmentation(), prints) as diarizer:
        diarizer.diarize([whistle([(0, 30.0)])])
    assert prints.n_frames == pytest.approx(3000, rel=0.02)


def test_diarize_bounds_join_people() -> None:
    assert _diarize(whistle(_TALK), SpeakerCount(1, 2)).n_speakers == 2


@pytest.mark.parametrize("seconds", [0.0, 0.05, 3.0, 10.0, 12.5])
def test_diarize_silence_has_no_speakers(seconds: float) -> None:
    found = _diarize(np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32))
    assert found.turns == ()
    assert found.n_speakers == 0


def test_diarize_short_call_finds_its_speaker() -> None:
    found = _diarize(whistle([(None, 0.3), (0, 0.5), (None, 0.3)]))
    assert [turn.speaker for turn in found.turns] == [0]


def test_reference_print_is_that_of_the_person() -> None:
    with tone_diarizer() as diarizer:
        reference = diarizer.reference_print(whistle([(None, 0.5), (1, 2.0)]))
        found = diarizer.diarize([whistle(_TALK)])
    assert (found.prints @ reference).argmax() == 0


def test_reference_print_of_silence_is_zero() -> None:
    with tone_diarizer() as diarizer:
        assert not diarizer.reference_print(np.zeros(SAMPLE_RATE_HZ, np.float32)).any()


def test_label_pieces_short_piece_follows_its_voice() -> None:
    centroids = np.eye(2, 4, dtype=np.float32)
    prints = np.array([[1, 0, 0, 0], [0.6, 0.8, 0, 0]], np.float32)
    windows = np.zeros(2, np.int64)
    voices = np.zeros(2, np.int64)
    short = label_pieces(prints, np.array([2.0, 0.3]), windows, voices, centroids)
    long = label_pieces(prints, np.array([2.0, 1.9]), windows, voices, centroids)
    assert short.tolist() == [0, 0]
    assert long.tolist() == [0, 1]
