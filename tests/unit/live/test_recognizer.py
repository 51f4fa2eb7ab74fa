"""Recognizers behind the captioner: Whisper and Moonshine."""

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


class RecordingTranscriber:
    """Records the options and buffers that it gets."""

    content_s = 9.0

    def __init__(self) -> None:
        self.options_used: list[DecodingOptions] = []
        self.translates: list[bool] = []
        self.buffers: list[PartialBuffer] = []

    def check(self, options: DecodingOptions) -> None:
        pass

    def transcribe_running(
        self, buffer: PartialBuffer, options: DecodingOptions, *, translate: bool
    ) -> Any:
        self.options_used.append(options)
        self.buffers.append(buffer)
        self.translates.append(translate)
        return SimpleNamespace(text="")


def test_recognizer_known_language_is_not_detected() -> None:
    transcriber = RecordingTranscriber()
    options = DecodingOptions(language="auto", detect_each_window=True)
    recognizer = WhisperRecognizer(transcriber, options)  # type: ignore[arg-type]
    for language in (None, "de"):
        recognizer.transcribe(
            PartialBuffer(np.zeros(1600, np.float32), Draft()), language
        )
    first, again = transcriber.options_used
    assert first.language == "auto"
    assert first.detect_each_window
    assert again.language == "de"
    assert not again.detect_each_window


def test_recognizer_translates_whole_segments_only() -> None:
    transcriber = RecordingTranscriber()
    for task in ("transcribe", "translate"):
        recognizer = WhisperRecognizer(transcriber, DecodingOptions(task=task))  # type: ignore[arg-type]
        for variant in (recognizer, recognizer.with_language("de")):
            for whole in (False, True):
                variant.transcribe(
                    PartialBuffer(np.zeros(1600, np.float32), Draft(), whole)
                )
    assert {options.task for options in transcriber.options_used} == {"transcribe"}
    assert [options.language for options in transcriber.options_used[-4:]] == [
        "auto",
        "auto",
        "de",
        "de",
    ]
    assert transcriber.translates == [False] * 4 + [False, True, False, True]


def test_caption_defaults_limit_tokens_per_second() -> None:
    options = caption_defaults(PRESETS["balanced"])
    assert options == DecodingOptions(
        anti_repetition=PRESETS["balanced"],
        search=SearchOptions(temperatures=(0.0, 0.4, 0.8)),
        limits=TokenLimits(max_per_second=20.0),
    )


def test_warm_up_transcribes_faint_noise() -> None:
    """A second of it, more than once."""
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
        assert buffer.audio.shape == (16_000,)
        assert buffer.audio.dtype == np.float32
        assert 0.0 < np.abs(buffer.audio).max() < 0.01
        assert buffer.draft == Draft()
        assert not buffer.word_timestamps
        assert language is None


def test_recognizer_passes_the_buffer_on() -> None:
    transcriber: Any = RecordingTranscriber()
    buffer = PartialBuffer(np.zeros(1600, np.float32), Draft((1,)), True, 0.5, "de")
    recognizer = WhisperRecognizer(transcriber, DecodingOptions())
    for variant in (recognizer, recognizer.with_language("de")):
        variant.transcribe(buffer)
    assert transcriber.buffers == [buffer, buffer]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (DecodingOptions(search=SearchOptions(beam_size=2)), "greedily"),
        (DecodingOptions(search=SearchOptions(temperatures=(0.2,))), "greedily"),
        (DecodingOptions(timestamps=True), "--timestamps"),
    ],
)
def test_recognizer_beam_or_timestamps_raise(
    options: DecodingOptions, option: str
) -> None:
    with pytest.raises(OptionError, match=option):
        WhisperRecognizer(RecordingTranscriber(), options)  # type: ignore[arg-type]


def test_recognizer_unsupported_options_raise_at_once() -> None:
    class Picky(RecordingTranscriber):
        def check(self, options: DecodingOptions) -> None:
            raise OptionError(f"no {options.language}")

    with pytest.raises(OptionError, match="no de"):
        WhisperRecognizer(Picky(), DecodingOptions(language="de"))  # type: ignore[arg-type]


@pytest.mark.slow
def test_recognizer_honours_decoding_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The micro model is that confident.
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


def test_moonshine_window_and_language_are_limited() -> None:
    smallest = MoonshineRecognizer()
    assert smallest.name == "Moonshine tiny-streaming"
    assert smallest.content_s == 9.0
    assert MoonshineRecognizer(content_s=63.9).content_s == 63.9
    with pytest.raises(OptionError, match=r"max-segment .*64 s.*Moonshine"):
        MoonshineRecognizer(content_s=64.0)
    recognizer = MoonshineRecognizer("base")
    assert recognizer.name == "Moonshine base"
    assert recognizer.language == "en"
    assert recognizer.with_language("en") is recognizer
    with pytest.raises(OptionError, match="English"):
        recognizer.with_language("de")


def test_moonshine_reports_time_and_frees_weights(
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
    assert heard.words[-1].text == " t9"
    assert heard.language == "en"
    assert heard.timings.decode_ms == 500.0
    assert heard.timings.total_ms == 1500.0
