"""The language of a segment: detected in enough of its speech, and again in all of it."""

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
class GuessingSpeller(Speller):
    """Takes less than a second and a half of any speech for English."""

    language: str = "auto"
    calls: list[tuple[float, str | None]] = field(default_factory=list)
    previous_languages: list[str | None] = field(default_factory=list)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        seconds = buffer.audio.size / SAMPLE_RATE_HZ
        self.calls.append((seconds, language))
        self.previous_languages.append(buffer.previous_language)
        return super().transcribe(buffer, language or ("en" if seconds < 1.5 else "de"))


def run(audio: FloatArray, recognizer: Speller) -> list[Event]:
    captioner = Captioner(recognizer, Loudness(), quick())
    events: list[Event] = []
    for at in range(0, audio.size, 3200):
        events += captioner.feed(audio[at : at + 3200])
    return [*events, *captioner.finish()]


LONG = speech(range(14))
SHORT = speech([20, 21])
PAUSE = silence(0.5)


def test_captioner_detects_language_in_2_s_and_at_the_end() -> None:
    recognizer = GuessingSpeller()
    events = run(np.concatenate([LONG, PAUSE]), recognizer)
    assert list(find_violations(events)) == []
    (final,) = [event for event in events if isinstance(event, Completed)]
    assert final.language == "de"
    assert recognizer.calls[-1][1] is None, "detection sees the whole segment"
    assert all(
        language is None for seconds, language in recognizer.calls if seconds < 2.0
    )
    later = [language for seconds, language in recognizer.calls[:-1] if seconds > 2.5]
    assert later
    assert set(later) == {"de"}


def test_captioner_commits_no_word_before_its_language() -> None:
    audio = np.concatenate([LONG, PAUSE])
    for recognizer, first_s in ((GuessingSpeller(), 2.0), (Speller(), 1.0)):
        partials = [
            event for event in run(audio, recognizer) if isinstance(event, Partial)
        ]
        settled = [event.end_s - event.start_s for event in partials if event.committed]
        assert first_s <= settled[0] < first_s + 0.9


def test_captioner_short_segment_takes_previous_language() -> None:
    recognizer = GuessingSpeller()
    events = run(np.concatenate([SHORT, PAUSE, LONG, PAUSE, SHORT, PAUSE]), recognizer)
    finals = [event for event in events if isinstance(event, Completed)]
    assert [event.language for event in finals] == ["en", "de", "de"]
    partials = [
        event
        for event in events
        if isinstance(event, Partial) and event.segment_id == 2
    ]
    assert {event.language for event in partials} == {"de"}
    assert recognizer.previous_languages[0] is None
    assert recognizer.previous_languages[-1] == "de"


@dataclass
class Polyglot(Speller):
    """Transcribes in any given language, and translates whole segments."""

    def with_language(self, language: str) -> Polyglot:
        if language == "xx":
            raise OptionError("unknown language xx")
        return replace(self, language=language)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        result = super().transcribe(buffer, self.language)
        return replace(result, translation=f"{result.language}: {len(result.words)}")


def test_captioner_cut_segment_keeps_its_language() -> None:
    """Another language is set within the segment."""
    captioner = Captioner(Polyglot(language="de"), Loudness(), quick(max_segment_s=1.5))
    events = list(captioner.feed(speech(range(4))))
    captioner.set_language("en")
    events += captioner.feed(np.concatenate([speech(range(4, 7)), PAUSE, SHORT, PAUSE]))
    finals = [event for event in events if isinstance(event, Completed)]
    assert [event.reason for event in finals] == ["length", "silence", "silence"]
    assert [event.language for event in finals] == ["de", "de", "en"]
    assert sum(len(event.words) for event in finals[:2]) == 7
    assert finals[-1].translation == "en: 2"


def test_captioner_unknown_language_raises_unchanged() -> None:
    captioner = Captioner(Polyglot(language="de"), Loudness(), quick())
    with pytest.raises(OptionError):
        captioner.set_language("xx")
    assert captioner.settings == {"language": "de"}


def test_captioner_final_words_have_stream_times() -> None:
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


def test_captioner_words_of_untimed_recognizer_are_untimed() -> None:
    events = run(np.concatenate([LONG, PAUSE]), Speller(timed=False))
    (final,) = [event for event in events if isinstance(event, Completed)]
    assert {(word.start_s, word.end_s) for word in final.words} == {(None, None)}
