"""Engines behind the captioner: our own, and Moonshine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import moonshine_stand_in
from tests.unit.sounds import DATA
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.buffers import BufferWord
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import PromptOptions, Thresholds
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.captioning.engine import TranscriberEngine, caption_defaults
from whisper_hailo.live.captioning.moonshine import MoonshineEngine


class Noting:
    """Notes the options that it is given."""

    def __init__(self) -> None:
        self.given: list[DecodingOptions] = []
        self.translates: list[bool] = []

    trims = False

    def check(self, options: DecodingOptions) -> None:
        del options

    def transcribe_running(
        self, audio: Any, options: DecodingOptions, *_: Any, translate: bool, **__: Any
    ) -> Any:
        self.given.append(options)
        self.translates.append(translate)
        return SimpleNamespace(text="")


def test_a_segment_whose_language_is_known_is_not_asked_for_it_again() -> None:
    transcriber = Noting()
    options = DecodingOptions(language="auto", detect_each_window=True)
    engine = TranscriberEngine(transcriber, options)  # type: ignore[arg-type]
    for language in (None, "de"):
        engine.transcribe(np.zeros(1600, np.float32), Draft(), language=language)
    first, again = transcriber.given
    assert (first.language, first.detect_each_window) == ("auto", True)
    assert (again.language, again.detect_each_window) == ("de", False)


def test_what_is_translated_is_heard_in_its_own_language_and_the_whole_segment_only() -> None:
    transcriber = Noting()
    for task in ("transcribe", "translate"):
        engine = TranscriberEngine(transcriber, DecodingOptions(task=task))  # type: ignore[arg-type]
        for one in (engine, engine.in_language("de")):
            for whole in (False, True):
                one.transcribe(np.zeros(1600, np.float32), Draft(), word_times=whole)
    assert {options.task for options in transcriber.given} == {"transcribe"}
    assert [options.language for options in transcriber.given[-4:]] == ["auto", "auto", "de", "de"]
    assert transcriber.translates == [False] * 4 + [False, True, False, True]


def test_windows_are_trimmed_only_where_the_encoder_can() -> None:
    transcriber: Any = Noting()
    with pytest.raises(OptionError, match="--trim-window needs an encoder"):
        TranscriberEngine(transcriber, DecodingOptions(), trim_window=True)
    transcriber.trims = True
    TranscriberEngine(transcriber, DecodingOptions(), trim_window=True)


def test_options_of_decoding_have_an_effect_on_captions() -> None:
    sound = load_audio(DATA / "micro" / "phrases" / "phrases-029.ogg")  # says it twice
    with Transcriber.from_model("micro", quantize="none", threads=1) as micro:
        plain = replace(caption_defaults(micro.default_cures), language="de")

        def heard(**changes: Any) -> tuple[BufferWord, ...]:
            engine = TranscriberEngine(micro, replace(plain, **changes))
            return engine.transcribe(sound, Draft()).words  # with their probabilities

        before = heard()
        (token,) = before[0].tokens[:1]
        for changes in (
            {"limits": replace(plain.limits, suppress=(token,))},
            {"limits": replace(plain.limits, no_repeat_ngram=1)},
            {"limits": replace(plain.limits, max_per_second=0.5)},
            {"cures": replace(plain.cures, eot_boost=30.0)},
            {"cures": replace(plain.cures, repetition_penalty=20.0)},
            {"prompts": PromptOptions(initial_prompt="Zebra crossing Quixotic")},
            {"prompts": PromptOptions(hotwords="Zebra crossing Quixotic")},
            {"max_new_tokens": 3},
            {"thresholds": Thresholds(no_speech=1e-9, logprob=0.0)},
            {"language": "en"},
        ):
            assert heard(**changes) != before, changes


def test_moonshine_lets_go_of_its_weights_when_it_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed: list[object] = []

    def close(model: moonshine_stand_in.Transcriber) -> None:
        closed.append(model)

    moonshine_stand_in.install(monkeypatch)
    monkeypatch.setattr(moonshine_stand_in.Transcriber, "close", close)
    with MoonshineEngine(str(moonshine_stand_in.write_weights(tmp_path / "tiny-streaming"))):
        assert not closed
    assert len(closed) == 1
