"""Captions counted out frame by frame: when texts are due, how late they come, failing devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.counted_frames import FRAME
from tests.fakes.scripted_speech import (
    Failing,
    Loudness,
    Speller,
    quick,
    silence,
    speech,
    spoken,
)
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import BufferText, Timings
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial, Started
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations

OPTIONS = quick(settle_s=0.4, min_partial_s=0.2)


def captioner(
    recognizer: Any, options: CaptionOptions = OPTIONS, ticks: Sequence[float] = ()
) -> Captioner:
    clock = iter(ticks)
    return Captioner(recognizer, Loudness(), options, now=lambda: next(clock, 0.0))


class Dying(Speller):
    """Hears so many buffers, then no more."""

    def __init__(self, n_calls: int) -> None:
        super().__init__()
        self.n_left = n_calls

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        if not self.n_left:
            raise DeviceError("the chip is gone; plug it in")
        self.n_left -= 1
        return super().transcribe(buffer, language)


def test_device_that_dies_leaves_the_words_that_were_shown() -> None:
    """Committed ones and those behind them; the error follows the completed segment."""
    told = captioner(Dying(4))
    events: list[Event] = []
    audio = np.concatenate([speech(range(8)), silence(0.5)])
    pieces = (
        event
        for at in range(0, audio.size, 3200)
        for event in told.feed(audio[at : at + 3200])
    )
    with pytest.raises(DeviceError, match="the chip is gone"):
        events.extend(pieces)
    shown = [event for event in events if isinstance(event, Partial)][-1]
    last = events[-1]
    assert isinstance(last, Completed)
    assert len(shown.committed) >= 2
    assert last.words == (*shown.committed, *shown.tentative)
    assert last.language == shown.language == "en"
    assert told.statistics.n_engine_faults >= 3


@pytest.mark.parametrize("reason", ["silence", "length"])
def test_captions_go_on_behind_a_failed_device(reason: str) -> None:
    """Nothing could be heard of the first segment, however it ended."""
    recognizer = Dying(0)
    told = captioner(recognizer, quick(min_partial_s=0.0, max_segment_s=1.5))
    pause = silence(0.5 if reason == "silence" else 0.0)
    said = np.concatenate([speech([0, 1]), pause, speech(range(2, 8))])
    events: list[Event] = []
    with pytest.raises(DeviceError, match="the chip is gone"):
        events.extend(told.feed(said))
    assert isinstance(events[-1], Completed)
    assert (events[-1].words, events[-1].reason) == ((), reason)
    recognizer.n_left = 9
    events += told.feed(np.concatenate([silence(0.5), speech([8, 9]), silence(0.5)]))
    assert list(find_violations(events)) == []
    assert isinstance(events[-1], Completed)
    assert (events[-1].segment_id, events[-1].text) == (1, "w8 w9")


@pytest.mark.parametrize(("failing", "n_faults"), [((5, 6), 2), ((5,), 1)])
def test_final_text_is_asked_for_three_times(
    failing: tuple[int, ...], n_faults: int
) -> None:
    """Four partials, then a device that stalls."""
    told = captioner(Failing(*failing))
    audio = np.concatenate([speech(range(6)), silence(0.2)])
    assert audio.size == 30_080
    events = [
        e for at in range(0, audio.size, 3200) for e in told.feed(audio[at : at + 3200])
    ]
    assert events[-1].text == "w0 w1 w2 w3 w4 w5"  # type: ignore[union-attr]
    assert told.statistics.n_engine_faults == n_faults


def test_partial_is_due_after_so_much_new_audio() -> None:
    """0.2 s are 3200 samples, 6.25 frames: seven frames are enough, six are not."""
    told = captioner(Speller())
    sound = spoken(0, 1.0)
    kinds = [
        [type(event).__name__ for event in told.feed(sound[at : at + FRAME])]
        for at in range(0, 22 * FRAME, FRAME)
    ]
    partials = [at for at, names in enumerate(kinds) if "Partial" in names]
    assert partials == [6, 13, 20]
    assert [at for at, names in enumerate(kinds) if "Started" in names] == [3]


@pytest.mark.parametrize(("n_frames", "first"), [(1, 4), (4, 4), (10, 10)])
def test_partial_is_due_at_the_very_sample(n_frames: int, first: int) -> None:
    """A tenth of a second are 3.125 frames: less says nothing, so that a first one has four."""
    told = captioner(Speller(), quick(min_partial_s=n_frames * 0.032, min_speech_s=0.0))
    sound = spoken(0, 1.0)
    events = [
        e
        for at in range(0, 22 * FRAME, FRAME)
        for e in told.feed(sound[at : at + FRAME])
    ]
    ends = [round(e.end_s / 0.032) for e in events if isinstance(e, Partial)]
    assert ends == list(range(first, 23, n_frames))


def test_latencies_run_from_the_sound_to_the_text() -> None:
    """Captured at 10.0 s; the clock stands at 10.3 s when it is told of."""
    told = Captioner(Speller(), Loudness(), OPTIONS, now=lambda: 10.3)
    audio = np.concatenate([silence(0.512), spoken(0, 0.512), silence(0.128)])
    list(told.feed(audio, captured_s=10.0))
    figures = told.statistics
    # The segment starts 0.096 s + 0.032 s before the end of the first frames of speech.
    (first,) = figures.first_latency_s
    (final,) = figures.final_latency_s
    assert final == pytest.approx(0.3 + 0.128, abs=0.033)
    assert first == pytest.approx(0.3 + 0.128 + 0.512 + 0.128, abs=0.033)


@pytest.mark.parametrize(
    ("ending", "finals_s", "firsts_s"),
    [
        (lambda told: told.finish(), [1.0], [2.12]),
        (lambda told: told.feed(silence(0.5)), [1.0], [2.12]),
        # It is cut, and speech goes on.
        (lambda told: told.feed(spoken(4, 0.6)), [], [2.12]),
        (lambda told: told.skip_lost(1600), [], [2.12]),
        (lambda told: told.suspend(Interruption("unplugged")), [], [2.12]),
    ],
)
def test_only_an_end_of_speech_has_a_final_text_that_can_be_late(
    ending: Callable[[Captioner], Iterator[Event]],
    finals_s: list[float],
    firsts_s: list[float],
) -> None:
    """Speech to the 1.12 s that were captured at 9 s, by a clock that stands at 10 s.

    A first text comes once, whatever its speech is cut into.
    """
    told = Captioner(Speller(), Loudness(), quick(max_segment_s=1.5), now=lambda: 10.0)
    list(told.feed(speech(range(4)), captured_s=9.0))
    assert Completed in map(type, list(ending(told)))
    assert told.statistics.final_latency_s == pytest.approx(finals_s)
    assert told.statistics.first_latency_s == pytest.approx(firsts_s)


class Late(Speller):
    """Has something to say of half a second or more only."""

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        heard = super().transcribe(buffer, language)
        return heard if buffer.audio.size >= 8_000 else BufferText(())


def test_first_text_is_the_first_that_says_something() -> None:
    """A quarter of a second at a time, each told of when it was captured."""
    clock = [10.0]
    told = Captioner(Late(), Loudness(), OPTIONS, now=lambda: clock[0])
    for _ in range(4):
        clock[0] += 0.256
        list(told.feed(spoken(0, 0.256), captured_s=clock[0]))
    (first,) = told.statistics.first_latency_s
    assert first == pytest.approx(0.512)


@pytest.mark.parametrize(
    ("captured_s", "now_s", "behind_s"),
    [
        (1.2, 1.4, 0.3),  # as it was said
        (1.2, 30.0, 28.9),
        (21.2, 21.4, 0.3),  # a microphone that was opened late
        (0.1, 0.6, 0.0),  # a pipe had all of it at once
        (None, 30.0, 0.0),  # a file waits for nobody
    ],
)
def test_live_captions_say_how_far_they_are_behind(
    captured_s: float | None, now_s: float, behind_s: float
) -> None:
    clock = [0.0]
    told = Captioner(Speller(), Loudness(), OPTIONS, now=lambda: clock[0])
    clock[0] = now_s
    audio = np.concatenate([silence(0.512), spoken(0, 0.512), silence(0.128)])
    events = list(told.feed(audio, captured_s=captured_s))
    assert isinstance(events[-1], Completed)
    assert told.statistics.behind_s == pytest.approx(behind_s, abs=0.15)


def test_every_event_says_how_far_stream_and_clock_have_come() -> None:
    told = captioner(Speller(), ticks=(5.0, 5.5, 5.75))
    (started,) = told.feed(spoken(0, 4 * FRAME / 16_000))
    assert isinstance(started, Started)
    assert (started.segment_id, started.start_s, started.at_s) == (0, 0.0, 0.5)
    assert started.heard_s == pytest.approx(4 * 0.032)


class Timed(Speller):
    """Takes 10 ms of the decoder for each buffer, and two passes."""

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        heard = super().transcribe(buffer, language)
        return replace(heard, passes=2, timings=Timings(decode_ms=10.0))


def test_what_partials_cost_is_told_apart_from_final_texts() -> None:
    told = captioner(Timed())
    audio = np.concatenate([speech(range(6)), silence(0.2)])
    for at in range(0, audio.size, 3200):
        list(told.feed(audio[at : at + 3200]))
    figures = told.statistics
    assert (figures.n_calls, figures.n_partials, figures.n_full) == (5, 4, 1)
    assert (figures.partial_passes, figures.partial_decode_ms) == (8, 40.0)
    assert figures.words_in.total() == 6
    assert figures.n_heard_samples > figures.n_segment_samples == 28_672
    assert figures.n_stream_samples == 29_696


def test_end_comes_once() -> None:
    told = captioner(Speller())
    list(told.feed(speech(range(2))))
    assert [type(event) for event in told.finish()] == [Completed]
    n_samples = told.statistics.n_stream_samples
    assert list(told.finish()) == []
    assert told.statistics.n_stream_samples == n_samples
