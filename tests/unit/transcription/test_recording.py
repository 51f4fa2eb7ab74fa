"""One recording: how it is cut, and what it is told."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from tests.fakes.engine import Encoder, Interpreter
from whisper_hailo.audio import AudioSource, open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.errors import AudioError, DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import Clip, LongOptions
from whisper_hailo.transcription.longform.overlap import OverlapPlanner
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.longform.speech import SpeechPlanner
from whisper_hailo.transcription.recording import Recording, make_planner
from whisper_hailo.transcription.run import Segments
from whisper_hailo.transcription.schedule import (
    RecordingList,
    Schedule,
    transcribe_in_order,
)
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Context, WindowResult

PLAN = WindowPlan(window_s=2.0, margin_s=1.0)
SHOWN = DecodingOptions(prompts=PromptOptions(condition_on_previous_text=True))


def recording(
    source: object,
    long: LongOptions | None = None,
    options: DecodingOptions | None = None,
    language: str = "en",
) -> Recording:
    cut = long or LongOptions("consecutive", skip_silence=False)
    decoding = options or DecodingOptions()
    context = Context(language, detects_each=decoding.detects_each)
    return Recording(source, context, PLAN, decoding, cut)  # type: ignore[arg-type]


def result(window: Window) -> WindowResult:
    decoded = Decoded((1,), 0.0, 0.0, runaway=False)
    segment = Segment(window.start_s, window.end_s, "said", (1,), 0.0, 0.0)
    return WindowResult(window, decoded, (segment,), window.content_s)


@pytest.mark.parametrize(
    ("strategy", "kind", "waits"),
    [
        ("seek", SeekPlanner, True),
        ("vad", SpeechPlanner, False),
        ("overlap", OverlapPlanner, False),
        ("consecutive", OverlapPlanner, False),
    ],
)
def test_planner_is_sequential_where_windows_depend(
    strategy: str, kind: type, waits: bool
) -> None:
    silence = np.zeros(100, np.float32)
    for options, sequential in ((DecodingOptions(), waits), (SHOWN, True)):
        long = LongOptions(strategy, skip_silence=False)
        plan = make_planner(AudioBuffer(iter([silence])), PLAN, options, long)
        assert type(plan) is kind
        assert next(plan.windows(), None) is None or strategy != "vad", "nobody speaks"
        assert plan.sequential is sequential


@pytest.mark.parametrize(("words", "start_s"), [(None, 0.5), (True, 0.25)])
def test_seek_with_words_starts_after_the_last_word(
    words: bool, start_s: float
) -> None:
    """Of a segment up to 0.5 s, the last time in its window, the word ends at 0.25 s."""
    feed = AudioBuffer(iter([np.zeros(32_000, np.float32)]))
    options = DecodingOptions(timestamps=True, word_timestamps=words)
    plan = make_planner(feed, PLAN, options, LongOptions("seek", skip_silence=False))
    windows = plan.windows()
    first = next(windows)
    word = Word(0.0, 0.25, " said", 0.9, (1,))
    said = replace(result(first).segments[0], end_s=0.5, words=(word,))
    plan.take(replace(result(first), segments=(said,), advance_s=0.5))
    assert next(windows).start_s == start_s


@pytest.mark.parametrize(
    ("long", "starts"),
    [
        (LongOptions("overlap"), [0.0, 1 - 0.3333125, 2 - 2 * 0.3333125]),
        (LongOptions("overlap", overlap_s=0.25), [0.0, 0.75, 1.5]),
        (LongOptions("overlap", overlap_s=0.4), [0.0, 0.6, 1.2]),
        (LongOptions("overlap", overlap_s=2.0), [0.0, 0.5, 1.0]),
        (LongOptions("dense"), [0.0, 0.5, 1.0]),
        (LongOptions("dense", overlap_s=0.25), [0.0, 0.75, 1.5]),
        (LongOptions("consecutive", overlap_s=0.25), [0.0, 1.0, 2.0]),
        (LongOptions("consecutive", clips=(Clip(8_000, 16_000),)), [0.5]),
    ],
)
def test_overlap_is_a_third_of_a_short_window_unless_given(
    long: LongOptions, starts: list[float]
) -> None:
    audio = (
        np.random.default_rng(0).standard_normal(3 * SAMPLE_RATE_HZ).astype(np.float32)
    )
    long = replace(long, skip_silence=False)
    plan = make_planner(AudioBuffer(iter([audio])), PLAN, DecodingOptions(), long)
    window_starts = [window.start_s for window in plan.windows()]
    assert window_starts[:3] == pytest.approx(starts)


@pytest.mark.parametrize("words", [False, True])
def test_words_are_dropped_unless_asked_for(
    words: bool,
) -> None:
    """Of the segments that are final at once and of those that are final at last."""
    options = DecodingOptions(word_timestamps=words)
    noise = np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    with recording(
        noise, LongOptions("overlap", skip_silence=False), options
    ) as opened:
        while (request := opened.next()) is not None:
            middle_s = (request.window.start_s + request.window.end_s) / 2
            word = Word(middle_s - 0.05, middle_s + 0.05, " Said.", 0.9, (1,))
            said = replace(
                result(request.window).segments[0], text="Said.", words=(word,)
            )
            opened.take(replace(result(request.window), segments=(said,)))
        opened.finish()
        assert len(opened.segments) == 2
        expected = int(words)
        assert [len(segment.words) for segment in opened.segments] == [expected] * 2


def test_recording_is_done_with_its_last_result() -> None:
    with recording(np.zeros(24_000, np.float32)) as opened:
        assert opened.stream_duration_s == 1.5
        first = opened.next()
        second = opened.next()
        assert first is not None
        assert second is not None
        assert opened.next() is None
        assert not opened.done, "two results are wanted still"
        opened.take(result(first.window))
        assert not opened.done
        opened.take(result(second.window))
        assert opened.done
        assert opened.duration_s == 1.5
        assert [segment.start_s for segment in opened.segments] == [0.0, 1.0]
        assert opened.next() is None


@pytest.mark.parametrize("strategy", ["seek", "consecutive", "overlap"])
def test_final_times_are_rounded(strategy: str) -> None:
    opened = recording(
        np.zeros(16_000, np.float32), LongOptions(strategy, skip_silence=False)
    ).open()
    request = opened.next()
    assert request is not None
    thirds = Segment(1 / 3, 2 / 3, "said", (1,), 0.0, 0.0)
    opened.take(replace(result(request.window), segments=(thirds,)))
    assert opened.next() is None
    opened.finish()
    assert [(segment.start_s, segment.end_s) for segment in opened.segments] == [
        (0.3333, 0.6667)
    ]


def test_sequential_recording_gives_one_window() -> None:
    with recording(np.zeros(24_000, np.float32)) as opened:
        assert not opened.context.sequential
    with recording(np.zeros(24_000, np.float32), options=SHOWN) as opened:
        assert opened.context.sequential
        first = opened.next()
        assert first is not None
        assert opened.next() is None
        opened.take(result(first.window))
        assert opened.next() is not None


@pytest.mark.parametrize(("seconds", "is_alone"), [(119, False), (120, True)])
def test_first_window_of_a_long_recording_goes_alone(
    seconds: int, is_alone: bool
) -> None:
    """Its text can be printed, and kept, before a batch is decoded."""
    with recording(np.zeros(seconds * 16_000, np.float32)) as opened:
        first = opened.next()
        assert first is not None
        second = opened.next()
        assert (second is None) == is_alone
        opened.context.n_windows += 1
        opened.take(result(first.window))
        assert opened.next() is not None
        assert opened.next() is not None


def test_recording_defaults_are_its_own() -> None:
    first, second = (recording(np.zeros(10, np.float32)) for _ in range(2))
    assert first.priority == 0
    assert first.share.n_windows == 0
    assert first.engine is None
    assert first.failure is None
    assert first.share is not second.share
    assert first.duration_s == 0.0
    assert first.segments == []


def test_transcribe_in_order_keeps_no_recordings() -> None:
    """A list of thousands needs no more memory than one of few, whatever order they are done in."""
    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    alive: list[weakref.ref[Recording]] = []

    def listed() -> Iterator[Recording]:
        for n_windows in (3, 1, 1, 2) * 5:
            item = recording(np.zeros(n_windows * 16_000, np.float32), language="en")
            alive.append(weakref.ref(item))
            yield item

    for n_given, item in enumerate(
        transcribe_in_order(listed(), lambda src: Schedule(src, stages, 2)), 1
    ):
        assert item is alive[n_given - 1]()
        del item
        gc.collect(0)
        n_alive = sum(ref() is not None for ref in alive[:n_given])
        assert n_alive <= 4, "two batches of two, at most"


def test_detecting_recording_gives_one_window() -> None:
    """Windows that are detected one by one, whatever the plan, are not batched."""
    with recording(np.zeros(64_000, np.float32), language="auto") as opened:
        assert not opened.context.sequential, (
            "no window is shown the text of the one before"
        )
        for probs in ({"de": 0.4, "en": 0.3}, {"de": 0.7, "en": 0.2}):
            request = opened.next()
            assert request is not None
            assert opened.sequential
            assert opened.next() is None
            opened.context.detect(probs)
            opened.take(result(request.window))
        assert not opened.sequential
        assert opened.next() is not None
        assert opened.next() is not None, "beside the one that is not back"


def test_detect_each_window_gives_all_windows() -> None:
    options = DecodingOptions(detect_each_window=True)
    with recording(
        np.zeros(32_000, np.float32), options=options, language="auto"
    ) as opened:
        assert not opened.sequential
        assert opened.next() is not None
        assert opened.next() is not None


def test_language_without_speech_is_english() -> None:
    assert recording(np.zeros(0, np.float32), language="auto").language == "en"
    assert recording(np.zeros(0, np.float32), language="de").language == "de"


@pytest.mark.parametrize(
    ("start", "is_told"), [(0, False), (15_999, False), (16_000, True)]
)
def test_clips_behind_the_end_are_warned_of(
    caplog: pytest.LogCaptureFixture, start: int, is_told: bool
) -> None:
    clips = (Clip(0, 800), Clip(start, None))[start == 0 :]
    long = LongOptions("consecutive", clips=clips, skip_silence=False)
    with recording(np.zeros(16_000, np.float32), long) as opened:
        while opened.next() is not None:
            pass
        assert opened.next() is None
    warning = "is 1.0 s long; --clip-timestamps asks for what is behind 1 s"
    assert caplog.text.count(warning) == is_told


def test_duration_does_not_depend_on_clips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def open_long(source: AudioSource) -> AudioStream:
        stream = open_audio(source)
        stream.duration_s = 99.0  # a header says so; the file breaks off
        return stream

    monkeypatch.setattr("whisper_hailo.transcription.recording.open_audio", open_long)
    long = LongOptions("seek", clips=(Clip(0, 800),), skip_silence=False)
    with recording(np.zeros(48_000, np.float32), long) as opened:
        window = opened.next()
        assert window is not None
        opened.take(result(window.window))
        assert opened.next() is None
        assert opened.duration_s == 3.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(48_000, np.float32), SAMPLE_RATE_HZ)
    return path


class Noted(Recording):
    """Notes whether its file was given back."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1
        super().close()


def test_closed_schedule_closes_all_files(file: Path) -> None:
    """Two are under way, a window of each in a batch, when nobody wants more of them."""
    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    long = LongOptions("consecutive", skip_silence=False)
    recordings = [
        Noted(file, Context("en"), PLAN, DecodingOptions(), long) for _ in range(2)
    ]
    steps = Schedule(RecordingList(recordings), stages, 2).run_windows()
    assert next(steps) == []
    assert [item.n_closed for item in recordings] == [0, 0]
    steps.close()  # type: ignore[attr-defined]
    assert [item.n_closed for item in recordings] == [1, 1]


@pytest.mark.parametrize("closes", [True, False])
def test_closed_segments_end_the_work(file: Path, *, closes: bool) -> None:
    """By a word or without one: the file is given back, and the thread that encodes ahead ends."""
    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    noted = Noted(
        file,
        Context("en"),
        PLAN,
        DecodingOptions(),
        LongOptions("consecutive", skip_silence=False),
    )
    run = SimpleNamespace(schedule=lambda source: Schedule(source, stages))
    before = set(threading.enumerate())
    segments = Segments(run, noted)  # type: ignore[arg-type]
    assert next(segments).text == "0"
    assert any(name.startswith("encode") for name in encoder.threads)
    if closes:
        segments.close()
        assert list(segments) == []
    del segments
    assert noted.n_closed == 1
    assert set(threading.enumerate()) <= before


def test_segments_precede_the_error(file: Path) -> None:
    encoder = Encoder(fail_at=3)
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    noted = Noted(
        file,
        Context("en"),
        PLAN,
        DecodingOptions(),
        LongOptions("consecutive", skip_silence=False),
    )
    run = SimpleNamespace(schedule=lambda source: Schedule(source, stages))
    segments = Segments(run, noted)  # type: ignore[arg-type]
    assert [next(segments).text, next(segments).text] == ["0", "1"]
    with pytest.raises(DeviceError):
        next(segments)


@pytest.mark.parametrize(
    ("language", "probs", "expected"),
    [
        ("auto", {}, None),
        ("auto", {"de": 0.4, "en": 0.3}, "de"),
        ("fr", {"de": 1.0}, "fr"),
    ],
)
def test_segments_language_is_set_once_detected(
    language: str, probs: dict[str, float], expected: str | None
) -> None:
    """The likeliest one as long as no window is sure."""
    unopened = recording(np.zeros(100, np.float32), language=language)
    unopened.context.language_probs = probs
    run = SimpleNamespace(
        schedule=None, transcript=lambda item: (item, "as far as it is")
    )
    segments = Segments(run, unopened)  # type: ignore[arg-type]
    assert segments.language == expected
    assert segments.language_probs == probs
    assert segments.transcript == (unopened, "as far as it is")


def test_failed_open_leaves_nothing_open(tmp_path: Path) -> None:
    unopened = recording(tmp_path / "not-there.wav")
    with pytest.raises(AudioError):
        unopened.open()
    unopened.close()


def test_failed_recording_is_closed_with_its_error(file: Path) -> None:
    noted = Noted(file, Context("en"), PLAN, DecodingOptions(), LongOptions())
    noted.open()
    error = AudioError("torn")
    noted.fail(error)
    assert noted.failure == error
    assert noted.n_closed == 1
    noted.finish()
    assert noted.segments == []
