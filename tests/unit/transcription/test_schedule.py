"""The encoder runs one batch ahead of the decoder, and nothing else changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pytest

from tests.unit.shapes import toy_spec
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import FloatArray, Segment
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.prefetch import Prefetch
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import Schedule
from whisper_hailo.transcription.sources import Listed, in_order
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.turns import PATIENCE
from whisper_hailo.transcription.window import Context, Encoded, WindowRequest, WindowResult

PLAN = WindowPlan(window_s=2.0, margin_s=1.0)
WAIT_S = 10


@dataclass
class Encoder:
    """Gives each window's loudness; notes where it ran; waits or fails on request."""

    threads: list[str] = field(default_factory=list)
    ready: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    fail_at: int = -1
    spec = toy_spec()

    def encode(self, mel: FloatArray) -> FloatArray:
        self.threads.append(threading.current_thread().name)
        self.ready.release()
        if len(self.threads) == self.fail_at:
            raise DeviceError("the chip went away; try again")
        return mel.max(axis=(1, 2), keepdims=True)


@dataclass
class Interpreter:
    """Says a window's start; with `waits`, only once the encoder has begun the one after."""

    encoder: Encoder
    n_windows: int = 0
    waits: bool = False
    n_begun: int = 0
    n_encoded: list[int] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    batch_key: str = ""

    def context(self) -> Context:
        return Context("en")

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        audio_features = encoded.features
        assert audio_features is not None
        assert len(audio_features) == len(requests)
        self.heard += audio_features[:, 0, 0].tolist()
        while self.waits and self.n_begun < min(len(self.heard) + 1, self.n_windows):
            assert self.encoder.ready.acquire(timeout=WAIT_S), "nothing was encoded ahead"
            self.n_begun += 1
        self.n_encoded.append(len(self.encoder.threads))
        with encoded.clock.stage("decode"):
            return [_result(request.window) for request in requests]


def _result(window: Window) -> WindowResult:
    text = f"{window.start_s:g}"
    segment = Segment(window.start_s, window.end_s, text, (1,), 0.0, 0.0)
    return WindowResult(
        window, Decoded((1,), 0.0, 0.0, runaway=False), (segment,), window.content_s
    )


def _noise(seconds: int, seed: int = 0) -> FloatArray:
    """Every second louder than the one before."""
    noise = np.random.default_rng(seed).standard_normal(16_000 * seconds)
    return (noise * np.repeat(np.arange(1, seconds + 1), 16_000) / 100).astype(np.float32)


def _run(
    sources: Sequence[Any],
    encoder: Encoder,
    interpreter: Interpreter,
    strategy: str = "consecutive",
    *,
    ahead: bool = True,
    batch_size: int = 1,
    progress: Any = None,
) -> Iterator[Recording]:
    stages = Stages(encoder, interpreter, PLAN)  # type: ignore[arg-type]
    recordings = (_recording(source, strategy) for source in sources)
    return in_order(
        recordings,
        lambda source: Schedule(source, stages, batch_size, progress, encode_ahead=ahead),
    )


def _recording(
    source: Any, strategy: str = "consecutive", priority: int = 0, kind: type = Recording
) -> Any:
    long = LongOptions(strategy=strategy)
    return kind(source, Context("en"), PLAN, DecodingOptions(), long, priority=priority)


def _texts(outcomes: Iterator[Recording]) -> list[list[str]]:
    return [
        [] if outcome.failure else [segment.text for segment in outcome.segments]
        for outcome in outcomes
    ]


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("encode")}


def test_the_next_window_is_encoded_while_the_last_is_decoded() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder, n_windows=5, waits=True)
    assert _texts(_run([_noise(5)], encoder, interpreter)) == [["0", "1", "2", "3", "4"]]
    assert all(name.startswith("encode") for name in encoder.threads)
    assert interpreter.heard == sorted(interpreter.heard)
    assert not _threads()


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["consecutive", "overlap", "seek"])
def test_it_changes_nothing(strategy: str, batch_size: int) -> None:
    results = []
    for ahead in (True, False):
        encoder = Encoder()
        interpreter = Interpreter(encoder)
        sources = [_noise(4), _noise(1, 1), _noise(3, 2)]
        texts = _texts(
            _run(sources, encoder, interpreter, strategy, ahead=ahead, batch_size=batch_size)
        )
        results.append((texts, sorted(interpreter.heard)))
        if not ahead:
            assert set(encoder.threads) == {threading.current_thread().name}
    assert results[0] == results[1]
    assert len(results[0][0]) == 3


def test_never_more_than_one_batch_ahead() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder)
    list(_run([_noise(30)], encoder, interpreter))
    decoded = np.arange(1, 31)
    assert np.all(np.array(interpreter.n_encoded) <= decoded + 1)
    assert len(encoder.threads) == 30


def test_windows_that_wait_for_each_other_are_not_encoded_ahead() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder)
    list(_run([_noise(6)], encoder, interpreter, "seek"))
    assert interpreter.n_encoded == list(range(1, len(interpreter.n_encoded) + 1))
    assert set(encoder.threads) == {threading.current_thread().name}


def test_one_window_needs_no_thread() -> None:
    encoder = Encoder()
    assert _texts(_run([_noise(1)], encoder, Interpreter(encoder))) == [["0"]]
    assert encoder.threads == [threading.current_thread().name]


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_belongs_to_its_recording(ahead: bool) -> None:
    encoder = Encoder(fail_at=3)
    sources = [_noise(2), _noise(3, 1), _noise(2, 2)]
    outcomes = list(_run(sources, encoder, Interpreter(encoder), ahead=ahead))
    assert [type(outcome.failure).__name__ for outcome in outcomes] == [
        "NoneType", "DeviceError", "NoneType",
    ]  # fmt: skip
    assert not _threads()


def test_an_interruption_ends_the_thread_too() -> None:
    encoder = Encoder()
    n_windows = 0

    def interrupt(_done_s: float, _all_s: float | None) -> None:
        nonlocal n_windows
        n_windows += 1
        if n_windows == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(_run([_noise(30)], encoder, Interpreter(encoder), progress=interrupt))
    assert not _threads()
    assert len(encoder.threads) <= 4


def test_a_caller_that_loses_interest_ends_the_thread_too() -> None:
    encoder = Encoder()
    outcomes = _run([_noise(2), _noise(30)], encoder, Interpreter(encoder))
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert not _threads()


def test_results_come_in_the_order_they_are_asked_for() -> None:
    with Prefetch(lambda x: 10 // x) as ahead:
        two, zero, five = (ahead.begin(x) for x in (2, 0, 5))
        assert five.result() == 2
        with pytest.raises(ZeroDivisionError):
            zero.result()
        assert two.result() == 5


@dataclass
class Chip(Encoder, Closing):
    """Works by itself: what it is given is not looked at before the result is asked for."""

    order: list[str] = field(default_factory=list)
    name = "chip"
    n_frames = 200

    def close(self) -> None:
        """Nothing is held."""

    def encode_async(self, mel: FloatArray) -> Any:
        self.order.append("begun")
        return ChipRun(self, mel)


@dataclass
class ChipRun:
    chip: Chip
    mel: FloatArray
    took_ms: float = 31.4

    def result(self) -> FloatArray:
        self.chip.order.append("asked")
        return self.chip.encode(self.mel)


def test_an_encoder_that_works_by_itself_needs_no_thread() -> None:
    chip = Chip()
    interpreter = Interpreter(chip)
    (outcome,) = _run([_noise(4)], chip, interpreter)
    assert outcome.failure is None
    assert [segment.text for segment in outcome.segments] == ["0", "1", "2", "3"]
    assert chip.order == ["begun", "begun", "asked", "begun", "asked", "begun", "asked", "asked"]
    assert set(chip.threads) == {threading.current_thread().name}
    assert outcome.context.clock.timings().encode_ms == pytest.approx(4 * 31.4), "the chip's time"


def test_its_errors_belong_to_their_recordings_too() -> None:
    chip = Chip(fail_at=3)
    outcomes = list(_run([_noise(2), _noise(3, 1), _noise(2, 2)], chip, Interpreter(chip)))
    assert [type(outcome.failure).__name__ for outcome in outcomes] == [
        "NoneType", "DeviceError", "NoneType",
    ]  # fmt: skip


def test_what_cannot_even_begin_is_told_when_its_turn_comes() -> None:
    def start(_x: int) -> Any:
        raise DeviceError("the chip went away; try again")

    with Prefetch(lambda x: x, start) as ahead:
        waiting = ahead.begin(1)
        with pytest.raises(DeviceError):
            waiting.result()


class Faulty(Recording):
    """Breaks in a way that nobody foresaw."""

    at = ""

    def open(self) -> Self:
        if self.at == "begin":
            raise AttributeError("no attribute 'rate'")
        return super().open()

    def next(self) -> WindowRequest | None:
        if self.at == "next" and self._n_waiting:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return super().next()

    def take(self, result: WindowResult) -> None:
        if self.at == "take":
            raise IndexError("no such channel")
        super().take(result)

    def finish(self) -> None:
        if self.at == "finish":
            raise ZeroDivisionError("no words")
        super().finish()


class FaultyInterpreter(Interpreter):
    """Cannot hear what is silent."""

    def transcribe(self, encoded: Encoded, requests: Sequence[WindowRequest]) -> list[WindowResult]:
        if not all(request.window.audio.any() for request in requests):
            raise FloatingPointError("no loudness")
        return super().transcribe(encoded, requests)


@pytest.mark.parametrize("batch_size", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("at", "error"),
    [
        ("begin", AttributeError),
        ("next", UnicodeDecodeError),
        ("take", IndexError),
        ("finish", ZeroDivisionError),
        ("hear", FloatingPointError),
    ],
)
def test_an_error_that_nobody_foresaw_costs_one_recording(
    at: str, error: type[Exception], batch_size: int
) -> None:
    encoder = Encoder()
    stages = Stages(encoder, FaultyInterpreter(encoder, 100), PLAN)  # type: ignore[arg-type]

    def begun(name: str) -> Recording:
        audio = _noise(4)
        audio[:16_000] *= name != "hear"
        recording: Faulty = _recording(audio, kind=Faulty)
        recording.at = name
        return recording

    first, broken, last = in_order(
        map(begun, ["", at, ""]), lambda source: Schedule(source, stages, batch_size)
    )
    assert isinstance(broken.failure, error)
    for outcome in (first, last):
        assert outcome.failure is None
        assert [segment.text for segment in outcome.segments] == ["0", "1", "2", "3"]


class Growing:
    """Recordings that come when so many windows are transcribed; a live one does not wait."""

    def __init__(self, engine: Interpreter, coming: list[tuple[int, Recording]]) -> None:
        self._engine = engine
        self._coming = coming

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        for index, (after, recording) in enumerate(self._coming):
            here = idle or len(self._engine.heard) >= after
            if here and (n_free or recording.priority < 0):
                return self._coming.pop(index)[1]
        return None

    def rows(self, most: int) -> int:
        return most

    def wait(self, coming: Future[Any]) -> bool:
        wait((coming,))
        return True


@pytest.mark.parametrize("batch_size", [1, 2])
def test_what_is_urgent_goes_before_what_is_under_way(batch_size: int) -> None:
    encoder = Encoder()
    engine = Interpreter(encoder)
    archive, live = _recording(_noise(9), "seek"), _recording(_noise(1, 5), "seek", priority=-1)
    late = _recording(_noise(1, 6), "seek")
    source = Growing(engine, [(0, archive), (3, live), (50, late)])
    stages = Stages(encoder, engine, PLAN)  # type: ignore[arg-type]
    done = list(Schedule(source, stages, batch_size).run())
    assert done == [live, archive, late]
    assert [len(one.segments) for one in done] == [1, 9, 1]
    loud = [round(100 * value) for value in engine.heard]
    alone = Interpreter(encoder)
    stages = Stages(encoder, alone, PLAN)  # type: ignore[arg-type]
    list(Schedule(Listed([_recording(_noise(1, 5))]), stages).run())
    assert loud.index(round(100 * alone.heard[0])) == 3, "behind what was under way"


def test_what_is_urgent_makes_no_other_batch_wait_encoded() -> None:
    """However often it goes first, one batch lies encoded behind what is decoded."""
    chip = Chip()
    waiting: list[int] = []

    class Noting(Interpreter):
        def transcribe(
            self, encoded: Encoded, requests: Sequence[WindowRequest]
        ) -> list[WindowResult]:
            found = super().transcribe(encoded, requests)
            waiting.append(chip.order.count("begun") - len(self.heard))
            return found

    engine = Noting(chip)
    live = [(n, _recording(_noise(1, n), priority=-1)) for n in (2, 3, 5)]
    source = Growing(engine, [(0, _recording(_noise(9))), *live])
    stages = Stages(chip, engine, PLAN)  # type: ignore[arg-type]
    assert len(list(Schedule(source, stages).run())) == 4
    assert len(waiting) == 12
    assert max(waiting) == 1


class AtOnce:
    """Recordings of many clients, whatever room there is."""

    def __init__(self, coming: list[Recording]) -> None:
        self._coming = coming

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del n_free, idle
        return self._coming.pop(0) if self._coming else None

    def rows(self, most: int) -> int:
        return most

    def wait(self, coming: Future[Any]) -> bool:
        wait((coming,))
        return True


@pytest.mark.parametrize("strategy", ["seek", "consecutive"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_however_much_is_urgent_what_waits_has_a_share(strategy: str, n_classes: int) -> None:
    order: list[int] = []

    class Noted(Recording):
        def take(self, result: WindowResult) -> None:
            order.append(self.priority)
            super().take(result)

    def noted(audio: FloatArray, priority: int) -> Recording:
        recording: Recording = _recording(audio, strategy, priority, Noted)
        return recording

    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    flood = [noted(_noise(1, 50 + n), -1) for n in range(80)]
    patient = [noted(_noise(3, 7 + n), n) for n in range(n_classes - 1)]
    assert all(not one.failure for one in Schedule(AtOnce([*flood, *patient]), stages).run())
    for priority in range(n_classes - 1):
        places = [place for place, other in enumerate(order) if other == priority][:3]
        gaps = np.diff([-1, *places])
        assert max(gaps) <= PATIENCE + n_classes, "nobody waits for ever"
        assert min(gaps) > PATIENCE, "what is urgent goes first nevertheless"


def test_a_list_waits_for_no_encoder() -> None:
    """The next window is drawn meanwhile; this one never comes."""
    assert not Listed([]).wait(Future())
