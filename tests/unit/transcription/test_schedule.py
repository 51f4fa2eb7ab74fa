"""The encoder runs one batch ahead of the decoder, and nothing else changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest

from tests.unit.transcription.made_up_engine import (
    PLAN,
    AtOnce,
    Chip,
    Encoder,
    Growing,
    Interpreter,
    encoding_threads,
    noise,
    recording_of,
    run,
    texts,
)
from tests.unit.transcription.test_priorities import Noting
from whisper_hailo.core.types import FloatArray
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import PATIENCE, RecordingList, Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Encoded, WindowRequest, WindowResult


def test_the_next_window_is_encoded_while_the_last_is_decoded() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder, n_windows=5, waits=True)
    assert texts(run([noise(5)], encoder, interpreter)) == [["0", "1", "2", "3", "4"]]
    assert all(name.startswith("encode") for name in encoder.threads)
    assert interpreter.heard == sorted(interpreter.heard)
    assert not encoding_threads()


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["consecutive", "overlap", "seek"])
def test_it_changes_nothing(strategy: str, batch_size: int) -> None:
    results = []
    for ahead in (True, False):
        encoder = Encoder()
        interpreter = Interpreter(encoder)
        sources = [noise(4), noise(1, 1), noise(3, 2)]
        said = texts(
            run(sources, encoder, interpreter, strategy, ahead=ahead, batch_size=batch_size)
        )
        results.append((said, sorted(interpreter.heard)))
        if not ahead:
            assert set(encoder.threads) == {threading.current_thread().name}
    assert results[0] == results[1]
    assert len(results[0][0]) == 3


def test_never_more_than_one_batch_ahead() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder)
    list(run([noise(30)], encoder, interpreter))
    decoded = np.arange(1, 31)
    assert np.all(np.array(interpreter.n_encoded) <= decoded + 1)
    assert len(encoder.threads) == 30


def test_windows_that_wait_for_each_other_are_not_encoded_ahead() -> None:
    encoder = Encoder()
    interpreter = Interpreter(encoder)
    list(run([noise(6)], encoder, interpreter, "seek"))
    assert interpreter.n_encoded == list(range(1, len(interpreter.n_encoded) + 1))
    assert set(encoder.threads) == {threading.current_thread().name}


def test_one_window_needs_no_thread() -> None:
    encoder = Encoder()
    assert texts(run([noise(1)], encoder, Interpreter(encoder))) == [["0"]]
    assert encoder.threads == [threading.current_thread().name]


def test_an_interruption_ends_the_thread_too() -> None:
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


def test_a_caller_that_loses_interest_ends_the_thread_too() -> None:
    encoder = Encoder()
    outcomes = run([noise(2), noise(30)], encoder, Interpreter(encoder))
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert not encoding_threads()


def test_an_encoder_that_works_by_itself_needs_no_thread() -> None:
    chip = Chip()
    interpreter = Interpreter(chip)
    (outcome,) = run([noise(4)], chip, interpreter)
    assert outcome.failure is None
    assert [segment.text for segment in outcome.segments] == ["0", "1", "2", "3"]
    assert chip.order == ["begun", "begun", "asked", "begun", "asked", "begun", "asked", "asked"]
    assert set(chip.threads) == {threading.current_thread().name}
    assert outcome.context.clock.timings().encode_ms == pytest.approx(4 * 31.4), "the chip's time"


@pytest.mark.parametrize("batch_size", [1, 2])
def test_what_is_urgent_goes_before_what_is_under_way(batch_size: int) -> None:
    encoder = Encoder()
    engine = Interpreter(encoder)
    archive, live = recording_of(noise(9), "seek"), recording_of(noise(1, 5), "seek", priority=-1)
    late = recording_of(noise(1, 6), "seek")
    source = Growing(engine, [(0, archive), (3, live), (50, late)])
    stages = Stages(encoder, engine, PLAN)  # type: ignore[arg-type]
    done = list(Schedule(source, stages, batch_size).run())
    assert done == [live, archive, late]
    assert [len(one.segments) for one in done] == [1, 9, 1]
    loud = [round(100 * value) for value in engine.heard]
    alone = Interpreter(encoder)
    stages = Stages(encoder, alone, PLAN)  # type: ignore[arg-type]
    list(Schedule(RecordingList([recording_of(noise(1, 5))]), stages).run())
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
    live = [(n, recording_of(noise(1, n), priority=-1)) for n in (2, 3, 5)]
    source = Growing(engine, [(0, recording_of(noise(9))), *live])
    stages = Stages(chip, engine, PLAN)  # type: ignore[arg-type]
    assert len(list(Schedule(source, stages).run())) == 4
    assert len(waiting) == 12
    assert max(waiting) == 1


@pytest.mark.parametrize("strategy", ["seek", "consecutive"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_however_much_is_urgent_what_waits_has_a_share(strategy: str, n_classes: int) -> None:
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
    assert all(not one.failure for one in Schedule(AtOnce([*flood, *patient]), stages).run())
    for priority in range(n_classes - 1):
        places = [place for place, other in enumerate(order) if other == priority][:3]
        gaps = np.diff([-1, *places])
        assert max(gaps) <= PATIENCE + n_classes, "nobody waits for ever"
        assert min(gaps) > PATIENCE, "what is urgent goes first nevertheless"


def test_a_list_waits_for_no_encoder() -> None:
    """The next window is drawn meanwhile; this one never comes."""
    assert not RecordingList([]).wait(Future())


def test_windows_that_wait_for_each_other_keep_their_company() -> None:
    """Beside them others are not drawn ahead, so that both recordings fill every batch."""
    engine = Noting()
    stages = Stages(engine.encoder, engine, PLAN)  # type: ignore[arg-type]
    mixed = [recording_of(noise(3), "seek"), recording_of(noise(3))]
    list(Schedule(RecordingList(mixed), stages, 2).run())
    assert engine.batches == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(("ahead", "n_drawn"), [(True, [2, 3, 4, 4]), (False, [1, 2, 3, 4])])
def test_where_encoder_and_decoder_take_turns_no_window_is_drawn_ahead(
    ahead: bool, n_drawn: list[int]
) -> None:
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


def test_a_batch_s_time_is_split_evenly() -> None:
    """The chip says how long it took: 31.4 ms for both."""
    chip = Chip()
    stages = Stages(chip, Interpreter(chip), PLAN)  # type: ignore[arg-type]
    both = [recording_of(noise(1, n)) for n in range(2)]
    list(Schedule(RecordingList(both), stages, 2).run())
    assert [one.context.clock.timings().encode_ms for one in both] == pytest.approx([15.7, 15.7])


def test_recordings_come_back_in_their_order_whichever_is_done_first() -> None:
    """Where windows wait for each other a batch has one of each: the shorter are done sooner."""
    encoder = Encoder()
    sources = [noise(3), noise(1), noise(2)]
    found = list(run(sources, encoder, Interpreter(encoder), "seek", batch_size=3))
    assert [one.duration_s for one in found] == [3.0, 1.0, 2.0]
