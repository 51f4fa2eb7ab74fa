"""Languages and drafts of the buffers of a segment, and the context of its final text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_speech import (
    Failing,
    Loudness,
    Speller,
    quick,
    silence,
    speech,
)
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.commit_policy import RunningText
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.listener import FinishedSegment, RunningSegment, SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.transcription.partials import PartialBuffer


@dataclass
class Guesser:
    """Detects the languages of a script, one a call without a given language."""

    script: list[str]
    languages: list[str | None] = field(default_factory=list)
    name: str = "guesser"
    language: str = "auto"
    content_s: float = 9.0

    def with_language(self, language: str) -> Guesser:
        return replace(self, language=language)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        self.languages.append(language)
        return BufferText((), language or self.script.pop(0))


def audio(seconds: float) -> FloatArray:
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)


def make_listener(recognizer: Guesser) -> tuple[SegmentListener, CaptionStatistics]:
    statistics = CaptionStatistics()
    return SegmentListener(recognizer, CaptionOptions(), statistics), statistics


def make_running_segment() -> RunningSegment:
    return RunningSegment(0, RunningText(1.0), 0)


def test_listener_less_than_2_s_sets_no_language() -> None:
    recognizer = Guesser(["nn", "cy", "de"])
    listener, _ = make_listener(recognizer)
    running = make_running_segment()
    for seconds in (0.2, 1.9, 2.0, 4.0):
        listener.transcribe_partial(running, audio(seconds))
    assert recognizer.languages == [None, None, None, "de"]


def test_listener_short_segment_takes_previous_language() -> None:
    recognizer = Guesser(["de", "en"])
    listener, _ = make_listener(recognizer)
    listener.transcribe_all(make_running_segment(), audio(3.0))
    short = make_running_segment()
    long = make_running_segment()
    listener.transcribe_all(short, audio(1.0))
    listener.transcribe_partial(long, audio(0.5))
    listener.transcribe_all(long, audio(3.0))
    assert recognizer.languages == [None, "de", "de", None]
    assert short.language == "de"
    assert long.language == "en"


def test_listener_language_of_short_segment_is_not_kept() -> None:
    recognizer = Guesser(["nn", "cy", "de"])
    listener, _ = make_listener(recognizer)
    for seconds in (1.0, 1.9, 2.0, 1.0):
        listener.transcribe_all(make_running_segment(), audio(seconds))
    assert recognizer.languages == [None, None, None, "de"]


def test_listener_set_language_drops_the_detected_one() -> None:
    """A short segment is transcribed in the set language, not in that of the segment before."""
    recognizer = Guesser(["de", "en"])
    listener, _ = make_listener(recognizer)
    listener.transcribe_all(make_running_segment(), audio(3.0))
    listener.next_recognizer = listener.next_recognizer.with_language("en")
    listener.begin_segment()
    listener.transcribe_all(make_running_segment(), audio(1.0))
    assert recognizer.languages == [None, None]


@pytest.mark.parametrize(
    ("drafts", "drafts_given"),
    [
        (True, [Draft(), Draft((1, 2, 3)), Draft((1, 2, 3), 2)]),
        (False, [Draft(), Draft(), Draft((1, 2), 2)]),
    ],
)
def test_listener_without_drafts_gives_settled_tokens(
    drafts: bool, drafts_given: list[Draft]
) -> None:
    """The last of three words may still change when two are settled."""
    words = tuple(BufferWord(f" w{index}", (index,)) for index in (1, 2, 3))
    recognizer = DraftRecorder()
    recognizer.says = BufferText(words)
    listener = SegmentListener(
        recognizer, CaptionOptions(drafts=drafts), CaptionStatistics()
    )
    running = make_running_segment()
    for seconds in (1.0, 2.0, 3.0):
        result = listener.transcribe_partial(running, audio(seconds))
        running.text.update(result, seconds)
    assert recognizer.drafts == drafts_given


@dataclass
class DraftRecorder(Speller):
    """Records the drafts of its buffers."""

    drafts: list[Draft] = field(default_factory=list)
    says: BufferText | None = None

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        self.drafts.append(buffer.draft)
        return self.says or super().transcribe(buffer, language)


def test_captioner_draft_after_cut_begins_with_the_rest() -> None:
    recognizer = DraftRecorder()
    captioner = Captioner(recognizer, Loudness(), CaptionOptions(max_segment_s=1.5))
    events = list(captioner.feed(speech(range(8))))  # is cut, and one partial follows
    (first,) = [event for event in events if isinstance(event, Completed)]
    carried = [token // 2 - 1 for token in recognizer.drafts[-1].tokens]
    assert carried
    assert carried[0] == len(first.words)


def test_listener_adds_up_compute_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([100.0, 100.5, 200.0, 202.0, 300.0, 304.0])
    monkeypatch.setattr("whisper_hailo.live.listener.perf_counter", lambda: next(times))
    listener, statistics = make_listener(Guesser(["de", "de"]))
    for seconds in (0.5, 1.0):
        listener.transcribe_partial(make_running_segment(), audio(seconds))
    assert statistics.compute_s == 2.5
    assert statistics.n_calls == 2
    failing = SegmentListener(Failing(1), CaptionOptions(), statistics)
    with pytest.raises(DeviceError):
        failing.transcribe_partial(make_running_segment(), audio(1.0))
    assert (statistics.compute_s, statistics.n_calls) == (6.5, 2), (
        "a failing call takes time, too"
    )


def test_captioner_losses_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    captioner = Captioner(Speller(), Loudness())
    for n_samples in (8_000, 32_000):
        list(captioner.skip_lost(n_samples))
    (message,) = caplog.messages
    assert "0.50 s" in message


def test_captioner_pauses_are_counted_apart() -> None:
    captioner = Captioner(Speller(), Loudness())
    list(captioner.feed(speech(range(4))))
    events: list[Any] = []
    for n_samples in (16_000, 32_000):
        events += list(captioner.suspend(Interruption("paused", paused=True)))[-1:]
        events += captioner.resume(Interruption("", n_samples, paused=True))
    figures = captioner.statistics.as_json()
    assert figures["paused_s"] == pytest.approx(3.0, abs=0.064)
    assert {event.paused for event in events} == {True}
    assert figures["absences"] == 0
    assert figures["away_s"] == 0.0


@dataclass
class RecordingSpeller(Speller):
    """Records the size and the draft of each buffer that is a whole segment."""

    wholes: list[tuple[int, Draft]] = field(default_factory=list)

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        if buffer.word_timestamps:
            self.wholes.append((buffer.audio.size, buffer.draft))
        return super().transcribe(buffer, language)


def final_texts(recognizer: Speller, sound: FloatArray) -> list[Completed]:
    captioner = Captioner(recognizer, Loudness(), quick())
    events: list[Event] = []
    for at in range(0, sound.size, 3200):
        events += captioner.feed(sound[at : at + 3200])
    return [e for e in [*events, *captioner.finish()] if isinstance(e, Completed)]


@pytest.mark.parametrize(("pause_s", "joins"), [(0.5, True), (2.0, False)])
def test_captioner_final_text_uses_a_near_segment(pause_s: float, joins: bool) -> None:
    recognizer = RecordingSpeller()
    sound = np.concatenate(
        [speech(range(6)), silence(pause_s), speech(range(6, 12)), silence(0.5)]
    )
    finals = final_texts(recognizer, sound)
    assert [event.text for event in finals] == [
        "w0 w1 w2 w3 w4 w5",
        "w6 w7 w8 w9 w10 w11",
    ]
    (first, _), (second, draft) = recognizer.wholes
    assert (second > 2 * first) is joins
    assert (draft.n_fixed >= 6) is joins
    starts = [word.start_s for word in finals[1].words]
    begin_s = sound.size / SAMPLE_RATE_HZ - 0.5 - 6 * 0.28
    assert starts == pytest.approx([begin_s + 0.28 * n for n in range(6)], abs=0.04)


HEARD = BufferText((BufferWord(" a", (1,)),), "en")


@pytest.mark.parametrize(
    ("before", "running", "joins"),
    [
        ({}, {}, True),
        ({}, {"start": 20_000}, True),
        ({}, {"start": 40_000}, False),
        ({}, {"start": 15_000}, False),
        ({}, {"language": "de"}, False),
        ({}, {"text": RunningText(1.0)}, False),
        ({"text": BufferText((), "en")}, {}, False),
        ({"text": replace(HEARD, translation="b")}, {}, False),
        ({"audio": audio(13)}, {}, False),
    ],
)
def test_finished_segment_join_needs_near_equal_language(
    before: dict[str, Any], running: dict[str, Any], joins: bool
) -> None:
    finished = replace(FinishedSegment(audio(1), 16_000, HEARD), **before)
    text = RunningText(1.0)
    text.update(HEARD, 1.0)
    now = RunningSegment(
        1, **({"text": text, "start": 16_000, "language": "en"} | running)
    )
    joined = finished.join(now, audio(2), 30.0)
    assert (joined is not None) is joins
    if joined is not None:
        assert joined.size == finished.audio.size + now.start - 16_000 + 32_000


def test_captioner_mark_ending_the_context_is_dropped() -> None:
    class Marking(RecordingSpeller):
        def transcribe(
            self, buffer: PartialBuffer, language: str | None = None
        ) -> BufferText:
            result = super().transcribe(buffer, language)
            n = buffer.draft.n_fixed
            if not buffer.word_timestamps or n == 0:
                return result
            last = result.words[n - 1]
            last = replace(last, text=last.text + ",", tokens=(*last.tokens, 99))
            return replace(
                result, words=(*result.words[: n - 1], last, *result.words[n:])
            )

    sound = np.concatenate(
        [speech(range(3)), silence(0.5), speech(range(6, 8)), silence(0.5)]
    )
    assert [final.text for final in final_texts(Marking(), sound)] == [
        "w0 w1 w2",
        "w6 w7",
    ]
