"""Captions counted out frame by frame: where segments lie, what a failing device takes, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.live.scripted import Speller, silence, speech, spoken
from tests.unit.live.test_stream import Failing
from whisper_hailo.core.buffers import BufferText, BufferWord
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import FloatArray, Timings
from whisper_hailo.live.captioning.captioner import Captioner
from whisper_hailo.live.captioning.cut import cut_place
from whisper_hailo.live.captioning.segmenter import Segmenter, Signal
from whisper_hailo.live.events import Completed, Event, Partial, Started
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.statistics import CaptionStatistics, Latencies

FRAME = 512
S, Q, N = 0.9, 0.4, 0.1
"""Speech; too quiet to begin and loud enough to go on; silence."""


class Told:
    """Each frame's first sample is how likely it is to be speech."""

    def probability(self, frame: FloatArray) -> float:
        return float(frame[0])


def frames(*probabilities: float) -> list[FloatArray]:
    return [np.full(FRAME, probability, np.float32) for probability in probabilities]


def segmenter(**options: float) -> Segmenter:
    """Three frames of silence end speech, two of speech begin it, and one before belongs to it."""
    defaults = {"min_silence_s": 0.096, "min_speech_s": 0.064, "pre_roll_s": 0.032}
    return Segmenter(Told(), CaptionOptions(**{**defaults, **options}))  # type: ignore[arg-type]


def signals(cutter: Segmenter, *probabilities: float) -> str:
    """`S` where a segment starts, `E` where it ends (and is let go), else a dot."""
    told = ""
    for frame in frames(*probabilities):
        signal = cutter.push(frame)
        told += {Signal.STARTED: "S", Signal.ENDED: "E", None: "."}[signal]
        if signal is Signal.ENDED:
            cutter.end()
    return told


def test_speech_starts_a_segment_when_it_lasts_and_silence_ends_it_likewise() -> None:
    assert signals(segmenter(), N, S, N, S, S, N, N, S, N, N, N, N, S) == "....S.....E.."


def test_a_segment_goes_on_until_speech_is_well_below_the_threshold() -> None:
    assert signals(segmenter(), S, S, Q, Q, Q, Q, Q, Q) == ".S......"
    assert signals(segmenter(), S, S, 0.36, 0.34, 0.34, 0.34) == ".S...E"
    assert signals(segmenter(), Q, Q, Q, Q) == "...."
    assert signals(segmenter(), 0.5, 0.5) == ".S"
    assert signals(segmenter(), 0.49, 0.49) == ".."


def test_a_segment_begins_with_its_pre_roll_and_knows_its_place() -> None:
    """Frames 0 and 1 are before it; 2 is the pre-roll, 3 and 4 are speech."""
    cutter = segmenter()
    signals(cutter, N, N, N, S, S)
    assert (cutter.start, cutter.n_samples, cutter.n_heard) == (2 * FRAME, 3 * FRAME, 5 * FRAME)
    assert cutter.audio[::FRAME].tolist() == pytest.approx([N, S, S])
    assert cutter.last_speech == 5 * FRAME
    signals(cutter, N, N)
    assert cutter.last_speech == 5 * FRAME
    assert signals(cutter, N) == "E"
    assert (cutter.n_samples, cutter.audio.size) == (0, 0)


def test_no_frame_of_a_segment_is_the_pre_roll_of_the_next() -> None:
    cutter = segmenter(pre_roll_s=0.32)
    assert signals(cutter, S, S, N, N, N, N, S, S) == ".S..E..S"
    assert cutter.start == 5 * FRAME


def test_a_cut_leaves_the_rest_as_a_segment_of_its_own() -> None:
    cutter = segmenter()
    signals(cutter, S, S, S, S)
    cutter.cut(700)
    assert (cutter.start, cutter.n_samples) == (700, 4 * FRAME - 700)
    cutter.cut(400)
    assert (cutter.start, cutter.audio.size) == (1100, 4 * FRAME - 1100)


def test_what_is_skipped_has_its_time_and_no_pre_roll() -> None:
    cutter = segmenter()
    signals(cutter, N, N)
    cutter.skip(1000)
    assert signals(cutter, S, S) == ".S"
    assert (cutter.start, cutter.n_heard) == (2 * FRAME + 1000, 4 * FRAME + 1000)


def test_the_quietest_place_is_where_sound_and_speech_are_least() -> None:
    cutter = segmenter()
    signals(cutter, S, S, *[S] * 18)
    loud = np.concatenate(frames(*[S] * 20))
    loud[4000:5000] = 0.01
    cutter._frames = list(loud.reshape(-1, FRAME))
    place, loudness = cutter.quietest(1000, 9000)
    assert 4320 <= place <= 4680  # 20 ms away from the loud sound on both sides
    assert loudness == pytest.approx(0.01 * (0.5 + S), rel=1e-3)
    place, _ = cutter.quietest(6000, 9000)
    assert place == 6000


def words(*edges: tuple[float, float]) -> list[BufferWord]:
    return [BufferWord(" w", (1,), 0.9, *edge) for edge in edges]


@pytest.mark.parametrize(
    ("edges", "settled_s", "between"),
    [
        ([(0.1, 0.9), (1.2, 1.8)], 0.0, (0.96, 1.28)),  # between the two, with slack
        ([(0.1, 0.4), (0.5, 1.8)], 0.0, (0.96, 1.72)),  # the gap is in the first half: anywhere
        ([], 0.0, (0.96, 1.72)),
        ([(0.1, 0.9), (1.2, 1.8)], 1.1, (1.1, 1.28)),  # behind what is settled
    ],
)
def test_a_cut_lies_between_words_in_the_second_half(
    edges: list[tuple[float, float]], settled_s: float, between: tuple[float, float]
) -> None:
    """60 frames are 1.92 s, the last 0.2 s of which stay together."""
    cutter = segmenter()
    signals(cutter, *[S] * 60)
    place = cut_place(cutter, words(*edges), settled_s)
    assert between[0] <= place / 16_000 <= between[1] + 1e-6


def test_a_gap_in_the_first_half_draws_no_cut_to_it() -> None:
    """It is silent at 1.4 s; the only gap between words, at 0.45 s, is too early for a cut."""
    cutter = segmenter()
    signals(cutter, *[S] * 60)
    sound = np.concatenate(frames(*[S] * 60))
    sound[21_600:23_200] = 0.0
    cutter._frames = list(sound.reshape(-1, FRAME))
    place = cut_place(cutter, words((0.1, 0.4), (0.5, 1.8)), 0.0)
    assert 21_600 < place < 23_200


def test_a_cut_leaves_a_sample_on_both_sides() -> None:
    cutter = segmenter()
    signals(cutter, S, S)
    assert cut_place(cutter, [], 99.0) == 2 * FRAME - 1


OPTIONS = CaptionOptions(settle_s=0.4, min_partial_s=0.2)


class Loud:
    """Speech is what is not zero."""

    def probability(self, frame: FloatArray) -> float:
        return float(np.abs(frame).max() > 0)


def captioner(
    engine: Any, options: CaptionOptions = OPTIONS, ticks: Sequence[float] = ()
) -> Captioner:
    clock = iter(ticks)
    return Captioner(engine, Loud(), options, now=lambda: next(clock, 0.0))


class Dying(Speller):
    """Hears so many buffers, then no more."""

    def __init__(self, n_calls: int) -> None:
        super().__init__()
        self._left = n_calls

    def transcribe(self, audio: FloatArray, *rest: Any, **named: Any) -> BufferText:
        if not self._left:
            raise DeviceError("the chip is gone; plug it in")
        self._left -= 1
        return super().transcribe(audio, *rest, **named)


def test_a_device_that_dies_leaves_the_words_that_were_shown() -> None:
    """Committed ones and those behind them; the error follows the completed segment."""
    told = captioner(Dying(4))
    events: list[Event] = []
    audio = np.concatenate([speech(range(8)), silence(0.5)])
    pieces = (
        event for at in range(0, audio.size, 3200) for event in told.feed(audio[at : at + 3200])
    )
    with pytest.raises(DeviceError, match="the chip is gone"):
        events.extend(pieces)
    shown = [event for event in events if isinstance(event, Partial)][-1]
    last = events[-1]
    assert isinstance(last, Completed)
    assert len(shown.committed) >= 2
    assert last.words == (*shown.committed, *shown.tentative)
    assert told.statistics.n_engine_faults == 3 + last.n_skipped - shown.n_skipped


@pytest.mark.parametrize(("failing", "n_faults"), [((5, 6), 2), ((5,), 1)])
def test_a_final_text_is_asked_for_three_times(failing: tuple[int, ...], n_faults: int) -> None:
    """Four partials, then a device that stalls."""
    told = captioner(Failing(*failing))
    audio = np.concatenate([speech(range(6)), silence(0.2)])
    assert audio.size == 30_080
    events = [e for at in range(0, audio.size, 3200) for e in told.feed(audio[at : at + 3200])]
    assert events[-1].text == "w0 w1 w2 w3 w4 w5"  # type: ignore[union-attr]
    assert told.statistics.n_engine_faults == n_faults


def test_a_partial_is_due_after_so_much_new_audio() -> None:
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


@pytest.mark.parametrize("n_frames", [4, 10])
def test_a_partial_is_due_at_the_very_sample(n_frames: int) -> None:
    """A tenth of a second are 3.125 frames: less says nothing, so that a first one has four."""
    told = captioner(Speller(), CaptionOptions(min_partial_s=n_frames * 0.032, min_speech_s=0.0))
    sound = spoken(0, 1.0)
    events = [e for at in range(0, 22 * FRAME, FRAME) for e in told.feed(sound[at : at + FRAME])]
    ends = [round(e.end_s / 0.032) for e in events if isinstance(e, Partial)]
    assert ends == list(range(n_frames, 23, n_frames))


def test_latencies_run_from_the_sound_to_the_text() -> None:
    """Captured at 10.0 s; the clock stands at 10.3 s when it is told of."""
    told = Captioner(Speller(), Loud(), OPTIONS, now=lambda: 10.3)
    audio = np.concatenate([silence(0.512), spoken(0, 0.512), silence(0.128)])
    list(told.feed(audio, captured_s=10.0))
    figures = told.statistics
    # The segment starts 0.096 s + 0.032 s before the end of the first frames of speech.
    (first,) = figures.first_latency_s.seconds
    (final,) = figures.final_latency_s.seconds
    assert final == pytest.approx(0.3 + 0.128, abs=0.033)
    assert first == pytest.approx(0.3 + 0.128 + 0.512 + 0.128, abs=0.033)


class Late(Speller):
    """Has something to say of half a second or more only."""

    def transcribe(self, audio: FloatArray, *rest: Any, **named: Any) -> BufferText:
        heard = super().transcribe(audio, *rest, **named)
        return heard if audio.size >= 8_000 else BufferText(())


def test_the_first_text_is_the_first_that_says_something() -> None:
    """A quarter of a second at a time, each told of when it was captured."""
    clock = [10.0]
    told = Captioner(Late(), Loud(), OPTIONS, now=lambda: clock[0])
    for _ in range(4):
        clock[0] += 0.256
        list(told.feed(spoken(0, 0.256), captured_s=clock[0]))
    (first,) = told.statistics.first_latency_s.seconds
    assert first == pytest.approx(0.512)


@pytest.mark.parametrize(
    ("captured_s", "now_s", "behind_s"),
    [
        (1.2, 1.4, 0.3),  # as it was said
        (1.2, 30.0, 28.9),
        (0.1, 0.6, 0.0),  # a pipe had all of it at once
        (None, 30.0, 0.0),  # a file waits for nobody
    ],
)
def test_live_captions_say_how_far_they_are_behind(
    captured_s: float | None, now_s: float, behind_s: float
) -> None:
    clock = [0.0]
    told = Captioner(Speller(), Loud(), OPTIONS, now=lambda: clock[0])
    clock[0] = now_s
    audio = np.concatenate([silence(0.512), spoken(0, 0.512), silence(0.128)])
    events = list(told.feed(audio, captured_s=captured_s))
    assert isinstance(events[-1], Completed)
    assert told.statistics.behind_s == pytest.approx(behind_s, abs=0.15)


def test_every_event_says_how_far_the_stream_and_the_clock_have_come() -> None:
    told = captioner(Speller(), ticks=(5.0, 5.5, 5.75))
    (started,) = told.feed(spoken(0, 4 * FRAME / 16_000))
    assert isinstance(started, Started)
    assert (started.segment_id, started.start_s, started.at_s) == (0, 0.0, 0.5)
    assert started.heard_s == pytest.approx(4 * 0.032)


class Timed(Speller):
    """Takes 10 ms of the decoder for each buffer, and two passes."""

    def transcribe(self, audio: FloatArray, *rest: Any, **named: Any) -> BufferText:
        heard = super().transcribe(audio, *rest, **named)
        return replace(heard, passes=2, near_ties=1, timings=Timings(decode_ms=10.0))


def test_what_partials_cost_is_told_apart_from_final_texts() -> None:
    told = captioner(Timed())
    audio = np.concatenate([speech(range(6)), silence(0.2)])
    for at in range(0, audio.size, 3200):
        list(told.feed(audio[at : at + 3200]))
    figures = told.statistics
    assert (figures.n_calls, figures.n_partials, figures.n_full) == (5, 4, 1)
    assert (figures.partial_passes, figures.partial_decode_ms) == (8, 40.0)
    assert (figures.near_ties, figures.n_words) == (5, 6)
    assert figures.n_heard_samples > figures.n_segment_samples == 28_672
    assert figures.n_stream_samples == 29_696


def test_the_end_comes_once() -> None:
    told = captioner(Speller())
    list(told.feed(speech(range(2))))
    assert [type(event) for event in told.finish()] == [Completed]
    n_samples = told.statistics.n_stream_samples
    assert list(told.finish()) == []
    assert told.statistics.n_stream_samples == n_samples


def test_figures_add_up() -> None:
    figures = CaptionStatistics(
        n_calls=5, n_partials=4, n_full=1, n_heard_samples=80_000, n_segment_samples=32_000,
        n_stream_samples=48_000, compute_s=0.5, partial_passes=6, partial_decode_ms=100.0,
        n_skipped=2, near_ties=3, n_words=10, n_corrected=4, n_lost_samples=8_000, n_faults=1,
        longest_backlog_s=0.7, n_engine_faults=2,
    )  # fmt: skip
    told = figures.as_json()
    assert told.pop("memory_mib") > 1
    assert told == {
        "calls": 5, "partials": 4, "full_segments": 1, "frames": 80_000, "speech_s": 5.0,
        "compute_s": 0.5, "rtfx_recounted": 10.0, "rtfx": 4.0, "segment_s": 2.0, "stream_s": 3.0,
        "first_partial_latency_s_median": None, "first_partial_latency_s_p95": None,
        "final_latency_s_median": None, "final_latency_s_p95": None, "passes_per_partial": 1.5,
        "decode_ms_per_partial": 25.0, "skipped_partials": 2, "corrections_per_word": 0.4,
        "near_ties": 3, "words": 10, "longest_backlog_s": 0.7, "lost_s": 0.5, "absences": 0,
        "away_s": 0.0, "paused_s": 0.0, "source_faults": 1, "engine_faults": 2,
    }  # fmt: skip


def test_before_anything_was_heard_there_are_no_figures() -> None:
    figures = CaptionStatistics()
    told = figures.as_json()
    del told["memory_mib"]
    assert {value for value in told.values() if value} == set()
    assert (figures.behind_s, told["rtfx"], told["compute_s"]) == (0.0, None, 0.0)


def test_segments_add_up_by_their_language() -> None:
    figures = CaptionStatistics()
    figures.note_segment("de", 16_000, 5, 2)
    figures.note_segment("en", 8_000, 3, 1)
    figures.note_segment("de", 8_000, 2, 0)
    assert (figures.n_full, figures.n_segment_samples) == (3, 32_000)
    assert (figures.n_words, figures.n_corrected) == (10, 3)
    assert figures.words_in == {"de": 7, "en": 3}


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1024 * 1024)])
def test_memory_is_told_in_mebibytes_whatever_the_system_counts_in(
    monkeypatch: pytest.MonkeyPatch, system: str, unit: int
) -> None:
    monkeypatch.setattr("sys.platform", system)
    peak = SimpleNamespace(ru_maxrss=3 * unit)
    monkeypatch.setattr("resource.getrusage", lambda _: peak)
    assert CaptionStatistics().as_json()["memory_mib"] == 3.0


def test_figures_have_as_many_digits_as_mean_something_and_latencies_their_percentiles() -> None:
    figures = CaptionStatistics(
        n_calls=1, n_partials=3, partial_passes=4, compute_s=0.123456, n_away=2,
        n_away_samples=24_000, n_paused_samples=40_000,
    )  # fmt: skip
    for latencies, scale in ((figures.first_latency_s, 1.0), (figures.final_latency_s, 2.0)):
        for hundredth in range(101):
            latencies.add(scale * hundredth / 100)
    told = figures.as_json()
    assert (told["first_partial_latency_s_median"], told["first_partial_latency_s_p95"]) == (
        0.5, 0.95,
    )  # fmt: skip
    assert (told["final_latency_s_median"], told["final_latency_s_p95"]) == (1.0, 1.9)
    assert (told["compute_s"], told["passes_per_partial"]) == (0.1235, 1.3333)
    assert (told["absences"], told["away_s"], told["paused_s"]) == (2, 1.5, 2.5)
    assert (told["rtfx"], told["corrections_per_word"]) == (0.0, None)


def test_percentiles_of_latencies() -> None:
    latencies = Latencies()
    latencies.add(None)
    assert latencies.percentile(50) is None
    for seconds in (0.1, 0.2, 0.3, 0.4, 1.0):
        latencies.add(seconds)
    assert latencies.percentile(50) == pytest.approx(0.3)
    assert latencies.percentile(95) == pytest.approx(0.88)
