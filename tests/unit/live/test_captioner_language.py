"""The language of a segment: found in enough speech, and anew in all of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.fakes.scripted_speech import Loudness, Speller, quick, silence, speech
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations


@dataclass
class Guessing(Speller):
    """Takes up to a second and a half of any speech for English."""

    language: str = "auto"
    asked: list[tuple[float, str | None]] = field(default_factory=list)
    before: list[str | None] = field(default_factory=list)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        seconds = buffer.audio.size / SAMPLE_RATE_HZ
        self.asked.append((seconds, language))
        self.before.append(buffer.previous_language)
        return super().transcribe(buffer, language or ("en" if seconds < 1.5 else "de"))


def run(audio: FloatArray, recognizer: Speller) -> list[Event]:
    captioner = Captioner(recognizer, Loudness(), quick())
    events: list[Event] = []
    for at in range(0, audio.size, 3200):
        events += captioner.feed(audio[at : at + 3200])
    return [*events, *captioner.finish()]


LONG, SHORT = speech(range(14)), speech([20, 21])
PAUSE = silence(0.5)


def test_language_is_decided_with_enough_speech_and_at_the_end() -> None:
    recognizer = Guessing()
    events = run(np.concatenate([LONG, PAUSE]), recognizer)
    assert list(find_violations(events)) == []
    (final,) = [event for event in events if isinstance(event, Completed)]
    assert final.language == "de"
    assert recognizer.asked[-1][1] is None, (
        "the whole segment is listened to without prejudice"
    )
    assert all(
        language is None for seconds, language in recognizer.asked if seconds < 2.0
    )
    later = [language for seconds, language in recognizer.asked[:-1] if seconds > 2.5]
    assert later
    assert set(later) == {"de"}


def test_no_word_stays_while_its_language_is_open() -> None:
    audio = np.concatenate([LONG, PAUSE])
    for recognizer, first_s in ((Guessing(), 2.0), (Speller(), 1.0)):
        partials = [
            event for event in run(audio, recognizer) if isinstance(event, Partial)
        ]
        settled = [event.end_s - event.start_s for event in partials if event.committed]
        assert first_s <= settled[0] < first_s + 0.9


def test_too_little_speech_is_in_language_of_segment_before() -> None:
    recognizer = Guessing()
    events = run(np.concatenate([SHORT, PAUSE, LONG, PAUSE, SHORT, PAUSE]), recognizer)
    finals = [event for event in events if isinstance(event, Completed)]
    assert [event.language for event in finals] == ["en", "de", "de"]
    partials = [
        event
        for event in events
        if isinstance(event, Partial) and event.segment_id == 2
    ]
    assert {event.language for event in partials} == {"de"}
    assert recognizer.before[0] is None
    assert recognizer.before[-1] == "de", "for where detection is unsure"


@dataclass
class Polyglot(Speller):
    """Hears any language that it is told, and puts whole segments into English."""

    def with_language(self, language: str) -> Polyglot:
        if language == "xx":
            raise OptionError("there is no such language")
        return replace(self, language=language)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        heard = super().transcribe(buffer, self.language)
        return replace(heard, translation=f"{heard.language}: {len(heard.words)}")


def test_segment_that_was_cut_keeps_its_language_to_its_end() -> None:
    """Another is asked for in the middle of it."""
    captioner = Captioner(Polyglot(language="de"), Loudness(), quick(max_segment_s=1.5))
    events = list(captioner.feed(speech(range(4))))
    captioner.set_language("en")
    events += captioner.feed(np.concatenate([speech(range(4, 7)), PAUSE, SHORT, PAUSE]))
    finals = [event for event in events if isinstance(event, Completed)]
    assert [event.reason for event in finals] == ["length", "silence", "silence"]
    assert [event.language for event in finals] == ["de", "de", "en"]
    assert sum(len(event.words) for event in finals[:2]) == 7
    assert finals[-1].translation == "en: 2"


def test_unknown_language_changes_nothing() -> None:
    captioner = Captioner(Polyglot(language="de"), Loudness(), quick())
    with pytest.raises(OptionError, match="no such language"):
        captioner.set_language("xx")
    assert captioner.settings == {"language": "de"}


def test_words_of_final_texts_have_their_times_in_the_stream() -> None:
    events = run(np.concatenate([silence(1.0), LONG, PAUSE]), Speller())
    (final,) = [event for event in events if isinstance(event, Completed)]
    (*_, partial) = [event for event in events if isinstance(event, Partial)]
    assert partial.committed
    assert len(final.words) == 14
    for index, word in enumerate(final.words):
        begin_s = 1.0 + index * 0.28
        assert word.start_s is not None
        assert word.end_s is not None
        np.testing.assert_allclose(
            [word.start_s, word.end_s], [begin_s, begin_s + 0.25], atol=1e-3
        )


def test_where_the_engine_knows_no_times_words_have_none() -> None:
    events = run(np.concatenate([LONG, PAUSE]), Speller(timed=False))
    (final,) = [event for event in events if isinstance(event, Completed)]
    assert {(word.start_s, word.end_s) for word in final.words} == {(None, None)}
