"""The encoder runs one batch ahead of the decoder, and nothing else changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pytest

from tests.fakes.engine import (
    PLAN,
    WAIT_S,
    AtOnce,
    Chip,
    Encoder,
    Growing,
    Interpreter,
    noise,
    recording_of,
    run,
    texts,
)
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.transcription.recording import FairShare, Recording
from whisper_hailo.transcription.schedule import (
    PATIENCE,
    QUANTUM,
    SLICE,
    PriorityScheduler,
    RecordingList,
    Schedule,
    WindowSource,
    transcribe_in_order,
)
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult


@pytest.fixture
def encoding_threads() -> Callable[[], set[str]]:
    """Names of the encoders' threads that were started in the test."""
    before = set(threading.enumerate())

    def find() -> set[str]:
        started = set(threading.enumerate()) - before
        return {thread.name for thread in started if thread.name.startswith("encode")}

    return find


def test_next_window_is_encoded_while_one_is_decoded(
    encoding_threads: Callable[[], set[str]],
) -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder, n_windows=5, waits=True)
    assert texts(run([noise(5)], encoder, interpreter)) == [["0", "1", "2", "3", "4"]]
    assert all(name.startswith("encode") for name in encoder.threads)
    assert interpreter.heard == sorted(interpreter.heard)
    assert not encoding_threads()


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["consecutive", "overlap", "seek"])
def test_encode_ahead_does_not_change_results(strategy: str, batch_size: int) -> None:
    results = []
    for ahead in (True, False):
        encoder = Encoder()
        interpreter = Interpreter(encoder)
        sources = [noise(4), noise(1, 1), noise(3, 2)]
        said = texts(
            run(
                sources,
                encoder,
                interpreter,
                strategy,
                ahead=ahead,
                batch_size=batch_size,
            )
        )
        results.append((said, sorted(interpreter.heard)))
        if not ahead:
            assert set(encoder.threads) == {threading.current_thread().name}
    assert results[0] == results[1]
    assert len(results[0][0]) == 3


def test_schedule_encodes_one_batch_ahead_at_most() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder)
    list(run([noise(30)], encoder, interpreter))
    decoded = np.arange(1, 31)
    assert np.all(np.array(interpreter.n_encoded) <= decoded + 1)
    assert len(encoder.threads) == 30


def test_sequential_windows_are_not_encoded_ahead() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder)
    list(run([noise(6)], encoder, interpreter, "seek"))
    assert interpreter.n_encoded == list(range(1, len(interpreter.n_encoded) + 1))
    assert set(encoder.threads) == {threading.current_thread().name}


def test_single_window_needs_no_thread() -> None:
    encoder = Encoder()
    assert texts(run([noise(1)], encoder, Interpreter(encoder))) == [["0"]]
    assert encoder.threads == [threading.current_thread().name]


def test_interruption_ends_the_thread(
    encoding_threads: Callable[[], set[str]],
) -> None:
    encoder = Encoder()
    n_windows = 0

    def interrupt(_done_s: float, _all_s: float | None) -> None:
        nonlocal n_windows
        n_windows += 1
        if n_windows == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run([noise(30)], encoder, Interpreter(encoder), progress=interrupt))
    assert not encoding_threads()
    assert len(encoder.threads) <= 4


def test_closed_iterator_ends_the_thread(
    encoding_threads: Callable[[], set[str]],
) -> None:
    encoder = Encoder()
    outcomes = run([noise(2), noise(30)], encoder, Interpreter(encoder))
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert not encoding_threads()


def test_asynchronous_encoder_needs_no_thread() -> None:
    chip = Chip()
    interpreter = Interpreter(chip)
    (outcome,) = run([noise(4)], chip, interpreter)
    assert outcome.failure is None
    assert [segment.text for segment in outcome.segments] == ["0", "1", "2", "3"]
    assert chip.order == [
        "begun",
        "begun",
        "asked",
        "begun",
        "asked",
        "begun",
        "asked",
        "asked",
    ]
    assert set(chip.threads) == {threading.current_thread().name}
    assert outcome.context.clock.timings().encode_ms == pytest.approx(4 * 31.4), (
        "the chip's time"
    )


@pytest.mark.parametrize("batch_size", [1, 2])
def test_urgent_recording_overtakes(batch_size: int) -> None:
    encoder = Encoder()
    engine = Interpreter(encoder)
    archive = recording_of(noise(9), "seek")
    live = recording_of(noise(1, 5), "seek", priority=-1)
    late = recording_of(noise(1, 6), "seek")
    source = Growing(engine, [(0, archive), (3, live), (50, late)])
    stages = Stages(encoder, engine, PLAN)  # type: ignore[arg-type]
    done = list(Schedule(source, stages, batch_size).run())
    assert done == [live, archive, late]
    assert [len(recording.segments) for recording in done] == [1, 9, 1]
    loud = [round(100 * value) for value in engine.heard]
    alone = Interpreter(encoder)
    stages = Stages(encoder, alone, PLAN)  # type: ignore[arg-type]
    list(Schedule(RecordingList([recording_of(noise(1, 5))]), stages).run())
    assert loud.index(round(100 * alone.heard[0])) == 3, "behind what was under way"


def test_urgent_recordings_leave_one_batch_encoded() -> None:
    """However often it goes first, one batch lies encoded behind what is decoded."""
    chip = Chip()
    waiting: list[int] = []

    class Noting(Interpreter):
        def transcribe(
            self, encoded: Encoded, requests: Sequence[WindowRequest]
        ) -> list[WindowResult]:
            results = super().transcribe(encoded, requests)
            waiting.append(chip.order.count("begun") - len(self.heard))
            return results

    engine = Noting(chip)
    live = [(n, recording_of(noise(1, n), priority=-1)) for n in (2, 3, 5)]
    source = Growing(engine, [(0, recording_of(noise(9))), *live])
    stages = Stages(chip, engine, PLAN)  # type: ignore[arg-type]
    assert len(list(Schedule(source, stages).run())) == 4
    assert len(waiting) == 12
    assert max(waiting) == 1


@pytest.mark.parametrize(("strategy", "n_classes"), [("seek", 2), ("consecutive", 3)])
def test_waiting_work_gets_one_of_nine_batches(strategy: str, n_classes: int) -> None:
    order: list[int] = []

    class Noted(Recording):
        def take(self, result: WindowResult) -> None:
            order.append(self.priority)
            super().take(result)

    def noted(audio: FloatArray, priority: int) -> Recording:
        recording: Recording = recording_of(audio, strategy, priority, Noted)
        return recording

    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    flood = [noted(noise(1, 50 + n), -1) for n in range(80)]
    patient = [noted(noise(3, 7 + n), n) for n in range(n_classes - 1)]
    assert all(
        not recording.failure
        for recording in Schedule(AtOnce([*flood, *patient]), stages).run()
    )
    for priority in range(n_classes - 1):
        positions = [
            position for position, other in enumerate(order) if other == priority
        ][:3]
        gaps = np.diff([-1, *positions])
        assert max(gaps) <= PATIENCE + n_classes, "nobody waits for ever"
        assert min(gaps) > PATIENCE, "what is urgent goes first nevertheless"


def test_recording_list_does_not_wait() -> None:
    """The next window is drawn meanwhile; this one never comes."""
    assert not RecordingList([]).wait(Future())


def test_sequential_recordings_share_batches() -> None:
    """Beside them others are not drawn ahead, so that both recordings fill every batch."""
    engine = Noting()
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    mixed = [recording_of(noise(3), "seek"), recording_of(noise(3))]
    list(Schedule(RecordingList(mixed), stages, 2).run())
    assert engine.batches == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("ahead", "n_drawn"), [(True, [2, 3, 4, 4]), (False, [1, 2, 3, 4])]
)
def test_taking_turns_draws_no_window_ahead(ahead: bool, n_drawn: list[int]) -> None:
    drawn: list[int] = []

    class Counting(Recording):
        n_given = 0

        def next(self) -> WindowRequest | None:
            request = super().next()
            self.n_given += request is not None
            return request

        def take(self, result: WindowResult) -> None:
            drawn.append(self.n_given)
            super().take(result)

    encoder = Encoder()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    counted = recording_of(noise(4), kind=Counting)
    list(Schedule(RecordingList([counted]), stages, encode_ahead=ahead).run())
    assert drawn == n_drawn


def test_batch_time_is_split_evenly() -> None:
    """The chip says how long it took: 31.4 ms for both."""
    chip = Chip()
    stages = Stages(chip, Interpreter(chip), PLAN)  # type: ignore[arg-type]
    both = [recording_of(noise(1, n)) for n in range(2)]
    list(Schedule(RecordingList(both), stages, 2).run())
    assert [
        recording.context.clock.timings().encode_ms for recording in both
    ] == pytest.approx([15.7, 15.7])


def test_transcribe_in_order_keeps_the_order() -> None:
    """Where windows wait for each other a batch has one of each: the shorter are done sooner."""
    encoder = Encoder()
    sources = [noise(3), noise(1), noise(2)]
    recordings = list(run(sources, encoder, Interpreter(encoder), "seek", batch_size=3))
    assert [recording.duration_s for recording in recordings] == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("ahead", [True, False])
def test_error_fails_its_recording_only(
    ahead: bool, encoding_threads: Callable[[], set[str]]
) -> None:
    encoder = Encoder(fail_at=3)
    sources = [noise(2), noise(3, 1), noise(2, 2)]
    outcomes = list(run(sources, encoder, Interpreter(encoder), ahead=ahead))
    assert [type(outcome.failure).__name__ for outcome in outcomes] == [
        "NoneType",
        "DeviceError",
        "NoneType",
    ]
    assert not encoding_threads()


def test_asynchronous_error_fails_its_recording_only() -> None:
    chip = Chip(fail_at=3)
    outcomes = list(run([noise(2), noise(3, 1), noise(2, 2)], chip, Interpreter(chip)))
    assert [type(outcome.failure).__name__ for outcome in outcomes] == [
        "NoneType",
        "DeviceError",
        "NoneType",
    ]


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

    def transcribe(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> list[WindowResult]:
        if not all(request.window.audio.any() for request in requests):
            raise FloatingPointError("no loudness")
        return super().transcribe(encoded, requests)


@pytest.mark.parametrize("batch_size", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("stage", "error"),
    [
        ("begin", AttributeError),
        ("next", UnicodeDecodeError),
        ("take", IndexError),
        ("finish", ZeroDivisionError),
        ("hear", FloatingPointError),
    ],
)
def test_unexpected_error_is_retried_window_by_window(
    stage: str, error: type[Exception], batch_size: int
) -> None:
    encoder = Encoder()
    stages = Stages(encoder, FaultyInterpreter(encoder, 100), PLAN)  # type: ignore[arg-type]

    def begun(name: str) -> Recording:
        audio = noise(4)
        audio[:16_000] *= name != "hear"
        recording: Faulty = recording_of(audio, kind=Faulty)
        recording.at = name
        return recording

    first, broken, last = transcribe_in_order(
        map(begun, ["", stage, ""]), lambda source: Schedule(source, stages, batch_size)
    )
    assert isinstance(broken.failure, error)
    for outcome in (first, last):
        assert outcome.failure is None
        assert [segment.text for segment in outcome.segments] == ["0", "1", "2", "3"]


def test_failed_recording_leaves_the_batch() -> None:
    """Its first window is not decoded for nothing."""
    engine = Noting()
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    broken = recording_of(noise(4), kind=Faulty)
    good = recording_of(noise(2))
    broken.at = "next"
    done = list(Schedule(RecordingList([broken, good]), stages, 4).run())
    assert sorted(recording is broken for recording in done) == [False, True]
    assert engine.batches == [[0, 1]]


def test_expected_error_fails_the_whole_batch() -> None:
    """The chip is not tried once more for each."""
    encoder = Encoder(fail_at=1)
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]
    recordings = [recording_of(noise(1, n)) for n in range(2)]
    done = list(Schedule(RecordingList(recordings), stages, 2).run())
    assert [type(recording.failure) for recording in done] == [DeviceError, DeviceError]
    assert len(encoder.threads) == 1


def test_failed_window_of_a_batch_spares_the_other() -> None:
    encoder = Encoder()
    stages = Stages(encoder, FaultyInterpreter(encoder, 100), PLAN)  # type: ignore[arg-type]
    silent = recording_of(0 * noise(1))
    good = recording_of(noise(1))
    list(Schedule(RecordingList([silent, good]), stages, 2).run())
    assert isinstance(silent.failure, FloatingPointError)
    assert good.failure is None
    assert [segment.text for segment in good.segments] == ["0"]


@dataclass
class Slow(Encoder):
    """In its own thread it is done with a batch when something else was decoded meanwhile."""

    overtaken: threading.Event = field(default_factory=threading.Event)
    n_in_vain: int = 0

    def encode(self, mel: FloatArray) -> FloatArray:
        if threading.current_thread().name.startswith("encode"):
            self.n_in_vain += not self.overtaken.wait(WAIT_S)
        return super().encode(mel)


@dataclass
class Noted(Interpreter):
    """Lets the encoder go on when a window was decoded."""

    def transcribe(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> list[WindowResult]:
        assert isinstance(self.encoder, Slow)
        self.encoder.overtaken.set()
        return super().transcribe(encoded, requests)


class Arriving(AtOnce):
    """Has one recording more when the schedule begins to wait for the encoder."""

    def __init__(self, present: list[Recording], later: Recording) -> None:
        super().__init__(present)
        self._later = [later]

    def wait(self, coming: Future[Any]) -> bool:
        if self._later:
            self.coming.append(self._later.pop())
            return True
        return super().wait(coming)


@pytest.mark.parametrize("strategy", ["seek", "consecutive"])
def test_newcomer_goes_before_an_encoding_batch(strategy: str) -> None:
    encoder = Slow()
    stages = Stages(encoder, Noted(encoder), PLAN)  # type: ignore[arg-type]
    archives = [recording_of(noise(3, n), strategy, 1) for n in range(2)]
    command = recording_of(noise(1, 5), strategy)
    done = list(Schedule(Arriving(archives, command), stages, 2).run())
    assert encoder.n_in_vain == 0, "what is urgent waited for this"
    assert done[0] is command
    assert [recording.failure for recording in done] == [None] * 3
    for archive in archives:
        assert [segment.text for segment in archive.segments] == ["0", "1", "2"]


@pytest.mark.parametrize("is_late", [False, True])
def test_newcomer_is_reported_before_others_are_decoded(is_late: bool) -> None:
    encoder = Slow()
    engine = Noted(encoder)
    stages = Stages(encoder, engine, PLAN)  # type: ignore[arg-type]
    films = [recording_of(noise(3, n), "consecutive", 1) for n in range(2)]
    command = recording_of(noise(1, 5), "consecutive")
    source = AtOnce([command, *films])
    if is_late:
        source = Arriving(films, command)
    for recording in Schedule(source, stages, 2).run():
        if recording is command:
            assert len(engine.heard) == 1
            encoder.overtaken.set()


def test_batch_has_one_priority() -> None:
    engine = Noting()
    command = recording_of(noise(2))
    film = recording_of(noise(3), priority=1)
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    list(Schedule(AtOnce([film, command]), stages, 8).run())
    assert engine.batches == [[0, 1], [0, 1, 2]]


class Stepping(Interpreter):
    """Takes many steps for the windows of one recording; others come while it does."""

    def __init__(
        self, hard: Recording, coming: dict[int, Recording], source: AtOnce
    ) -> None:
        super().__init__(Encoder())
        self._hard = hard
        self._coming_at = coming
        self._source = source
        self.n_steps = 0
        self.begun_at: list[int] = []

    def decode_windows(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        if any(request.context is self._hard.context for request in requests):
            for _ in range(4 * QUANTUM):
                self.n_steps += 1
                if self.n_steps in self._coming_at:
                    self._source.coming.append(self._coming_at[self.n_steps])
                yield
        else:
            self.begun_at.append(self.n_steps)
        return self.transcribe(encoded, requests)


def run_hard(
    hard: Recording, coming: dict[int, Recording]
) -> tuple[list[Recording], list[int]]:
    """Return what is done, in order, and at which steps of the hard one others were decoded."""
    source = AtOnce([hard])
    engine = Stepping(hard, coming, source)
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    return list(Schedule(source, stages).run()), engine.begun_at


def test_newcomer_interrupts_a_long_window() -> None:
    hard = recording_of(noise(1))
    command = recording_of(noise(1, 5))
    done, begun_at = run_hard(hard, {3: command})
    assert done == [command, hard]
    assert begun_at == [QUANTUM + 1]
    assert [segment.text for segment in hard.segments] == ["0"]


def test_urgent_recording_waits_for_one_step() -> None:
    film = recording_of(noise(1), priority=1)
    command = recording_of(noise(1, 5))
    done, begun_at = run_hard(film, {3: command})
    assert done == [command, film]
    assert begun_at == [3]


def test_film_interrupted_often_advances_by_a_slice() -> None:
    film = recording_of(noise(1), priority=1)
    n_commands = 3 * PATIENCE
    commands = [recording_of(noise(1, n)) for n in range(n_commands)]
    done, begun_at = run_hard(film, dict(enumerate(commands, 1)))
    assert done == [*commands, film]
    waits = [begun - asked for asked, begun in enumerate(begun_at, 1)]
    assert waits[:PATIENCE] == [0] * PATIENCE
    assert 0 < max(waits) <= SLICE


def test_urgent_recording_waits_for_one_window_of_the_encoder() -> None:
    class Arrives(Encoder):
        def encode(self, mel: FloatArray) -> FloatArray:
            if len(self.threads) == 0:
                source.coming.append(command)
            return super().encode(mel)

    encoder = Arrives()
    command = recording_of(noise(1, 5))
    source = AtOnce([recording_of(noise(3), "seek", 1) for _ in range(3)])
    n_encoded: list[int] = []

    class Noted(Interpreter):
        def transcribe(
            self, encoded: Encoded, requests: Sequence[WindowRequest]
        ) -> list[WindowResult]:
            if requests[0].context is command.context:
                n_encoded.append(len(encoder.threads))
            return super().transcribe(encoded, requests)

    stages = Stages(encoder, Noted(encoder), PLAN)  # type: ignore[arg-type]
    done = list(Schedule(source, stages, 3, encode_ahead=False).run())
    assert done[0] is command
    assert n_encoded == [2], "one window of others, and its own"


def test_recordings_of_a_client_take_turns() -> None:
    engine = Noting()
    share = FairShare(takes_turns=True)
    film = recording_of(noise(6))
    talk = recording_of(noise(2))
    for recording in (film, talk):
        recording.share = share
    done = list(_schedule(engine, AtOnce([film, talk])).run())
    assert done == [talk, film]


def test_recording_without_audio_yet_is_passed_over() -> None:
    engine = Noting()
    film = recording_of(noise(3), kind=Coming)
    talk = recording_of(noise(2))
    source = Supplying([film, talk], film)
    done = list(_schedule(engine, source).run())
    assert done == [talk, film]
    assert source.n_waits == 1
    assert [segment.text for segment in film.segments] == ["0", "1", "2"]


class Coming(Recording):
    """Its audio comes later."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.has_come = False

    @property
    def is_ready(self) -> bool:
        return self.has_come


class Supplying(AtOnce):
    """Its recording has audio when the schedule waits for that."""

    def __init__(self, present: list[Recording], coming: Any) -> None:
        super().__init__(present)
        self._supplied = coming
        self.n_waits = 0

    def wait_for_audio(self, is_ready: Callable[[], bool]) -> None:
        assert not is_ready()
        self.n_waits += 1
        self._supplied.has_come = True


def test_long_window_advances_between_newcomers() -> None:
    hard, *others = (recording_of(noise(1, n)) for n in range(4))
    done, begun_at = run_hard(hard, dict(enumerate(others, 1)))
    assert done == [*others, hard]
    gaps = [later - earlier for earlier, later in pairwise(begun_at)]
    assert all(gap >= QUANTUM for gap in gaps), begun_at


def test_newcomer_of_two_windows_keeps_their_order() -> None:
    hard = recording_of(noise(1))
    film = recording_of(noise(3, 5), "consecutive")
    done, _ = run_hard(hard, {3: film})
    assert set(done) == {hard, film}
    assert [segment.text for segment in film.segments] == ["0", "1", "2"]


def test_windows_of_a_recording_keep_their_order() -> None:
    hard = recording_of(noise(3))
    done, begun_at = run_hard(hard, {})
    assert done == [hard]
    assert begun_at == []
    assert [segment.text for segment in hard.segments] == ["0", "1", "2"]


def test_interrupted_batch_s_clock_is_paused() -> None:
    class Waiting(Interpreter):
        def transcribe(
            self, encoded: Encoded, requests: Sequence[WindowRequest]
        ) -> list[WindowResult]:
            time.sleep(0.2)
            return super().transcribe(encoded, requests)

    film = recording_of(noise(1), priority=1)
    command = recording_of(noise(1, 5))
    command.engine = Waiting(Encoder())
    done, _ = run_hard(film, {3: command})
    assert done == [command, film]
    assert film.context.clock.timings().total_ms < 150
    assert command.context.clock.timings().total_ms >= 200


@pytest.mark.parametrize("n_waiting", [0, 1])
def test_abandoned_window_ends_at_its_next_step(n_waiting: int) -> None:
    class Leaving(Stepping):
        def decode_windows(
            self, encoded: Encoded, requests: Sequence[WindowRequest]
        ) -> Steps[list[WindowResult]]:
            hard.abandoned = DeviceError("the client left")
            return super().decode_windows(encoded, requests)

    hard, *others = (recording_of(noise(1, n)) for n in range(1 + n_waiting))
    source = AtOnce([hard, *others])
    engine = Leaving(hard, {}, source)
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    assert list(Schedule(source, stages, 2).run()) == [hard, *others]
    assert engine.n_steps == (4 * QUANTUM if others else 1)
    assert hard.failure is (None if others else hard.abandoned)
    assert [len(other.segments) for other in others] == [1] * n_waiting


class Noting(Interpreter):
    """Notes which windows came together, by their beginnings."""

    def __init__(self, key: str = "") -> None:
        super().__init__(Encoder(), batch_key=key)
        self.batches: list[list[int]] = []

    def transcribe(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> list[WindowResult]:
        self.batches.append([round(request.window.start_s) for request in requests])
        return super().transcribe(encoded, requests)


def _schedule(engine: Interpreter, source: Any, batch_size: int = 1) -> Schedule:
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    return Schedule(source, stages, batch_size)


def test_urgent_recording_overtakes_an_encoded_batch() -> None:
    engine = Interpreter(Encoder())
    archive = recording_of(noise(6))
    live = recording_of(noise(1, 5), priority=-1)
    source = Growing(engine, [(0, archive), (2, live)])
    order: list[str] = []
    for recording, name in ((archive, "archive"), (live, "live")):
        take = recording.take
        recording.take = lambda result, take=take, name=name: (
            order.append(name),
            take(result),
        )
    done = list(_schedule(engine, source).run())
    assert done == [live, archive]
    assert [segment.text for segment in archive.segments] == [
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
    ]
    # It came when the second window was done, and the third waited with its features.
    assert order == ["archive"] * 2 + ["live"] + ["archive"] * 4


def test_client_with_the_least_windows_goes_first() -> None:
    engine = Noting()
    greedy = FairShare()
    modest = FairShare()
    recordings = [recording_of(noise(6), "seek") for _ in range(3)]
    small = recording_of(noise(2), "seek")
    for recording in recordings:
        recording.share = greedy
    small.share = modest

    class All(WindowSource):
        def next(self, *, n_free: int, idle: bool) -> Recording | None:
            del n_free, idle
            return coming.pop(0) if coming else None

        def rows(self, most: int) -> int:
            return most

        def wait(self, coming: Future[Any]) -> bool:
            wait((coming,))
            return True

    coming = [*recordings, small]
    done = list(_schedule(engine, All()).run())
    assert done[0] is small
    assert greedy.n_windows == 18
    assert modest.n_windows == 2
    assert len(engine.batches) == 20


@pytest.mark.parametrize(("keys", "n_batches"), [(("a", "a"), 3), (("a", "b"), 6)])
def test_windows_of_equal_engines_share_a_batch(
    keys: tuple[str, str], n_batches: int
) -> None:
    engines = [Noting(key) for key in keys]
    recordings = [recording_of(noise(3), "seek") for _ in keys]
    for recording, engine in zip(recordings, engines, strict=True):
        recording.engine = engine
    unused = Noting()
    list(_schedule(unused, RecordingList(recordings), batch_size=2).run())
    assert unused.batches == []
    assert sum(len(engine.batches) for engine in engines) == n_batches
    for recording in recordings:
        assert [segment.text for segment in recording.segments] == ["0", "1", "2"]


def test_priority_passed_over_eight_times_is_due() -> None:
    """Each batch of others counts; one of its own, or nothing left to wait for, ends the count."""
    turns = PriorityScheduler()
    urgent, other, late = (recording_of(noise(1), priority=n) for n in (-1, 0, 1))
    for n in range(8):
        assert not turns.is_due(0)
        assert turns.next_of([other, urgent]) is urgent, n
        turns.note([urgent], [urgent, other])
    assert turns.is_due(0)
    assert not turns.is_due(-1)
    assert not turns.is_due(1)
    assert turns.next_of([urgent, late, other]) is other
    turns.note([other], [urgent, other])
    assert not turns.is_due(0)
    for _ in range(8):
        turns.note([urgent], [urgent, other])
    turns.note([urgent], [urgent])
    assert not turns.is_due(0), "nothing waited"


def test_steps_of_a_batch_are_as_good_as_a_batch() -> None:
    turns = PriorityScheduler()
    urgent, other = (recording_of(noise(1), priority=n) for n in (-1, 0))
    for _ in range(8):
        turns.note([urgent], [urgent, other])
    for _ in range(SLICE):
        assert turns.is_due(0)
        assert not turns.may_interrupt(0)
        turns.note_step(0)
    assert turns.may_interrupt(0)


def test_batch_that_was_due_is_not_interrupted_at_once() -> None:
    turns = PriorityScheduler()
    urgent, other = (recording_of(noise(1), priority=n) for n in (-1, 0))
    for _ in range(8):
        turns.note([urgent], [urgent, other])
    turns.note([other], [urgent, other])
    for _ in range(SLICE):
        assert not turns.may_interrupt(0)
        turns.note_step(0)
    assert turns.may_interrupt(0)


def test_most_urgent_of_due_recordings_goes_first() -> None:
    turns = PriorityScheduler()
    urgent, other, late = (recording_of(noise(1), priority=n) for n in (-1, 0, 1))
    for _ in range(9):
        turns.note([urgent], [urgent, other, late])
    assert turns.next_of([late, urgent, other]) is other
    turns.note([other], [urgent, other, late])
    assert turns.next_of([late, urgent, other]) is late


def test_next_of_equal_priorities_is_least_served() -> None:
    turns = PriorityScheduler()
    first, second, third = (recording_of(noise(1)) for _ in range(3))
    assert turns.next_of([first, second, third]) is first
    first.share.n_windows = 2
    second.share.n_windows = 1
    assert turns.next_of([first, second]) is second
    third.priority = 1
    assert turns.next_of([third, first, second]) is second, (
        "what is urgent had more and goes first"
    )
