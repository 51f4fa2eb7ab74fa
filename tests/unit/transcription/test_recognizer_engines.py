"""Engines with a loop of their own: which windows they get together, in which language."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TOY_TOKENS, toy_spec
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.option_groups import PromptOptions, SearchOptions, WordOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.recognizer_engines import AudioEngine, FeaturesEngine
from whisper_hailo.transcription.window import Context, Encoded, WindowRequest, WindowResult

BEGIN = 20


class Words:
    """Id n is the word `wn`."""

    def decode(self, ids: Any, **_: object) -> str:
        return "".join(f" w{token}" for token in ids)


TOKENIZER = Tokenizer(Words(), TOY_TOKENS)  # type: ignore[arg-type]


@dataclass
class Engine:
    """Hears each window's number, and its language: German where the number is odd."""

    asked: list[tuple[list[float], tuple[int, ...]]] = field(default_factory=list)
    told: list[DecodingOptions] = field(default_factory=list)
    n_detected: int = 0
    name = "engine"
    spec = toy_spec()

    def detect_language(self, audio_features: FloatArray) -> dict[str, float]:
        (number,) = audio_features[:, 0, 0]
        self.n_detected += 1
        return {"de": 0.9, "en": 0.1} if number % 2 else {"en": 0.8, "de": 0.2}

    def recognize(
        self, audio_features: FloatArray, prefix: tuple[int, ...], options: DecodingOptions
    ) -> tuple[Decoded, ...]:
        numbers = audio_features[:, 0, 0].tolist()
        self.asked.append((numbers, prefix))
        self.told.append(options)
        texts = [(BEGIN, int(n), BEGIN + 5) if options.timestamps else (int(n),) for n in numbers]
        return tuple(Decoded(text, -0.1, 0.0, runaway=False) for text in texts)


def window(number: int, *, needs_words: bool = False) -> Window:
    return Window(np.zeros(16_000, np.float32), float(number), needs_words=needs_words)


def transcribe(
    engine: Engine, numbers: list[int], options: DecodingOptions, *, apart: bool = True
) -> tuple[list[WindowResult], list[Context]]:
    decoding = FeaturesEngine(engine, TOKENIZER, options)  # type: ignore[arg-type]
    first = decoding.context()
    contexts = [decoding.context() if apart else first for _ in numbers]
    features = np.array(numbers, np.float32).reshape(-1, 1, 1)
    windows = [window(number) for number in numbers]
    requests = list(map(WindowRequest, windows, contexts))
    return decoding.transcribe(Encoded(features, StageClock()), requests), contexts


def test_windows_of_one_language_are_heard_together_and_come_back_in_order() -> None:
    engine = Engine()
    heard, contexts = transcribe(engine, [1, 2, 3, 4], DecodingOptions(language="auto"))
    german, english = (11, 13, 14, 19), (11, 12, 14, 19)
    assert engine.asked == [([1.0, 3.0], german), ([2.0, 4.0], english)]
    assert [one.segments[0].text for one in heard] == ["w1", "w2", "w3", "w4"]
    assert [one.segments[0].language for one in heard] == ["de", "en", "de", "en"]
    assert [one.window.start_s for one in heard] == [1.0, 2.0, 3.0, 4.0]
    assert [context.language for context in contexts] == ["de", "en", "de", "en"]
    assert contexts[1].language_probs == {"en": 0.8, "de": 0.2}


def test_a_recording_s_language_is_that_of_its_first_window() -> None:
    engine = Engine()
    heard, _ = transcribe(engine, [2, 3, 5], DecodingOptions(language="auto"), apart=False)
    assert [one.segments[0].language for one in heard] == ["en", "en", "en"]
    assert engine.n_detected == 1


def test_unless_it_is_asked_for_each_window() -> None:
    options = DecodingOptions(language="auto", detect_each_window=True)
    heard, contexts = transcribe(Engine(), [2, 3, 4], options, apart=False)
    assert [one.segments[0].language for one in heard] == ["en", "de", "en"]
    assert contexts[0].language == "en"


def test_a_language_that_was_told_is_not_detected() -> None:
    engine = Engine()
    options = DecodingOptions(language="de")
    heard, _ = transcribe(engine, [2], options)
    assert (heard[0].segments[0].language, engine.n_detected) == ("de", 0)


def test_english_models_have_nothing_to_detect() -> None:
    engine = Engine()
    english = Tokenizer(Words(), replace(TOY_TOKENS, languages={}))  # type: ignore[arg-type]
    decoding = FeaturesEngine(engine, english, DecodingOptions(language="auto"))  # type: ignore[arg-type]
    context = decoding.context()
    features = np.ones((1, 1, 1), np.float32)
    request = WindowRequest(window(1), context)
    (heard,) = decoding.transcribe(Encoded(features, StageClock()), [request])
    assert (heard.segments[0].language, context.language, engine.n_detected) == ("en", "en", 0)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (DecodingOptions(words=WordOptions()), "--word-timestamps"),
        (DecodingOptions(prompts=PromptOptions(initial_prompt="a")), "prompts"),
        (DecodingOptions(prompts=PromptOptions(condition_on_previous_text=True)), "prompts"),
        (
            DecodingOptions(search=SearchOptions(temperatures=(0.0, 0.2))),
            "more than one --temperature",
        ),
    ],
)
def test_what_needs_our_own_loop_is_refused(options: DecodingOptions, what: str) -> None:
    for decoding in (
        lambda: FeaturesEngine(Engine(), TOKENIZER, options),  # type: ignore[arg-type]
        lambda: AudioEngine(Listener(""), options),  # type: ignore[arg-type]
    ):
        with pytest.raises(OptionError, match=f"a loop of its own and cannot do {what}"):
            decoding()


@dataclass
class Listener:
    """Says the same of everything."""

    text: str
    told: list[DecodingOptions] = field(default_factory=list)
    name = "listener"
    spec = toy_spec()

    def recognize_audio(self, audio: FloatArray, options: DecodingOptions) -> str:
        self.told.append(options)
        return f" {self.text} " if audio.size else "nothing"


@pytest.mark.parametrize("needs_words", [False, True])
def test_an_engine_that_takes_audio_gives_one_segment_a_window(needs_words: bool) -> None:
    decoding = AudioEngine(Listener("so it is"), DecodingOptions())  # type: ignore[arg-type]
    given = [window(3, needs_words=needs_words), window(7, needs_words=needs_words)]
    requests = [WindowRequest(one, decoding.context()) for one in given]
    first, second = decoding.transcribe(Encoded(None, StageClock()), requests)
    (segment,) = second.segments
    assert (segment.text, segment.start_s, segment.end_s) == ("so it is", 7.0, 8.0)
    assert (segment.language, segment.window_start_s, second.advance_s) == ("en", 7.0, 1.0)
    assert (segment.avg_logprob, segment.no_speech_prob, segment.tokens) == (0.0, 0.0, ())
    assert first.window is given[0]
    assert first.decoded == Decoded((), 0.0, 0.0, runaway=False)
    assert [word.text for word in segment.words] == ([" so", " it", " is"] if needs_words else [])
    assert (first.language, second.language) == ("en", "en")


def test_an_engine_that_takes_audio_hears_the_language_that_is_told() -> None:
    listener, german = Listener("so ist es"), DecodingOptions("de", max_new_tokens=9)
    decoding = AudioEngine(listener, german)  # type: ignore[arg-type]
    request = WindowRequest(window(3), decoding.context())
    (heard,) = decoding.transcribe(Encoded(None, StageClock()), [request])
    assert (heard.language, heard.segments[0].language) == ("de", "de")
    assert listener.told == [german]


@pytest.mark.parametrize("timestamps", [False, True])
def test_an_engine_is_asked_for_times_where_they_are_wanted(*, timestamps: bool) -> None:
    """Whatever is asked for it is told; its times are 0 and 0.1 s, of a window of one at 2 s."""
    engine, options = Engine(), DecodingOptions("en", timestamps=timestamps, max_new_tokens=9)
    (heard,), _ = transcribe(engine, [2], options)
    assert engine.asked == [([2.0], (11, 12, 14) if timestamps else (11, 12, 14, 19))]
    assert engine.told == [options]
    (segment,) = heard.segments
    assert (segment.start_s, segment.end_s) == (2.0, 2.1 if timestamps else 3.0)


def test_where_nothing_is_said_there_is_no_segment() -> None:
    decoding = AudioEngine(Listener(" "), DecodingOptions())  # type: ignore[arg-type]
    request = WindowRequest(window(3), decoding.context())
    (heard,) = decoding.transcribe(Encoded(None, StageClock()), [request])
    assert heard.segments == ()


def test_an_engine_needs_the_encoder_it_hears_through() -> None:
    decoding = FeaturesEngine(Engine(), TOKENIZER, DecodingOptions())  # type: ignore[arg-type]
    request = WindowRequest(window(1), decoding.context())
    with pytest.raises(OptionError, match="engine needs an encoder"):
        decoding.transcribe(Encoded(None, StageClock()), [request])


def test_words_are_spread_where_a_plan_needs_them_and_only_there() -> None:
    decoding = FeaturesEngine(Engine(), TOKENIZER, DecodingOptions("en"))  # type: ignore[arg-type]
    asked = [window(1, needs_words=True), window(2)]
    requests = [WindowRequest(one, decoding.context()) for one in asked]
    features = np.array([1, 2], np.float32).reshape(-1, 1, 1)
    heard = decoding.transcribe(Encoded(features, StageClock()), requests)
    assert [len(one.segments[0].words) for one in heard] == [1, 0]
