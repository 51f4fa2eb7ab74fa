"""Our own engine behind the captioner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.draft import Draft
from whisper_hailo.live.engine import TranscriberEngine


class Noting:
    """Notes the options that it is given."""

    def __init__(self) -> None:
        self.given: list[DecodingOptions] = []
        self.translates: list[bool] = []

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
