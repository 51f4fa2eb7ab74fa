"""Captions frame by frame: when texts are due, how late they come, failing devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.scripted_speech import (
    FRAME,
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
LOST_CHIP = DeviceError("the chip is gone; plug it in")


def make_captioner(
    recognizer: Any, options: CaptionOptions = OPTIONS, ticks: Sequence[float] = ()
) -> Captioner:
    clock = iter(ticks)
    return Captioner(recognizer, Loudness(), options, now=lambda: next(clock, 0.0))


class DyingRecognizer(Speller):
    """Transcribes a number of buffers, then fails."""

    def __init__(self, n_calls: int) -> None:
        super().__init__()
        self.n_left = n_calls

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        if not self.n_left:
            raise LOST_CHIP
        self.n_left -= 1
        return super().transcribe(buffer, language)


def test_captioner_lost_device_completes_shown_words() -> None:
    """Committed and tentative words; the error follows the completed segment."""
    captioner = make_captioner(DyingRecognizer(4))
    events: list[Event] = []
    audio = np.concatenate([speech(range(8)), silence(0.5)])
    pieces = (
        event
        for at in range(0, audio.size, 3200)
        for event in captioner.feed(audio[at : at + 3200])
    )
    with pytest.raises(DeviceError) as raised:
        events.extend(pieces)
    assert raised.value is LOST_CHIP
    shown = [event for event in events if isinstance(event, Partial)][-1]
    last = events[-1]
    assert isinstance(last, Completed)
    assert len(shown.committed) >= 2
    assert last.words == (*shown.committed, *shown.tentative)
    assert last.language == shown.language == "en"
    assert captioner.statistics.n_engine_faults >= 3


@pytest.mark.parametrize("reason", ["silence", "length"])
def test_captioner_continues_after_failed_device(reason: str) -> None:
    """The first segment has no text, however it ended."""
    recognizer = DyingRecognizer(0)
    captioner = make_captioner(recognizer, quick(min_partial_s=0.0, max_segment_s=1.5))
    pause = silence(0.5 if reason == "silence" else 0.0)
    audio = np.concatenate([speech([0, 1]), pause, speech(range(2, 8))])
    events: list[Event] = []
    with pytest.raises(DeviceError):
        events.extend(captioner.feed(audio))
    assert isinstance(events[-1], Completed)
    assert events[-1].words == ()
    assert events[-1].reason == reason
    recognizer.n_left = 9
    events += captioner.feed(
        np.concatenate([silence(0.5), speech([8, 9]), silence(0.5)])
    )
    assert list(find_violations(events)) == []
    assert isinstance(events[-1], Completed)
    assert events[-1].segment_id == 1
    assert events[-1].text == "w8 w9"


@pytest.mark.parametrize(("failing", "n_faults"), [((5, 6), 2), ((5,), 1)])
def test_captioner_retries_the_final_text_twice(
    failing: tuple[int, ...], n_faults: int
) -> None:
    """Four partials, then a device that stalls."""
    captioner = make_captioner(Failing(*failing))
    audio = np.concatenate([speech(range(6)), silence(0.2)])
    assert audio.size == 30_080
    events = [
        e
        for at in range(0, audio.size, 3200)
        for e in captioner.feed(audio[at : at + 3200])
    ]
    assert events[-1].text == "w0 w1 w2 w3 w4 w5"  # type: ignore[union-attr]
    assert captioner.statistics.n_engine_faults == n_faults


def test_captioner_partial_is_due_after_min_partial_s() -> None:
    """0.2 s are 3200 samples, 6.25 frames: seven frames are enough, six are not."""
    captioner = make_captioner(Speller())
    sound = spoken(0, 1.0)
    kinds = [
        [type(event).__name__ for event in captioner.feed(sound[at : at + FRAME])]
        for at in range(0, 22 * FRAME, FRAME)
    ]
    partials = [at for at, names in enumerate(kinds) if "Partial" in names]
    assert partials == [6, 13, 20]
    assert [at for at, names in enumerate(kinds) if "Started" in names] == [3]


@pytest.mark.parametrize(("n_frames", "first"), [(1, 4), (4, 4), (10, 10)])
def test_captioner_partial_is_due_at_the_exact_frame(n_frames: int, first: int) -> None:
    """The first partial has four frames: 0.1 s, the least that is transcribed, are 3.125."""
    captioner = make_captioner(
        Speller(), quick(min_partial_s=n_frames * 0.032, min_speech_s=0.0)
    )
    sound = spoken(0, 1.0)
    events = [
        e
        for at in range(0, 22 * FRAME, FRAME)
        for e in captioner.feed(sound[at : at + FRAME])
    ]
    ends = [round(e.end_s / 0.032) for e in events if isinstance(e, Partial)]
    assert ends == list(range(first, 23, n_frames))


def test_captioner_latency_of_a_segment_is_exact() -> None:
    """Captured at 10.0 s, fed at 10.3 s."""
    captioner = Captioner(Speller(), Loudness(), OPTIONS, now=lambda: 10.3)
    audio = np.concatenate([silence(0.512), spoken(0, 0.512), silence(0.128)])
    list(captioner.feed(audio, captured_s=10.0))
    figures = captioner.statistics
    # The segment starts 0.096 s + 0.032 s before the end of the first frames of speech.
    (first,) = figures.first_latency_s
    (final,) = figures.final_latency_s
    assert final == pytest.approx(0.3 + 0.128, abs=0.033)
    assert first == pytest.approx(0.3 + 0.128 + 0.512 + 0.128, abs=0.033)


@pytest.mark.parametrize(
    ("ending", "finals_s", "firsts_s"),
    [
        (lambda captioner: captioner.finish(), [1.0], [2.12]),
        (lambda captioner: captioner.feed(silence(0.5)), [1.0], [2.12]),
        # The segment is cut, and speech goes on.
        (lambda captioner: captioner.feed(spoken(4, 0.6)), [], [2.12]),
        (lambda captioner: captioner.skip_lost(1600), [], [2.12]),
        (lambda captioner: captioner.suspend(Interruption("unplugged")), [], [2.12]),
    ],
)
def test_captioner_final_latency_needs_an_end_of_speech(
    ending: Callable[[Captioner], Iterator[Event]],
    finals_s: list[float],
    firsts_s: list[float],
) -> None:
    """1.12 s of speech captured at 9 s, with a clock that stands at 10 s.

    Speech has one first text, also when it is cut into segments.
    """
    captioner = Captioner(
        Speller(), Loudness(), quick(max_segment_s=1.5), now=lambda: 10.0
    )
    list(captioner.feed(speech(range(4)), captured_s=9.0))
    assert Completed in map(type, list(ending(captioner)))
    assert captioner.statistics.final_latency_s == pytest.approx(finals_s)
    assert captioner.statistics.first_latency_s == pytest.approx(firsts_s)


class LateRecognizer(Speller):
    """Gives no text for less than half a second."""

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        result = super().transcribe(buffer, language)
        return result if buffer.audio.size >= 8_000 else BufferText(())


def test_captioner_first_latency_ignores_empty_text() -> None:
    """Blocks of a quarter of a second, each with its capture time."""
    clock = [10.0]
    captioner = Captioner(LateRecognizer(), Loudness(), OPTIONS, now=lambda: clock[0])
    for _ in range(4):
        clock[0] += 0.256
        list(captioner.feed(spoken(0, 0.256), captured_s=clock[0]))
    (first,) = captioner.statistics.first_latency_s
    assert first == pytest.approx(0.512)


@pytest.mark.parametrize(
    ("captured_s", "now_s", "behind_s"),
    [
        (1.2, 1.4, 0.3),  # in real time
        (1.2, 30.0, 28.9),
        (21.2, 21.4, 0.3),  # a microphone that was opened late
        (0.1, 0.6, 0.0),  # a pipe delivers all of it at once
        (None, 30.0, 0.0),  # a file is not live
    ],
)
def test_captioner_live_audio_has_behind_s(
    captured_s: float | None, now_s: float, behind_s: float
) -> None:
    clock = [0.0]
    captioner = Captioner(Speller(), Loudness(), OPTIONS, now=lambda: clock[0])
    clock[0] = now_s
    audio = np.concatenate([silence(0.512), spoken(0, 0.512), silence(0.128)])
    events = list(captioner.feed(audio, captured_s=captured_s))
    assert isinstance(events[-1], Completed)
    assert captioner.statistics.behind_s == pytest.approx(behind_s, abs=0.15)


def test_captioner_events_have_stream_and_clock_time() -> None:
    captioner = make_captioner(Speller(), ticks=(5.0, 5.5, 5.75))
    (started,) = captioner.feed(spoken(0, 4 * FRAME / 16_000))
    assert isinstance(started, Started)
    assert started.segment_id == 0
    assert started.start_s == 0.0
    assert started.at_s == 0.5
    assert started.heard_s == pytest.approx(4 * 0.032)


class TimedRecognizer(Speller):
    """Reports 10 ms of decoding and two passes for each buffer."""

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        result = super().transcribe(buffer, language)
        return replace(result, passes=2, timings=Timings(decode_ms=10.0))


def test_captioner_statistics_separate_partials_and_finals() -> None:
    captioner = make_captioner(TimedRecognizer())
    audio = np.concatenate([speech(range(6)), silence(0.2)])
    for at in range(0, audio.size, 3200):
        list(captioner.feed(audio[at : at + 3200]))
    figures = captioner.statistics
    assert figures.n_calls == 5
    assert figures.n_partials == 4
    assert figures.n_full == 1
    assert figures.partial_passes == 8
    assert figures.partial_decode_ms == 40.0
    assert figures.words_in.total() == 6
    assert figures.n_heard_samples > figures.n_segment_samples == 28_672
    assert figures.n_stream_samples == 29_696


def test_captioner_second_finish_does_nothing() -> None:
    captioner = make_captioner(Speller())
    list(captioner.feed(speech(range(2))))
    assert [type(event) for event in captioner.finish()] == [Completed]
    n_samples = captioner.statistics.n_stream_samples
    assert list(captioner.finish()) == []
    assert captioner.statistics.n_stream_samples == n_samples
