"""Streams of captions: audio is read while a recognizer computes; controls of users."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.fakes.live_sources import Played, Steps
from tests.fakes.scripted_speech import (
    Failing,
    Loudness,
    Speller,
    quick,
    silence,
    speech,
)
from whisper_hailo.core.errors import AudioError, DeviceError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import (
    Away,
    Back,
    Completed,
    Event,
    Lost,
    Marker,
    Partial,
    Started,
)
from whisper_hailo.live.sources.source import (
    POLL_S,
    AudioQueue,
    Block,
    Interruption,
    Pace,
    empty_block,
)
from whisper_hailo.live.stream import CaptionStream, Controls
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations


class SlowRecognizer(Speller):
    """Takes as long for each buffer as 0.8 s of the source."""

    def __init__(self, source: Played) -> None:
        super().__init__()
        self._source = source

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        self._source.wait_for_more(25)
        return super().transcribe(buffer, language)


AUDIO = np.concatenate(
    [silence(0.3), speech(range(20)), silence(0.4), speech(range(20, 30))]
)


TEXT = " ".join(f"w{index}" for index in range(30))


def run_stream(source: Any, engine: Any) -> tuple[list[Event], Captioner]:
    captioner = Captioner(engine, Loudness(), quick())
    with source:
        return list(CaptionStream(source, captioner).events()), captioner


def join_texts(events: list[Event]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Completed))


def test_stream_pulled_source_skips_no_partial() -> None:
    events, captioner = run_stream(Played(AUDIO, pace=Pace.PULL), Speller())
    assert join_texts(events) == TEXT
    assert captioner.statistics.n_skipped == 0
    assert captioner.statistics.n_partials > 20


def test_stream_slow_recognizer_skips_partials_only() -> None:
    source = Played(AUDIO)
    events, captioner = run_stream(source, SlowRecognizer(source))
    assert list(find_violations(events)) == []
    assert join_texts(events) == TEXT
    assert captioner.statistics.n_skipped > 0
    assert captioner.statistics.longest_backlog_s >= 0.8


class SmallQueue(AudioQueue):
    """A queue for half a second; `full` is set when it has no more room."""

    full = threading.Event()

    def __init__(self) -> None:
        super().__init__(limit_s=0.5)
        self.n_put = 0
        self.n_taken = 0
        self.full.clear()

    def put_all(self, block: Block) -> None:
        self.n_put += block.audio.size
        if self.n_put - self.n_taken > 0.5 * SAMPLE_RATE_HZ:
            self.full.set()
        super().put_all(block)

    def blocks(self) -> Iterator[Block]:
        for block in super().blocks():
            self.n_taken += block.audio.size
            yield block


@pytest.fixture
def small_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisper_hailo.live.stream.AudioQueue", SmallQueue)


class WaitingRecognizer(Speller):
    """Waits before it transcribes its first buffer."""

    def __init__(self, wait: Callable[[], object]) -> None:
        super().__init__()
        self._wait: Callable[[], object] | None = wait

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        if self._wait is not None:
            self._wait()
            self._wait = None
        return super().transcribe(buffer, language)


@pytest.mark.usefixtures("small_queue")
def test_stream_real_time_source_loses_audio_when_full() -> None:
    source = Played(AUDIO, pace=Pace.REAL_TIME)
    events, captioner = run_stream(
        source, WaitingRecognizer(lambda: source.wait_for_more(100))
    )
    assert list(find_violations(events)) == []
    losses = [event for event in events if isinstance(event, Lost)]
    lost_s = sum(event.end_s - event.start_s for event in losses)
    figures = captioner.statistics.as_json()
    assert figures["lost_s"] == pytest.approx(lost_s, abs=1e-4)
    assert figures["lost_s"] + figures["stream_s"] == pytest.approx(
        AUDIO.size / SAMPLE_RATE_HZ, abs=512 / SAMPLE_RATE_HZ
    )
    assert lost_s > 1.0
    before = events[events.index(losses[0]) - 1]
    assert isinstance(before, Completed)
    assert before.reason == "loss"


@pytest.mark.usefixtures("small_queue")
def test_stream_buffered_source_loses_nothing() -> None:
    events, captioner = run_stream(
        Played(AUDIO), WaitingRecognizer(SmallQueue.full.wait)
    )
    assert list(find_violations(events)) == []
    assert join_texts(events) == TEXT
    assert captioner.statistics.n_lost_samples == 0
    assert 0.3 < captioner.statistics.longest_backlog_s <= 0.5


def test_stream_stop_completes_captured_audio() -> None:
    source = Played(AUDIO[:48_000], waits=True)
    stream = CaptionStream(source, Captioner(Speller(), Loudness(), quick()))
    events: list[Event] = []
    with source:
        for event in stream.events():
            events.append(event)
            stream.stop()
    assert list(find_violations(events)) == []
    last = events[-1]
    assert isinstance(last, Completed)
    assert last.reason == "end"
    assert last.end_s == pytest.approx(3.0, abs=512 / SAMPLE_RATE_HZ)
    assert last.text.startswith("w0 w1 w2 w3 w4 w5 w6 w7 w8")


def test_stream_without_audio_calls_alive() -> None:
    source = Played(silence(0.1), waits=True)
    calls = []

    def count_calls() -> None:
        calls.append(1)
        if len(calls) == 5:
            stream.stop()

    stream = CaptionStream(
        source, Captioner(Speller(), Loudness(), quick()), count_calls
    )
    assert list(stream.events()) == []
    assert len(calls) >= 5


class HangingSource(Played):
    """A source that ignores `close`, like a connection without data."""

    def close(self) -> None:
        pass

    def let_go(self) -> None:
        super().close()


def test_stream_stop_abandons_a_hanging_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisper_hailo.live.stream.END_WAIT_S", 0.01)
    source = HangingSource(AUDIO[:48_000], waits=True)
    stream = CaptionStream(source, Captioner(Speller(), Loudness(), quick()))
    events: list[Event] = []
    for event in stream.events():
        events.append(event)
        stream.stop()
    source.let_go()
    assert list(find_violations(events)) == []
    assert isinstance(events[-1], Completed)


def test_stream_stop_waits_for_lasting_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quiet moments between blocks do not add up to the quiet that ends a stopped stream."""
    monkeypatch.setattr("whisper_hailo.live.stream.END_WAIT_S", 1.5 * POLL_S)
    quiet = Block(np.empty(0, np.float32))
    sound = Block(silence(0.1))
    source = Steps(*[quiet, sound] * 4, *[quiet] * 9)
    stream = CaptionStream(source, Captioner(Speller(), Loudness(), quick()))
    sizes: list[int] = []
    stream.listeners.append(lambda block: sizes.append(block.audio.size))
    stream.stop()
    assert list(stream.events()) == []
    assert sizes == [0, sound.audio.size] * 4 + [0] * 2


def test_stream_listeners_get_all_audio() -> None:
    pieces = [AUDIO[at : at + 5_000] for at in range(0, 30_000, 5_000)]
    captioner = Captioner(Speller(), Loudness(), quick())
    stream = CaptionStream(Steps(*map(Block, pieces), endless=False), captioner)
    blocks_heard: list[FloatArray] = []
    stream.listeners.append(lambda block: blocks_heard.append(block.audio))
    list(stream.events())
    np.testing.assert_array_equal(np.concatenate(blocks_heard), AUDIO[:30_000])


def test_stream_passes_capture_time_and_absences_on() -> None:
    """Capture times become latencies, interruptions become events."""
    said = speech(range(4))
    source = Steps(
        Block(said, 9.0),
        Block(silence(0.5), 9.5),
        empty_block(Interruption("paused", paused=True)),
        empty_block(Interruption("", 16_000, paused=True)),
        endless=False,
    )
    controls = Controls()
    controls.submit(lambda live: live.mark("here"))
    captioner = Captioner(Speller(), Loudness(), quick(), now=lambda: 10.0)
    marker, started, *rest = CaptionStream(
        source, captioner, controls=controls
    ).events()
    assert [type(marker), type(started)] == [Marker, Started]
    assert started.start_s == 0.0
    assert captioner.statistics.final_latency_s == pytest.approx([1.0])
    assert [type(event) for event in rest[-2:]] == [Away, Back]
    assert [event.paused for event in rest if isinstance(event, Away | Back)] == [
        True,
        True,
    ]


def test_stream_counts_faults_and_longest_backlog() -> None:
    pieces = (
        Block(silence(0.5), 1.0, n_faults=2),
        Block(silence(0.25), 2.0, n_faults=1),
        Block(silence(9.0)),
    )
    _, captioner = run_stream(Steps(*pieces, endless=False), Speller())
    assert captioner.statistics.n_faults == 3
    assert captioner.statistics.longest_backlog_s == 0.5


def test_stream_ended_refuses_commands() -> None:
    controls = Controls()
    stream = CaptionStream(
        Steps(endless=False),
        Captioner(Speller(), Loudness(), quick()),
        controls=controls,
    )
    assert list(stream.events()) == []
    with pytest.raises(OptionError):
        controls.submit(lambda live: live.clear()).result(0)


@pytest.mark.usefixtures("small_queue")
def test_stream_closed_events_release_a_waiting_source() -> None:
    events = CaptionStream(
        Played(AUDIO),
        Captioner(WaitingRecognizer(SmallQueue.full.wait), Loudness(), quick()),
    ).events()
    next(event for event in events if isinstance(event, Partial))
    events.close()  # type: ignore[attr-defined]  # a generator
    readers = [
        thread for thread in threading.enumerate() if thread.name == "caption-source"
    ]
    for thread in readers:
        thread.join(60)
    assert not any(thread.is_alive() for thread in readers)


def test_stream_stop_ends_pulled_source_between_blocks() -> None:
    source = Played(AUDIO, pace=Pace.PULL)
    stream = CaptionStream(source, Captioner(Speller(), Loudness(), quick()))
    events: list[Event] = []
    with source:
        for event in stream.events():
            events.append(event)
            stream.stop()
    assert list(find_violations(events)) == []
    assert isinstance(events[-1], Completed)
    assert events[-1].end_s < 1.0


@pytest.mark.parametrize("pace", Pace)
def test_stream_failed_source_completes_its_segment(pace: Pace) -> None:
    failure = AudioError("the sender hung up")
    source = Played(AUDIO[:48_000], pace=pace, failure=failure)
    stream = CaptionStream(source, Captioner(Speller(), Loudness(), quick()))
    events: list[Event] = []
    with source, pytest.raises(AudioError) as raised:
        events.extend(stream.events())
    assert raised.value is failure
    # `extend` keeps what came before the error.
    assert isinstance(events[-1], Completed)
    assert list(find_violations(events)) == []


def test_stream_stalling_device_loses_no_word() -> None:
    engine = Failing(2, 3, 9, 10, 11, 30)
    events, captioner = run_stream(Played(AUDIO, pace=Pace.PULL), engine)
    assert list(find_violations(events)) == []
    assert join_texts(events) == TEXT
    assert captioner.statistics.n_engine_faults == 6
    assert captioner.statistics.n_skipped > 0


def test_stream_dead_device_raises_after_completion() -> None:
    source = Played(AUDIO, pace=Pace.PULL)
    stream = CaptionStream(source, Captioner(Failing(-1), Loudness(), quick()))
    events: list[Event] = []
    with source, pytest.raises(DeviceError):
        events.extend(stream.events())
    assert not any(isinstance(event, Partial) for event in events)
    assert list(find_violations(events)) == []
    assert isinstance(events[-1], Completed)
    assert events[-1].words == ()
    assert events[-1].language == ""


class English(Speller):
    def with_language(self, language: str) -> English:
        raise OptionError(f"{language} is not supported")


def make_captioner() -> Captioner:
    return Captioner(English(), Loudness())


def test_controls_command_is_done_after_its_event() -> None:
    controls = Controls()
    answer = controls.submit(lambda live: live.mark("here"))
    events = controls.process_commands(make_captioner())
    event = next(events)
    assert isinstance(event, Marker)
    assert event.label == "here"
    assert event.start_s == 0.0
    assert not answer.done()
    assert list(events) == []
    assert answer.result(0) is None


def test_controls_run_in_order_without_cancelled_ones() -> None:
    controls = Controls()
    answers = [
        controls.submit(lambda live, label=label: live.mark(label)) for label in "abc"
    ]
    assert answers[1].cancel()
    events = list(controls.process_commands(make_captioner()))
    assert [event.label for event in events if isinstance(event, Marker)] == ["a", "c"]


def test_controls_failing_command_leaves_the_others() -> None:
    controls = Controls()
    wrong = controls.submit(lambda live: live.set_language("klingon"))
    right = controls.submit(lambda live: live.clear())
    assert [
        type(event).__name__ for event in controls.process_commands(make_captioner())
    ] == ["Cleared"]
    with pytest.raises(OptionError, match="klingon"):
        wrong.result(0)
    assert right.result(0) is None


def test_controls_ended_refuse_waiting_and_new_commands() -> None:
    controls = Controls()
    controls.set_paused(True)
    waiting = controls.submit(lambda live: live.clear())
    controls.end()
    with pytest.raises(OptionError):
        waiting.result(0)
    with pytest.raises(OptionError):
        controls.submit(lambda live: live.clear()).result(0)
    with pytest.raises(OptionError):
        controls.set_paused(False)
    assert controls.is_paused


def test_controls_33rd_waiting_command_is_refused() -> None:
    controls = Controls()
    answers = [controls.submit(lambda live: live.clear()) for _ in range(33)]
    with pytest.raises(OptionError, match="32"):
        answers[-1].result(0)
    assert len(list(controls.process_commands(make_captioner()))) == 32
