"""Turns of speakers, as diarisation returns them."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.speakers.turns import SpeakerTurn, SpeakerTurns

PRINTS = np.eye(2, 192, dtype=np.float32)


def test_turns_count_speakers_by_their_prints() -> None:
    """A speaker whose turns are all another's, as far as overlaps say, keeps a number."""
    turns = SpeakerTurns((SpeakerTurn(0.0, 1.0, 0),), PRINTS)
    assert turns.n_speakers == 2
    assert SpeakerTurns((), PRINTS[:0]).n_speakers == 0


def test_turns_are_compared_without_their_prints() -> None:
    """Arrays have no single truth value: comparing them by value would raise."""
    first = SpeakerTurns((SpeakerTurn(0.0, 1.0, 0),), PRINTS)
    second = SpeakerTurns((SpeakerTurn(0.0, 1.0, 0),), PRINTS.copy())
    assert first != second
    assert first.turns == second.turns
    assert hash(first)


def test_turn_cannot_be_changed() -> None:
    turn = SpeakerTurn(0.0, 1.0, 0)
    with pytest.raises(AttributeError):
        turn.speaker = 1  # type: ignore[misc]
