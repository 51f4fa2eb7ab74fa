"""Engines behind the captioner: our own, and Moonshine."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import moonshine_stand_in
from tests.fakes.scripted_speech import Speller
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.decoding import hotwords
from whisper_hailo.decoding.options import (
    PRESETS,
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    Thresholds,
    TokenLimits,
)
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.recognizer import (
    MoonshineRecognizer,
    WhisperRecognizer,
    caption_defaults,
    warm_up,
)
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.clip_archives import unpack_clips


class Noting:
    """Notes the options that it is given."""

    content_s = 9.0

    def __init__(self) -> None:
        self.given: list[DecodingOptions] = []
        self.translates: list[bool] = []
        self.asked: list[PartialBuffer] = []

    def check(self, options: DecodingOptions) -> None:
        pass

    def transcribe_running(
        self, buffer: PartialBuffer, options: DecodingOptions, *, translate: bool
    ) -> Any:
        self.given.append(options)
        self.asked.append(buffer)
        self.translates.append(translate)
        return SimpleNamespace(text="")


def test_segment_of_known_language_is_not_asked_again() -> None:
    transcriber = Noting()
    options = DecodingOptions(language="auto", detect_each_window=True)
    recognizer = WhisperRecognizer(transcriber, options)  # type: ignore[arg-type]
    for language in (None, "de"):
        recognizer.transcribe(
            PartialBuffer(np.zeros(1600, np.float32), Draft()), language
        )
    first, again = transcriber.given
    assert (first.language, first.detect_each_window) == ("auto", True)
    assert (again.language, again.detect_each_window) == ("de", False)


def test_translation_is_heard_in_its_language_once_a_segment() -> None:
    transcriber = Noting()
    for task in ("transcribe", "translate"):
        recognizer = WhisperRecognizer(transcriber, DecodingOptions(task=task))  # type: ignore[arg-type]
        for one in (recognizer, recognizer.with_language("de")):
            for whole in (False, True):
                one.transcribe(
                    PartialBuffer(np.zeros(1600, np.float32), Draft(), whole)
                )
    assert {options.task for options in transcriber.given} == {"transcribe"}
    assert [options.language for options in transcriber.given[-4:]] == [
        "auto",
        "auto",
        "de",
        "de",
    ]
    assert transcriber.translates == [False] * 4 + [False, True, False, True]


def test_defaults_are_decoder_s_cures_and_bound_for_runaway() -> None:
    options = caption_defaults(PRESETS["balanced"])
    assert options == DecodingOptions(
        anti_repetition=PRESETS["balanced"],
        search=SearchOptions(temperatures=(0.0, 0.4, 0.8)),
        limits=TokenLimits(max_per_second=20.0),
    )


def test_engine_is_warm_before_the_first_words() -> None:
    """It has heard a second of something that is no speech, more than once."""
    heard: list[Any] = []

    class Cold(Speller):
        def transcribe(
            self, buffer: PartialBuffer, language: str | None = None
        ) -> BufferText:
            heard.append((buffer, language))
            return BufferText(())

    warm_up(Cold())
    assert len(heard) > 1
    for buffer, language in heard:
        assert (buffer.audio.shape, buffer.audio.dtype) == ((16_000,), np.float32)
        assert 0.0 < np.abs(buffer.audio).max() < 0.01
        assert (buffer.draft, buffer.word_timestamps, language) == (
            Draft(),
            False,
            None,
        )


def test_what_is_asked_of_a_buffer_is_asked_of_the_transcriber() -> None:
    transcriber: Any = Noting()
    buffer = PartialBuffer(np.zeros(1600, np.float32), Draft((1,)), True, 0.5, "de")
    recognizer = WhisperRecognizer(transcriber, DecodingOptions())
    for one in (recognizer, recognizer.with_language("de")):
        one.transcribe(buffer)
    assert transcriber.asked == [buffer, buffer]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (DecodingOptions(search=SearchOptions(beam_size=2)), "decoded greedily"),
        (
            DecodingOptions(search=SearchOptions(temperatures=(0.2,))),
            "decoded greedily",
        ),
        (DecodingOptions(timestamps=True), "leave out --timestamps"),
    ],
)
def test_what_needs_more_than_one_pass_is_refused(
    options: DecodingOptions, told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        WhisperRecognizer(Noting(), options)  # type: ignore[arg-type]


def test_unsupported_options_are_refused_before_hearing() -> None:
    class Picky(Noting):
        def check(self, options: DecodingOptions) -> None:
            raise OptionError(f"no {options.language} here")

    with pytest.raises(OptionError, match="no de here"):
        WhisperRecognizer(Picky(), DecodingOptions(language="de"))  # type: ignore[arg-type]


@pytest.mark.slow
def test_options_of_decoding_have_an_effect_on_captions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Micro is as sure as that of its words.
    monkeypatch.setattr(hotwords, "START_BONUS", 30.0)
    sound = load_audio(unpack_clips() / "phrases" / "phrases-029.ogg")  # says it twice
    with Transcriber.from_model("micro", quantize="none", threads=1) as micro:
        plain = replace(caption_defaults(micro.default_anti_repetition), language="de")

        def heard(**changes: Any) -> tuple[BufferWord, ...]:
            recognizer = WhisperRecognizer(micro, replace(plain, **changes))
            return recognizer.transcribe(
                PartialBuffer(sound, Draft())
            ).words  # with their probabilities

        before = heard()
        (token,) = before[0].tokens[:1]
        for changes in (
            {"limits": replace(plain.limits, suppress=(token,))},
            {"limits": replace(plain.limits, no_repeat_ngram=1)},
            {"limits": replace(plain.limits, max_per_second=0.5)},
            {"anti_repetition": replace(plain.anti_repetition, eot_boost=30.0)},
            {
                "anti_repetition": replace(
                    plain.anti_repetition, repetition_penalty=20.0
                )
            },
            {"prompts": PromptOptions(initial_prompt="Zebra crossing Quixotic")},
            {"prompts": PromptOptions(hotwords="Zebra crossing Quixotic")},
            {"max_new_tokens": 3},
            {"thresholds": Thresholds(no_speech=1e-9, logprob=0.0)},
            {"language": "en"},
        ):
            assert heard(**changes) != before, changes


def test_moonshine_hears_what_its_package_takes_in_english_only() -> None:
    smallest = MoonshineRecognizer()
    assert (smallest.name, smallest.content_s) == ("Moonshine tiny-streaming", 9.0)
    assert MoonshineRecognizer(content_s=63.9).content_s == 63.9
    with pytest.raises(
        OptionError, match="max-segment is 64 s, but Moonshine takes less than 64 s"
    ):
        MoonshineRecognizer(content_s=64.0)
    recognizer = MoonshineRecognizer("base")
    assert (recognizer.name, recognizer.language) == ("Moonshine base", "en")
    assert recognizer.with_language("en") is recognizer
    with pytest.raises(OptionError, match="Moonshine knows English only"):
        recognizer.with_language("de")


def test_moonshine_tells_its_time_and_frees_weights_on_close(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed: list[object] = []

    def close(model: moonshine_stand_in.Transcriber) -> None:
        closed.append(model)

    moonshine_stand_in.install(monkeypatch)
    monkeypatch.setattr(moonshine_stand_in.Transcriber, "close", close)
    ticks = count(step=0.5)
    monkeypatch.setattr("whisper_hailo.core.timing.perf_counter", lambda: next(ticks))
    weights = moonshine_stand_in.write_weights(tmp_path / "tiny-streaming")
    with MoonshineRecognizer(str(weights)) as recognizer:
        heard = recognizer.transcribe(
            PartialBuffer(np.full(16_000, 0.1, np.float32), Draft())
        )
        assert not closed
    assert len(closed) == 1
    assert (heard.words[-1].text, heard.language) == (" t9", "en")
    assert (heard.timings.decode_ms, heard.timings.total_ms) == (500.0, 1500.0)
