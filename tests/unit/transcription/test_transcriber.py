"""Segments as they come, and options that are refused before anything is read."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime import InferenceSession

from tests.fakes.model_sizes import TINY, toy_spec
from tests.fakes.words import TOKENIZER
from tests.unit.transcription.test_decoder_engine import Rows
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Transcript
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import PRESETS, DecodingOptions, TokenLimits
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.window import WindowResult
from whisper_hailo_lab.clip_archives import unpack_clips

DEMO = ASSETS / "demo.flac"
OPTIONS = DecodingOptions(anti_repetition=PRESETS["conservative"])


@pytest.fixture(scope="module")
def long() -> FloatArray:
    """Four sentences with three seconds between them."""
    pause = np.zeros(3 * SAMPLE_RATE_HZ, np.float32)
    clips = [
        load_audio(unpack_clips() / "seen" / f"seen-00{index}.ogg")
        for index in range(4)
    ]
    return np.concatenate([part for clip in clips for part in (clip, pause)])


@pytest.mark.parametrize(
    "strategy",
    [
        "overlap",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("seek", "consecutive")
        ),
    ],
)
def test_segments_come_one_by_one(
    micro_of_10_s: Transcriber, long: FloatArray, strategy: str
) -> None:
    micro = micro_of_10_s
    options = LongOptions(strategy=strategy)
    reports: list[float] = []
    times_s: list[float] = []
    segments = []
    for segment in micro.segments(
        long,
        OPTIONS,
        lambda done_s, _: reports.append(done_s),
        long=options,
        batch_size=1,
    ):
        segments.append(segment)
        times_s.append(reports[-1])
    assert (
        tuple(segments)
        == micro.transcribe(long, OPTIONS, long=options, batch_size=1).segments
    )
    assert len(segments) >= 3
    assert times_s[0] < times_s[-1], (
        "the first came before the last window was transcribed"
    )


def test_closed_segments_end_the_work(
    micro_of_10_s: Transcriber, long: FloatArray
) -> None:
    reports: list[float] = []
    options = LongOptions(strategy="consecutive")
    segments = micro_of_10_s.segments(
        long,
        OPTIONS,
        lambda done_s, _: reports.append(done_s),
        long=options,
        batch_size=1,
    )
    assert next(segments).text
    n_windows = len(reports)
    segments.close()
    assert len(reports) == n_windows < len(long) / SAMPLE_RATE_HZ / 9


def test_unreadable_file_fails_at_the_first_segment(micro: Transcriber) -> None:
    segments = micro.segments("nowhere.wav", OPTIONS)
    with pytest.raises(AudioError, match=r"nowhere\.wav"):
        next(segments)


def test_wrong_options_are_refused_at_once(micro: Transcriber) -> None:
    wrong = DecodingOptions(language="klingon")
    with pytest.raises(OptionError, match="klingon"):
        micro.segments("nowhere.wav", wrong)
    with pytest.raises(OptionError, match="klingon"):
        micro.transcribe_many(["nowhere.wav"], wrong)
    with pytest.raises(OptionError, match="--batch-size is 0"):
        micro.transcribe_many(["nowhere.wav"], OPTIONS, batch_size=0)


def test_transcribe_many_calls_progress(micro: Transcriber) -> None:
    reports: list[tuple[float, float | None]] = []
    silence = np.zeros(SAMPLE_RATE_HZ * 12, np.float32)
    everything = LongOptions(skip_silence=False)
    list(
        micro.transcribe_many(
            [silence], OPTIONS, lambda *done: reports.append(done), long=everything
        )
    )
    assert reports[-1] == (12.0, 12.0)


def test_transcribe_reaches_the_graph_in_nine_frames(
    micro: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = InferenceSession.run_with_iobinding
    ways = set()

    def run(self: InferenceSession, *arguments: Any) -> Any:
        way = []
        frame = sys._getframe(1)
        while frame.f_code is not Transcriber.transcribe.__code__:
            way.append(frame.f_code.co_qualname)
            assert frame.f_back is not None
            frame = frame.f_back
        ways.add(tuple(way))
        return ran(self, *arguments)

    monkeypatch.setattr(InferenceSession, "run_with_iobinding", run)
    assert micro.transcribe(unpack_clips() / "seen" / "seen-000.ogg", OPTIONS).text
    aligning = {way for way in ways if "align_words" in way}
    assert max(len(way) for way in ways - aligning) <= 8, ways
    assert max(len(way) for way in aligning) <= 11, ways


class Levels(Closing):
    """Audio features are how loud a window is, from 1 to 5."""

    name = "levels"
    n_frames = None
    spec = replace(toy_spec(), dims=TINY)

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def open(self) -> Levels:
        return self

    def close(self) -> None:
        pass

    def encode(self, mel: FloatArray) -> FloatArray:
        self.shapes.append(mel.shape)
        loud = np.rint(mel.max(axis=(1, 2)) * 2)
        return np.clip(loud, 1, 5).reshape(-1, 1, 1).astype(np.float32)


class Open(Rows, Closing):
    """Rows that can be opened."""

    def open(self) -> Open:
        return self

    def close(self) -> None:
        pass


@pytest.fixture
def transcriber() -> Iterator[Transcriber]:
    plan = WindowPlan.make(TINY, 2)
    with Transcriber(Levels(), Open(), TOKENIZER, plan, reasons=("made up",)) as opened:
        yield opened


def noise(seconds: float, loudness: float = 0.1) -> FloatArray:
    samples = np.random.default_rng(0).standard_normal(round(seconds * 16_000))
    return (loudness * samples).astype(np.float32)


EVERYTHING = LongOptions(skip_silence=False)
"""Noise stands for speech here."""

CONSECUTIVE = replace(EVERYTHING, strategy="consecutive")


def test_transcript_has_name_language_and_task(transcriber: Transcriber) -> None:
    transcript = transcriber.transcribe(
        noise(2.5), DecodingOptions(language="auto"), long=CONSECUTIVE
    )
    assert transcript.duration_s == 2.5
    assert transcript.task == "transcribe"
    assert transcript.language == next(iter(transcript.language_probs))
    assert len(transcript.segments) == 3, "each window has 1 s of audio"
    assert transcript.settings.reasons == ("made up",)
    assert transcript.timings.total_ms > 0
    assert transcript.timings.load_ms > 0, "how long it took to open the parts"
    options = DecodingOptions(language="de", task="translate")
    german = transcriber.transcribe(noise(0.5), options, long=EVERYTHING)
    assert german.language == "de"
    assert german.task == "translate"
    assert german.language_probs == {}


def test_sample_rate_sets_the_duration(transcriber: Transcriber) -> None:
    """However they are asked about."""
    half = noise(0.5)
    english = DecodingOptions("en")
    segments = transcriber.segments(half, english, sample_rate=8000, long=EVERYTHING)
    assert list(segments)
    (listed,) = transcriber.transcribe_many(
        [half], english, sample_rate=8000, long=EVERYTHING
    )
    assert isinstance(listed, Transcript)
    whole = transcriber.transcribe(half, english, sample_rate=8000, long=EVERYTHING)
    assert [
        transcript.duration_s for transcript in (segments.transcript, listed, whole)
    ] == [1.0] * 3


@pytest.mark.parametrize(("window_s", "first"), [(0.1, 20), (0.2, 29)])
def test_timestamps_end_with_the_encoder_s_window(window_s: float, first: int) -> None:
    """Whatever the decoder was trained on: 0.18 s, which it wants to begin with, are id 29."""

    class Late(Open):
        def step(self, *fed: Any, **named: Any) -> Any:
            output, after = super().step(*fed, **named)
            output.logits[:, -1, 29] = 19.0
            return output, after

    plan = WindowPlan.make(TINY, window_s)
    with Transcriber(Levels(), Late(), TOKENIZER, plan) as late:
        limits = TokenLimits(max_per_second=None)  # words behind the first time
        options = DecodingOptions("en", timestamps=True, limits=limits)
        transcript = late.transcribe(noise(0.04), options, long=EVERYTHING)
    assert transcript.segments[0].tokens[0] == first


def test_recordings_of_a_run_share_turns(
    transcriber: Transcriber,
) -> None:
    run = TranscriptionRun(transcriber, DecodingOptions(language="en"))
    audio = noise(0.5)
    assert run.recording(audio).share is run.recording(audio).share
    assert run.recording(audio).context is not run.recording(audio).context
    assert run.recording_of(Recording, audio).priority == 0
    urgent = run.recording_of(Recording, audio, priority=-1)
    assert urgent.priority == -1
    assert urgent.engine is run.recording(audio).engine is not None


def test_transcribe_many_with_unreadable_file_goes_on(
    transcriber: Transcriber, tmp_path: Path
) -> None:
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    sources = [noise(0.5), tmp_path / "bad.wav", noise(0.5)]
    first, bad, last = transcriber.transcribe_many(
        sources, long=CONSECUTIVE, batch_size=2
    )
    assert isinstance(bad, AudioError)
    assert isinstance(first, Transcript)
    assert isinstance(last, Transcript)
    assert first.text == last.text != ""
    with pytest.raises(AudioError):
        transcriber.transcribe(tmp_path / "bad.wav")


def test_batch_size_is_at_most_256(
    transcriber: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_windows: list[int] = []
    decode = DecoderEngine.decode_windows

    def noted(self: DecoderEngine, encoded: Any, requests: Any) -> Any:
        n_windows.append(len(requests))
        return decode(self, encoded, requests)

    monkeypatch.setattr(DecoderEngine, "decode_windows", noted)
    transcriber.transcribe(
        noise(5.0), DecodingOptions("en"), long=CONSECUTIVE, batch_size=2
    )
    assert n_windows == [2, 2, 1]
    n_windows.clear()
    transcriber.transcribe(
        noise(5.0), DecodingOptions("auto"), long=CONSECUTIVE, batch_size=2
    )
    assert n_windows == [1, 2, 2], "the first tells the language"
    transcriber.transcribe(noise(0.1), long=EVERYTHING, batch_size=256)
    for wrong in (0, 257):
        with pytest.raises(OptionError, match=f"--batch-size is {wrong}"):
            transcriber.transcribe(noise(0.1), long=EVERYTHING, batch_size=wrong)


def test_trimmed_windows_have_their_audio_and_margin(
    transcriber: Transcriber,
) -> None:
    encoder = transcriber.encoder
    assert isinstance(encoder, Levels)
    transcriber.transcribe(noise(0.5), long=EVERYTHING)
    assert encoder.shapes[-1] == (1, 80, 200)
    ten = replace(transcriber)
    assert ten.content_s == 1.0
    assert ten.encoder is encoder


def test_batch_time_is_shared_by_its_recordings(transcriber: Transcriber) -> None:
    """Two recordings in one batch: the stages of both together are those of the batch."""
    many = list(
        transcriber.transcribe_many([noise(0.5)] * 2, long=CONSECUTIVE, batch_size=2)
    )
    first, second = (transcript.timings for transcript in many)  # type: ignore[union-attr]
    assert first.encode_ms == second.encode_ms > 0
    assert first.decode_ms == second.decode_ms <= first.total_ms


def test_replace_exchanges_one_part(transcriber: Transcriber) -> None:
    encoder = Levels()
    decoder = Open()
    changed = replace(transcriber, encoder=encoder, decoder=decoder)
    assert changed.encoder is encoder
    assert changed.decoder is decoder
    assert changed.tokenizer is transcriber.tokenizer
    other = Tokenizer(TOKENIZER.backend, TOKENIZER.special)
    assert replace(transcriber, tokenizer=other).tokenizer is other is not TOKENIZER
    same = replace(transcriber)
    assert same.encoder == transcriber.encoder
    assert same.decoder == transcriber.decoder
    assert same.tokenizer == transcriber.tokenizer
    assert same.reasons == transcriber.reasons
    assert same.content_s == transcriber.content_s


Call = Callable[..., object]
CALLS: dict[str, Callable[[Transcriber], Call]] = {
    "transcribe": lambda transcriber: transcriber.transcribe,
    "segments": lambda transcriber: (
        lambda audio, *rest, **named: list(transcriber.segments(audio, *rest, **named))
    ),
    "transcribe_many": lambda transcriber: (
        lambda audio, *rest, **named: list(
            transcriber.transcribe_many([audio], *rest, **named)
        )
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_transcriber_methods_all_call_progress(
    transcriber: Transcriber,
    caplog: pytest.LogCaptureFixture,
    call: Callable[[Transcriber], Call],
) -> None:
    """To a function, or else to the log; without options of their own."""
    transcribe = call(transcriber)
    reports: list[tuple[float, float | None]] = []
    with caplog.at_level("INFO", "whisper_hailo"):
        transcribe(
            noise(0.5), None, lambda *done: reports.append(done), long=EVERYTHING
        )
        assert reports == [(0.5, 0.5)]
        transcribe(noise(0.5), long=EVERYTHING)
        assert caplog.messages == []
        transcribe(noise(0.5), long=EVERYTHING, log_progress=True)
    assert caplog.messages == ["0 s of 0 s"]
    assert len(reports) == 1


def test_encode_ahead_off_uses_one_thread(transcriber: Transcriber) -> None:
    """As what is measured does: then all is done by the thread that asks."""

    class Placed(Levels):
        def encode(self, mel: FloatArray) -> FloatArray:
            threads.add(threading.current_thread())
            return super().encode(mel)

    for ahead in (True, False):
        threads: set[threading.Thread] = set()
        placed = replace(transcriber, encoder=Placed(), encode_ahead=ahead)
        for copy in (placed, replace(placed)):
            threads.clear()
            copy.transcribe(noise(5.0), long=CONSECUTIVE, batch_size=1)
            assert (threads == {threading.current_thread()}) is not ahead


def test_transcribe_running_decodes_a_buffer(transcriber: Transcriber) -> None:
    run = TranscriptionRun(transcriber, DecodingOptions("en"))
    request = run.request(PartialBuffer(noise(5.0), Draft((1,)), word_timestamps=True))
    assert request.window.audio.size == 16_000, "a window has 1 s of audio"
    assert request.draft == Draft((1,))
    assert request.word_timestamps
    assert request.context.language == "en"
    decoded = Decoded((1, 2), -0.1, 0.0, runaway=False)
    heard = run.text(WindowResult(request.window, decoded, (), 1.0, language="en"))
    assert heard.text == "w1 w2"


def test_load_ms_is_that_of_the_last_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that goes on by 2 s while it is loaded."""
    times = iter(range(0, 99, 2))
    toy = Transcriber(Levels(), Open(), TOKENIZER, WindowPlan.make(TINY, 2))
    monkeypatch.setattr("whisper_hailo.core.timing.perf_counter", lambda: next(times))
    for _ in range(2):
        with toy:
            run = TranscriptionRun(toy, DecodingOptions("en"))
    recording = run.recording(noise(0.5))
    with recording:
        assert run.transcript(recording).timings.load_ms == 2000.0


class Counted(Closing):
    """An encoder or decoder that counts how often it was opened and closed."""

    name = "counted"

    def __init__(self) -> None:
        self.n_opened = 0
        self.n_closed = 0

    def open(self) -> Counted:
        time.sleep(0.01)  # another thread would open it meanwhile
        self.n_opened += 1
        return self

    def close(self) -> None:
        self.n_closed += 1


def test_open_loads_once_for_all_threads_until_close() -> None:
    encoder: Any = Counted()
    toy = Transcriber(encoder, Open(), TOKENIZER, WindowPlan.make(TINY, 2))
    threads = [threading.Thread(target=toy.open) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert encoder.n_opened == 1
    assert encoder.n_closed == 0
    toy.close()
    toy.close()
    with toy:
        pass
    assert encoder.n_opened == 2
    assert encoder.n_closed == 2


def test_transcribe_without_a_block_loads_the_model(micro: Transcriber) -> None:
    micro.close()
    transcript = micro.transcribe(load_audio(DEMO), OPTIONS)
    assert transcript.text
    assert transcript.settings.model in repr(micro)


def test_detect_language_needs_speech(micro: Transcriber) -> None:
    probs = micro.detect_language(DEMO)
    assert next(iter(probs)) == "en"
    assert sum(probs.values()) == pytest.approx(1.0)
    assert micro.detect_language(np.zeros(8_000, np.int16)) == {}
