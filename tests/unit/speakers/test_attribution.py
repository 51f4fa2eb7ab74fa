"""Words and segments given to speakers."""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.core.types import Segment, Word
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.turns import SpeakerTurn, SpeakerTurns


def _turns(*turns: tuple[float, float, int]) -> SpeakerTurns:
    n_speakers = 1 + max(speaker for _, _, speaker in turns)
    prints = np.eye(n_speakers, 192, dtype=np.float32)
    return SpeakerTurns(tuple(SpeakerTurn(*turn) for turn in turns), prints)


def _segment(*words: tuple[str, float, float]) -> Segment:
    timed = tuple(
        Word(start_s, end_s, f" {text}", 0.9, (index,))
        for index, (text, start_s, end_s) in enumerate(words)
    )
    text = " ".join(text for text, _, _ in words)
    return Segment(words[0][1], words[-1][2], text, (100, 0, 1), -0.2, 0.1, words=timed)


def _parts(turns: SpeakerTurns, segment: Segment) -> list[tuple[str, object]]:
    return [
        (part.text, part.speaker)
        for part in SpeakerAttribution(turns).attribute(segment)
    ]


def test_attribute_cuts_segment_where_speaker_changes() -> None:
    segment = _segment(("one", 0, 1), ("two", 1, 2), ("three", 2.1, 3), ("four", 3, 4))
    first, second = SpeakerAttribution(_turns((0, 2, 0), (2, 4, 1))).attribute(segment)
    assert first.text == "one two"
    assert first.speaker == 0
    assert first.start_s == 0
    assert first.end_s == 2
    assert second.text == "three four"
    assert second.speaker == 1
    assert second.start_s == 2.1
    assert second.end_s == 4
    assert first.tokens == (0, 1)
    assert second.tokens == (2, 3)
    assert [word.speaker for word in second.words] == [1, 1]


def test_attribute_one_speaker_keeps_segment() -> None:
    segment = _segment(("one", 0, 1), ("two", 1, 2))
    (part,) = SpeakerAttribution(_turns((0, 3, 0))).attribute(segment)
    assert part.tokens == segment.tokens
    assert part.text == segment.text


def test_attribute_moves_change_to_sentence_end() -> None:
    turns = _turns((0, 1.8, 0), (1.8, 5, 1))
    segment = _segment(
        ("We", 0, 1), ("did.", 1, 1.75), ("Oh,", 1.75, 2), ("well", 2, 3)
    )
    assert _parts(turns, segment) == [("We did.", 0), ("Oh, well", 1)]
    early = _segment(
        ("We", 0, 1), ("went", 1, 1.7), ("out.", 1.82, 2.1), ("Oh,", 2.1, 3)
    )
    assert _parts(turns, early) == [("We went out.", 0), ("Oh,", 1)]


def test_attribute_moves_change_to_ends_of_the_segment() -> None:
    turns = _turns((0, 2.25, 0), (2.25, 5, 1))
    first_word = _segment(("And", 2, 2.3), ("I'm", 2.3, 3), ("here.", 3, 4))
    assert _parts(turns, first_word) == [("And I'm here.", 1)]
    last_word = _segment(("From", 0, 1), ("Chicago", 1, 2.2), ("also.", 2.3, 2.6))
    assert _parts(turns, last_word) == [("From Chicago also.", 0)]


def test_attribute_turn_inside_a_sentence_splits_a_segment() -> None:
    attribution = SpeakerAttribution(_turns((0, 2.25, 0), (2.25, 5, 1)))
    attribution.attribute(_segment(("they", 0, 1), ("call", 1, 2)))
    parts = attribution.attribute(
        _segment(("me", 2, 2.2), ("well", 2.3, 3), ("so.", 3, 4))
    )
    assert [(part.text, part.speaker) for part in parts] == [("me", 0), ("well so.", 1)]


def test_attribute_far_sentence_end_changes_nothing() -> None:
    segment = _segment(
        ("We", 0, 1), ("go", 1, 2), ("out", 2, 3), ("now.", 3, 4), ("Oh", 4, 5)
    )
    assert _parts(_turns((0, 2, 0), (2, 5, 1)), segment) == [
        ("We go", 0),
        ("out now. Oh", 1),
    ]


@pytest.mark.parametrize(("start_s", "speaker"), [(2.2, 0), (3.7, 1), (20.0, 0)])
def test_attribute_word_outside_turns_goes_to_nearest(
    start_s: float, speaker: int
) -> None:
    attribution = SpeakerAttribution(_turns((0, 2, 0), (4, 5, 1)))
    attribution.attribute(_segment(("first", 0, 1)))
    (part,) = attribution.attribute(_segment(("word", start_s, start_s + 0.1)))
    assert part.speaker == speaker


def test_attribute_overlap_stays_with_speaker_before() -> None:
    turns = _turns((0, 3, 0), (2, 5, 1))
    segment = _segment(("one", 0, 1), ("two", 2.2, 2.8), ("three", 3.2, 4))
    assert _parts(turns, segment) == [("one two", 0), ("three", 1)]


def test_attribute_word_without_length_stays_with_speaker_before() -> None:
    turns = _turns((0, 5, 0), (2, 5, 1), (6, 7, 1))
    segment = _segment(("one", 6, 7), ("two", 3, 3))
    assert _parts(turns, segment) == [("one two", 1)]


def test_attribute_segment_without_words_has_one_speaker() -> None:
    segment = Segment(0, 4, "all of it", (1,), -0.2, 0.1)
    assert _parts(_turns((0, 1, 0), (1, 4, 1)), segment) == [("all of it", 1)]


def test_attribute_names_speakers_in_order() -> None:
    attribution = SpeakerAttribution(
        _turns((0, 1, 0), (1, 2, 1), (2, 3, 2)), ("Anna", "")
    )
    segment = _segment(("a", 0, 1), ("b", 1, 2), ("c", 2, 3))
    assert [part.speaker for part in attribution.attribute(segment)] == ["Anna", 1, 2]


def test_attribute_without_turns_changes_nothing() -> None:
    nobody = SpeakerTurns((), np.empty((0, 192), np.float32))
    segment = _segment(("a", 0, 1))
    assert SpeakerAttribution(nobody).attribute(segment) == [segment]
