"""Speech that a text leaves out: it becomes a segment of its own, or is reported."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.fakes.scripted_speech import Speller, completed, run, silence, speech, texts
from whisper_hailo.core.types import BufferText
from whisper_hailo.live.events import Event, Untranscribed
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations

FOREIGN = 100
"""Words from this number on are of another language."""


@dataclass
class OneLanguage(Speller):
    """Writes the words of one language, that of the first one of a buffer.

    Attributes:
        is_deaf: to the other language, also where that is alone.
    """

    is_deaf: bool = False
    content_s: float = 30.0

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        result = super().transcribe(buffer, language)
        numbers = [int(word.text.rpartition("w")[2]) for word in result.words]
        is_first_foreign = bool(numbers) and numbers[0] >= FOREIGN
        words = []
        for word, number in zip(result.words, numbers, strict=True):
            if (number >= FOREIGN) != is_first_foreign:
                break
            words.append(word)
        if is_first_foreign and self.is_deaf:
            words = []
        return replace(result, words=tuple(words))


def list_reports(events: list[Event]) -> list[Untranscribed]:
    return [event for event in events if isinstance(event, Untranscribed)]


def word_names(*numbers: int) -> list[str]:
    return [f"w{number}" for number in numbers]


OURS = range(8)
THEIRS = range(FOREIGN, FOREIGN + 30)


@pytest.mark.parametrize("n_theirs", [5, 8, 30])
def test_captioner_foreign_speech_becomes_its_own_segment(n_theirs: int) -> None:
    """A long one while it is said, a short one when the segment ends."""
    theirs = THEIRS[:n_theirs]
    audio = np.concatenate([silence(0.3), speech(OURS), speech(theirs), silence(1)])
    events, captioner = run(audio, OneLanguage())
    assert list(find_violations(events)) == []
    assert texts(events).split() == word_names(*OURS, *theirs)
    assert completed(events)[0].reason == "no_text"
    assert list_reports(events) == []
    assert captioner.statistics.untranscribed_s == 0.0


def test_captioner_two_language_changes_lose_no_word() -> None:
    again = range(50, 70)
    parts = [speech(numbers) for numbers in (OURS, THEIRS, again)]
    events, _ = run(np.concatenate([*parts, silence(1)]), OneLanguage())
    assert list(find_violations(events)) == []
    assert texts(events).split() == word_names(*OURS, *THEIRS, *again)


def test_captioner_speech_without_text_is_reported() -> None:
    theirs = speech(THEIRS)
    begin_s = 0.3 + speech(OURS).size / 16_000
    audio = np.concatenate([silence(0.3), speech(OURS), theirs, silence(1)])
    events, captioner = run(audio, OneLanguage(is_deaf=True))
    assert list(find_violations(events)) == []
    assert texts(events).split() == word_names(*OURS)
    missed = list_reports(events)
    assert missed[0].start_s == pytest.approx(begin_s, abs=0.5)
    missed_s = sum(event.end_s - event.start_s for event in missed)
    assert missed_s == pytest.approx(theirs.size / 16_000, abs=0.7)
    assert captioner.statistics.untranscribed_s == pytest.approx(missed_s)


def test_captioner_speech_taken_for_silence_is_reported() -> None:
    audio = np.concatenate([silence(0.3), speech(THEIRS[:5]), silence(1)])
    events, _ = run(audio, OneLanguage(is_deaf=True))
    (missed,) = list_reports(events)
    assert missed.segment_id == 0
    assert missed.reason == "no_speech"


def test_captioner_without_word_times_reports_nothing() -> None:
    audio = np.concatenate([silence(0.3), speech(OURS), speech(THEIRS[:5]), silence(1)])
    events, _ = run(audio, OneLanguage(timed=False))
    assert texts(events).split() == word_names(*OURS)
    assert list_reports(events) == []
