"""Tasks and their outcomes, with a stand-in for the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from tests.fakes.batch_jobs import Clock, segment
from whisper_hailo.batch import workers
from whisper_hailo.batch.tasks import Failure, Outcome, Piece, PieceResult, Task
from whisper_hailo.batch.workers import (
    Setup,
    run_worker,
    shift_segment,
    transcribe_task,
)
from whisper_hailo.core.errors import AudioError, DeviceError, ModelError, OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    Settings,
    Timings,
    Transcript,
)
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions

SETTINGS: Final = Settings(
    "toy", "onnx-fp32", "cached", 10.0, 1.0, 1500, 1.0, 0.0, "none", 1
)
LONG: Final = LongOptions()
SETUP: Final = Setup(
    {"model": "micro", "threads": 1}, DecodingOptions(max_new_tokens=7), LONG, 5
)
BAD: Final = Failure("audio", "AudioError", "bad")


class Transcriber(Closing):
    """Transcribes a recording as its loudness in hundredths; a negative one is an error."""

    made: Transcriber

    def __init__(self, **arguments: object) -> None:
        Transcriber.made = self
        self.arguments = arguments
        self.did: list[str] = []
        self.calls: list[tuple[DecodingOptions, LongOptions, int, int]] = []
        self.error: Exception = AudioError("too quiet")

    from_model = classmethod(lambda cls, **arguments: cls(**arguments))

    def open(self) -> Transcriber:
        self.did.append("open")
        return self

    def close(self) -> None:
        self.did.append("close")

    def transcribe_many(
        self,
        audio: Sequence[FloatArray],
        options: DecodingOptions,
        *,
        long: LongOptions,
        batch_size: int,
    ) -> Iterator[Transcript | Exception]:
        self.calls.append((options, long, batch_size, len(audio)))
        for samples in audio:
            text = str(round(float(samples[0]) * 100))
            language = "xx" if options.language == "auto" else options.language
            if samples[0] < 0:
                yield self.error
            else:
                seconds = samples.size / SAMPLE_RATE_HZ
                spoken = (segment(text),)
                yield Transcript(
                    "", seconds, language, "transcribe", spoken, Timings(), SETTINGS
                )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> type[Transcriber]:
    monkeypatch.setattr(workers, "Transcriber", Transcriber)
    return Transcriber


def piece(
    loud: float,
    item: int = 0,
    start_s: float = 0.0,
    language: str | None = None,
    n: int = 8000,
) -> Piece:
    return Piece(item, start_s, 1, np.full(n, loud, np.float32), language)


def do(task: Task, error: Exception | None = None) -> Outcome:
    transcriber = Transcriber()
    transcriber.error = error or transcriber.error
    return transcribe_task(transcriber, SETUP, task)  # type: ignore[arg-type]


def done(*pieces: Piece) -> Outcome:
    return do(Task(4, pieces))


def test_setup_defaults_to_single_windows() -> None:
    assert Setup({}, DecodingOptions()) == Setup(
        {}, DecodingOptions(), LongOptions(), 1
    )


def test_transcribe_task_transcribes_pieces_together_in_order() -> None:
    outcome = done(piece(0.1), piece(0.2, 1), piece(0.3, 2, n=4000))
    assert outcome.shard == 4
    assert [(result.item, result.segments[0].text) for result in outcome.results] == [
        (0, "10"), (1, "20"), (2, "30"),
    ]  # fmt: skip
    assert [result.end_s for result in outcome.results] == [0.5, 0.5, 0.25]
    assert {result.language for result in outcome.results} == {"xx"}
    assert Transcriber.made.calls == [(SETUP.options, LONG, 5, 3)]
    assert outcome.audio_s == 1.25


def test_transcribe_task_times_are_of_the_recording() -> None:
    (result,) = done(piece(0.1, start_s=300.5)).results
    assert result.end_s == 301.0
    (spoken,) = result.segments
    assert (spoken.start_s, spoken.end_s, spoken.words[0].start_s) == (
        300.5,
        301.5,
        300.75,
    )


def test_transcribe_task_calls_model_once_per_language() -> None:
    pieces = (
        piece(0.1, 0), piece(0.2, 1, language="de"), piece(0.3, 2), piece(0.4, 3, language="en"),
        piece(0.5, 4, language="de"),
    )  # fmt: skip
    results = done(*pieces).results
    assert [(result.item, result.segments[0].text, result.language) for result in results] == [
        (0, "10", "xx"), (1, "20", "de"), (2, "30", "xx"), (3, "40", "en"), (4, "50", "de"),
    ]  # fmt: skip
    calls = [
        (options.language, options.max_new_tokens, n)
        for options, _, _, n in Transcriber.made.calls
    ]
    assert calls == [("auto", 7, 2), ("de", 7, 2), ("en", 7, 1)]


def test_transcribe_task_result_has_warnings_of_its_piece() -> None:
    warned = replace(piece(0.1), warnings=("breaks off",))
    first, second = done(warned, piece(0.2, 1)).results
    assert (first.warnings, second.warnings) == (("breaks off",), ())


def test_transcribe_task_unreadable_piece_fails_alone() -> None:
    outcome = done(piece(0.1), Piece(1, 12.5, 3, failure=BAD), piece(0.3, 2))
    first, second, third = outcome.results
    assert (first.segments[0].text, third.segments[0].text) == ("10", "30")
    assert second == PieceResult(1, 12.5, 3, 12.5, failure=BAD)
    assert outcome.audio_s == 1.0
    assert [n for *_, n in Transcriber.made.calls] == [2]


def test_transcribe_task_of_failures_skips_model() -> None:
    outcome = done(Piece(1, 0.0, 1, failure=BAD))
    assert [result.failure for result in outcome.results] == [BAD]
    assert Transcriber.made.calls == []


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (AudioError("too quiet"), Failure("audio", "AudioError", "too quiet")),
        (
            ValueError("x" * 500),
            Failure("engine", "ValueError", ("ValueError: " + "x" * 500)[:400]),
        ),
    ],
)
def test_transcribe_task_failing_piece_fails_alone(
    error: Exception, failure: Failure
) -> None:
    outcome = do(Task(0, (piece(0.1), piece(-1.0, 1, 7.0), piece(0.3, 2))), error)
    assert [result.failure for result in outcome.results] == [None, failure, None]
    assert outcome.results[1] == PieceResult(1, 7.0, 1, 7.0, failure=failure)


@pytest.mark.parametrize(
    "error", [DeviceError("gone"), ModelError("bad"), OptionError("no")]
)
def test_transcribe_task_model_or_device_error_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        do(Task(0, (piece(0.1), piece(-1.0, 1))), error)


def test_transcribe_task_outcome_has_seconds_to_millisecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(workers, "process_time", clock)
    transcribe = Transcriber.transcribe_many

    def slowly(*given: Any, **named: Any) -> Any:
        clock.now_s += 1.23449
        return transcribe(*given, **named)

    monkeypatch.setattr(Transcriber, "transcribe_many", slowly)
    outcome = done(piece(0.1, n=1001), piece(0.2, n=1))
    assert outcome.cpu_s == 1.234
    assert outcome.audio_s == 0.063  # 1002 / 16000 = 0.062625


def sent_by(
    model: type[Transcriber], *tasks: Task, error: Exception | None = None
) -> list[Any]:
    """Return the messages of a worker process for these tasks, until its pipe ends or breaks."""
    left = list(tasks)
    sent = []

    class Pipe:
        @staticmethod
        def recv() -> Task:
            if not left:
                raise EOFError
            model.made.error = error or model.made.error
            return left.pop(0)

        @staticmethod
        def send(message: object) -> None:
            sent.append(message)
            if isinstance(message, ModelError):
                raise BrokenPipeError

    run_worker(Pipe(), SETUP)  # type: ignore[arg-type]
    return sent


def test_run_worker_ends_with_its_pipe(model: type[Transcriber]) -> None:
    sent = sent_by(model, *(Task(n, (piece(0.1 * n),)) for n in (1, 2, 3)))
    assert [(outcome.shard, outcome.results[0].segments[0].text) for outcome in sent] == [
        (1, "10"), (2, "20"), (3, "30"),
    ]  # fmt: skip
    assert model.made.arguments == {"model": "micro", "threads": 1}
    assert model.made.did == ["open", "close"]


@pytest.mark.parametrize("error", [DeviceError("gone"), ModelError("bad")])
def test_run_worker_sends_its_error(model: type[Transcriber], error: Exception) -> None:
    """Also where the other end of the pipe is closed."""
    tasks = (Task(0, (piece(-1.0),)), Task(1, ()))
    assert sent_by(model, *tasks, error=error) == [error]
    assert model.made.did == ["open", "close"]


def test_shift_segment_adds_start_of_piece() -> None:
    one = shift_segment(segment("word", 2.0), 300.25)
    assert (one.start_s, one.end_s, one.window_start_s) == (302.25, 303.25, 302.25)
    (word,) = one.words
    assert (word.start_s, word.end_s, word.text) == (302.5, 302.75, "word")
    assert replace(
        one, start_s=2.0, end_s=3.0, window_start_s=2.0, words=()
    ) == replace(segment("word", 2.0), words=())


def test_shift_segment_rounds_to_milliseconds() -> None:
    """299.98 and a fifth are 300.18, and not 300.18000000000001 as the sum of floats is."""
    one = segment("word")
    word = replace(one.words[0], start_s=0.2, end_s=0.2)
    one = replace(one, start_s=0.2, end_s=0.2, window_start_s=0.2, words=(word,))
    for start_s, expected in (
        (299.98, 300.18),
        (299.98025, 300.18),
        (300.0234, 300.223),
    ):
        moved = shift_segment(one, start_s)
        times = (moved.start_s, moved.end_s, moved.window_start_s)
        assert times == (expected, expected, expected)
        assert (moved.words[0].start_s, moved.words[0].end_s) == (expected, expected)


def test_shift_segment_of_first_piece_is_unchanged() -> None:
    one = replace(segment("word"), start_s=0.12345)
    assert shift_segment(one, 0.0) == one
