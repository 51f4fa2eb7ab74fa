"""What each window is shown of the text before it, in every plan and every batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.fakes.engine import Encoder
from whisper_hailo import Transcriber
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions, SearchOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask, Steps
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import RecordingList, Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
)

PLAN = WindowPlan(window_s=2.0, margin_s=1.0)
INITIAL = (900, 901)


@dataclass
class Interpreter:
    """Says one word a window, its number, and notes what it was shown."""

    hot: int | None = None
    silent: int | None = None
    shown: list[tuple[int, ...]] = field(default_factory=list)

    batch_key = ""

    def context(self) -> Context:
        return Context("en", INITIAL, conditions=True)

    def decode_windows(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        yield from ()
        return self.transcribe(encoded, requests)

    def transcribe(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> list[WindowResult]:
        del encoded
        (request,) = requests
        window = request.window
        context = request.context
        index = len(self.shown)
        self.shown.append(context.previous)
        middle_s = (window.start_s + window.end_s) / 2
        word = Word(middle_s - 0.05, middle_s + 0.05, f" {index}", 0.9, (index,))
        said = Segment(
            window.start_s, window.end_s, f"{index}", (index,), 0.0, 0.0, words=(word,)
        )
        decoded = Decoded(
            (index,),
            0.0,
            0.0,
            runaway=False,
            temperature=0.8 if index == self.hot else 0.0,
        )
        silent = index == self.silent
        segments = () if silent else (said,)
        return [
            WindowResult(window, decoded, segments, window.content_s, silent=silent)
        ]


def shown_to(interpreter: Interpreter, strategy: str) -> list[tuple[int, ...]]:
    """What five windows were shown; steady noise, so that none of them ends in a pause."""
    long = LongOptions(strategy=strategy, skip_silence=False)
    stages = Stages(Encoder(), interpreter, PLAN)
    noise = np.random.default_rng(0).standard_normal(16_000 * 5).astype(np.float32)
    recording = Recording(noise, stages.engine.context(), PLAN, DecodingOptions(), long)
    (done,) = Schedule(RecordingList([recording]), stages).run()
    assert done.failure is None
    return interpreter.shown[:5]


@pytest.mark.parametrize("strategy", ["seek", "overlap", "consecutive"])
def test_condition_on_previous_text_shows_all_text_before(strategy: str) -> None:
    expected = [(*INITIAL, *range(n)) for n in range(5)]
    assert shown_to(Interpreter(), strategy) == expected


@pytest.mark.parametrize("strategy", ["seek", "overlap", "consecutive"])
def test_hot_text_resets_the_previous_text(strategy: str) -> None:
    expected = [INITIAL, (*INITIAL, 0), (), (2,), (2, 3)]
    assert shown_to(Interpreter(hot=1), strategy) == expected


@pytest.mark.parametrize("strategy", ["seek", "overlap", "consecutive"])
def test_silent_window_keeps_the_previous_text(strategy: str) -> None:
    expected = [
        INITIAL,
        (*INITIAL, 0),
        (*INITIAL, 0),
        (*INITIAL, 0, 2),
        (*INITIAL, 0, 2, 3),
    ]
    assert shown_to(Interpreter(silent=1), strategy) == expected


@pytest.mark.parametrize(
    "strategy", ["overlap", pytest.param("consecutive", marks=pytest.mark.slow)]
)
def test_initial_prompt_in_a_batch_is_the_first_window_s(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    prompts: list[tuple[int, ...]] = []
    run = DecodingLoop.decode_tokens

    def noting(
        self: DecodingLoop, state: Any, tasks: Sequence[DecodingTask], *rest: Any
    ) -> Any:
        prompts.extend(task.prompt for task in tasks)
        return run(self, state, tasks, *rest)

    monkeypatch.setattr(DecodingLoop, "decode_tokens", noting)
    noise = 0.1 * np.random.default_rng(0).standard_normal(16_000 * 14).astype(
        np.float32
    )
    options = DecodingOptions(
        search=SearchOptions(temperatures=(0.0,)),
        prompts=PromptOptions(initial_prompt="Vienna", prefix="Dear"),
        max_new_tokens=2,
    )
    prompt_lists = []
    with Transcriber.from_model("micro", window_s=5, threads=1) as transcriber:
        for batch_size in (1, 3):
            prompts.clear()
            long = LongOptions(strategy=strategy, skip_silence=False)
            transcriber.transcribe(noise, options, long=long, batch_size=batch_size)
            prompt_lists.append(list(prompts))
    alone, together = prompt_lists
    assert together == alone
    assert len(alone) > 3
    assert len(alone[0]) > len(alone[1]) == len(alone[2])


def test_detect_with_sure_language_decides() -> None:
    context = Context("auto", detects=True)
    assert context.detect({"en": 0.3, "de": 0.5, "fr": 0.2}) == "de"
    assert context.language == "de"
    assert context.likeliest_language == "de"
    assert list(context.language_probs) == ["de", "en", "fr"], "likeliest first"


def test_detect_averages_windows_until_one_is_sure() -> None:
    context = Context("auto", detects=True)
    assert context.likeliest_language == "auto"
    assert context.detect({"en": 0.49, "de": 0.3, "fr": 0.21}) == "en"
    assert context.language == "auto"
    assert context.likeliest_language == "en"
    assert context.detect({"en": 0.1, "de": 0.45, "fr": 0.45}) == "de", "of the mean"
    assert context.language == "auto"
    assert context.language_probs == pytest.approx(
        {"de": 0.375, "fr": 0.33, "en": 0.295}
    )
    assert context.detect({"en": 0.46, "de": 0.4, "fr": 0.14}) == "de"
    assert context.language_probs == pytest.approx(
        {"de": 1.15 / 3, "en": 1.05 / 3, "fr": 0.8 / 3}
    ), "each of three windows counts alike"
    assert context.detect({"en": 0.8, "de": 0.1, "fr": 0.1}) == "en"
    assert context.language == "en"
    assert context.language_probs == {"en": 0.8, "de": 0.1, "fr": 0.1}, (
        "of the sure one alone"
    )


def test_language_of_leading_silence_is_forgotten() -> None:
    context = Context("auto", detects=True)
    context.detect({"de": 0.4, "en": 0.3})
    context.detect({"de": 0.9, "en": 0.1})
    hears(context, silent=True)
    assert context.language == "auto"
    assert context.language_probs == {}
    assert context.detect({"en": 0.4, "de": 0.3}) == "en", "of what is heard now alone"
    assert context.language_probs == {"en": 0.4, "de": 0.3}


def test_language_of_speech_outlasts_silence() -> None:
    context = Context("auto", detects=True)
    context.detect({"de": 0.9, "en": 0.1})
    hears(context, 1)
    hears(context, silent=True)
    assert context.language == "de"
    assert context.language_probs == {"de": 0.9, "en": 0.1}


def test_given_language_outlasts_silence() -> None:
    context = Context("de")
    hears(context, silent=True)
    assert context.language == "de"


def test_context_of_new_recording_is_empty() -> None:
    context = Context("en")
    assert context.last_speech_s == 0.0
    assert context.previous == ()
    assert context.n_windows == 0
    assert context.language_probs == {}


def test_last_speech_is_the_end_of_final_segments() -> None:
    context = Context("en")
    words = tuple(
        Word(start_s, start_s + 0.5, " w", 0.9, (int(start_s),))
        for start_s in (1.0, 2.0, 3.0)
    )
    parts = [
        Segment(1.0, 3.5, "w", (), 0.0, 0.0, words=part)
        for part in (words[:1], words[1:])
    ]
    result = WindowResult(
        Window(np.zeros(16, np.float32), 0.0),
        Decoded((), 0.0, 0.0, runaway=False),
        tuple(parts),
        4.0,
    )
    context.remember(result, parts[:1], parts[1:])
    assert context.last_speech_s == 1.5, "of what is final"
    context.remember(result, parts)
    assert context.last_speech_s == 3.5


def hears(
    context: Context, *ids: int, pending: Sequence[int] = (), **decoded: Any
) -> None:
    """A window whose final segments have these ids, one each."""
    silent = decoded.pop("silent", False)
    said, still_open = (
        [Segment(0.0, 1.0, "w", (i,), 0.0, 0.0) for i in of] for of in (ids, pending)
    )
    result = WindowResult(
        Window(np.zeros(16, np.float32), 0.0),
        Decoded(ids, 0.0, 0.0, runaway=False, **decoded),
        tuple(said + still_open),
        1.0,
        silent=silent,
    )
    context.remember(result, said, still_open)


def test_remember_appends_final_text() -> None:
    context = Context("en", (9,), conditions=True)
    hears(context, 1, 2, 3, 4, pending=(5, 6, 7))
    assert context.previous == (9, 1, 2, 3, 4, 5, 6, 7)
    hears(context, 8)
    assert context.previous == (9, 1, 2, 3, 4, 8), (
        "what was pending was heard otherwise"
    )


def test_remember_shows_pending_text_until_final() -> None:
    context = Context("en", (9,), conditions=True)
    hears(context, 1, pending=(2, 3))
    assert context.previous == (9, 1, 2, 3)
    hears(context, 2, pending=(4,))
    assert context.previous == (9, 1, 2, 4), "3 was heard otherwise"
    hears(context, 4)
    assert context.previous == (9, 1, 2, 4)


def test_remember_keeps_timestamps() -> None:
    """Their ids are the highest that a model has."""
    context = Context("en", (9,), conditions=True)
    hears(context, 50_364, 7, 50_400)
    assert context.previous == (9, 50_364, 7, 50_400)


@pytest.mark.parametrize(("temperature", "previous"), [(0.5, (9, 1)), (0.51, ())])
def test_remember_drops_text_above_half_temperature(
    temperature: float, previous: tuple[int, ...]
) -> None:
    context = Context("en", (9,), conditions=True)
    hears(context, 1, temperature=temperature)
    assert context.previous == previous


def test_remember_drops_hot_pending_text_when_final() -> None:
    context = Context("en", (9,), conditions=True)
    hears(context, 1, pending=(2,), temperature=0.8)
    assert context.previous == ()
    hears(context, 2, pending=(3,))
    assert context.previous == (3,)
    hears(context, 3, 4)
    assert context.previous == (3, 4)


def test_remember_of_hot_silence_keeps_text() -> None:
    context = Context("en", (9,), conditions=True)
    hears(context, temperature=0.8, silent=True)
    assert context.previous == (9,)


def test_context_without_condition_prompts_first_speech_only() -> None:
    context = Context("en", (9,))
    hears(context, silent=True)
    assert context.previous == (9,)
    hears(context, 1)
    assert context.previous == ()


def test_remember_keeps_the_last_1024_tokens() -> None:
    context = Context("en", tuple(range(1024)), conditions=True)
    hears(context, 5000, pending=(5001,))
    assert context.previous == (*range(2, 1024), 5000, 5001)
    hears(context, 5001)
    assert context.previous == (*range(2, 1024), 5000, 5001)


def test_last_speech_counts_times_without_text() -> None:
    context = Context("en", ())
    window = Window(np.zeros(32_000, np.float32), 10.0)
    decoded = Decoded((), 0.0, 0.0, runaway=False)
    word = Word(10.2, 10.6, " said", 0.9, (7,))
    said = Segment(10.0, 11.0, "said", (7,), 0.0, 0.0, words=(word,))
    context.remember(WindowResult(window, decoded, (said,), 2.0, end_s=11.0), (said,))
    assert context.last_speech_s == 10.6  # of the word, not of the segment
    context.remember(WindowResult(window, decoded, (), 2.0, end_s=11.4), ())
    assert context.last_speech_s == 11.4
    context.remember(WindowResult(window, decoded, (), 2.0), ())
    assert context.last_speech_s == 11.4


@pytest.mark.parametrize(
    ("with_words", "end_s", "expected"),
    [
        ((True, True), 9.0, 2.4),
        ((True, False), 9.0, 1.4),
        ((False, False), 9.0, 9.0),
        ((False, False), None, 3.0),
        ((False,), None, 2.0),
        ((False, False, False), None, 4.0),
        ((True, False), None, 1.4),
        ((), 9.0, 9.0),
        ((), None, None),
    ],
)
def test_last_word_end_falls_back_to_the_last_time(
    with_words: tuple[bool, ...], end_s: float | None, expected: float | None
) -> None:
    segments = tuple(
        Segment(
            start_s,
            start_s + 1,
            "w",
            (),
            0.0,
            0.0,
            words=(Word(start_s, start_s + 0.4, " w", 0.9),) * spoken,
        )
        for start_s, spoken in enumerate(with_words, start=1)
    )
    decoded = Decoded((), 0.0, 0.0, runaway=False)
    result = WindowResult(Window(np.zeros(16, np.float32), 0.0), decoded, segments, 1.0)
    assert replace(result, end_s=end_s).last_word_end_s == expected


def test_detected_language_is_mean_until_one_is_sure() -> None:
    context = Context("auto")
    assert context.detect({"en": 0.4, "de": 0.3}) == "en"
    assert context.detect({"en": 0.2, "de": 0.46}) == "de"
    assert context.language_probs == pytest.approx({"de": 0.38, "en": 0.3})
    assert context.language == "auto"
    assert context.detect({"en": 0.9, "de": 0.1}) == "en"
    assert context.language == "en"
    assert context.language_probs == {"en": 0.9, "de": 0.1}
