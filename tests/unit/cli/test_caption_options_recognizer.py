"""The recognizer of captions, and the options that it gets."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import moonshine_stand_in
from whisper_hailo.backends.options import ChipPriority
from whisper_hailo.cli.caption_options import (
    CaptionModel,
    open_recognizer,
    refuse_whisper_options,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.types import BufferText
from whisper_hailo.decoding.options import PRESETS, DecodingOptions, PromptOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer


@dataclass
class Transcriber:
    """A stand-in for the transcriber that records its calls.

    Attributes:
        takes: whether its decoder accepts hotwords.
    """

    takes: bool = True
    reasons: tuple[str, ...] = ("encoder a: why", "decoder b: because")
    is_open: bool = False
    heard: list[tuple[DecodingOptions, dict[str, Any]]] = field(default_factory=list)
    priorities: list[ChipPriority] = field(default_factory=list)
    default_anti_repetition = PRESETS["conservative"]
    content_s = 9.0

    def __enter__(self) -> Transcriber:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def check(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        del long
        if options.prompts.hotwords and not self.takes:
            raise OptionError("this decoder takes no hotwords")

    def transcribe_running(
        self, _buffer: PartialBuffer, options: DecodingOptions, **named: Any
    ) -> BufferText:
        assert self.is_open
        self.heard.append((options, named))
        return BufferText(())


@pytest.fixture
def transcriber(monkeypatch: pytest.MonkeyPatch) -> Transcriber:
    found = Transcriber()

    def make(_self: CaptionModel, priority: ChipPriority) -> Transcriber:
        found.priorities.append(priority)
        return found

    monkeypatch.setattr(CaptionModel, "transcriber", make)
    return found


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as resources:
        yield resources


def given(hotwords: str | None = None, **typed: Any) -> PartialOptions[DecodingOptions]:
    prompts = {} if hotwords is None else {"hotwords": hotwords}
    return PartialOptions(
        DecodingOptions, typed, {"prompts": PartialOptions(PromptOptions, prompts)}
    )


def test_open_recognizer_warms_up_and_closes_at_end(
    transcriber: Transcriber,
    stack: contextlib.ExitStack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = CaptionOptions()
    with caplog.at_level(logging.DEBUG, "whisper_hailo"):
        open_recognizer(CaptionModel(), given(language="de"), options, "", stack)
    assert transcriber.priorities == [ChipPriority.LIVE], (
        "live captions go before files"
    )
    assert transcriber.is_open
    assert transcriber.heard
    heard, _ = transcriber.heard[0]
    assert (heard.language, heard.anti_repetition, heard.limits.max_per_second) == (
        "de", PRESETS["conservative"], 20.0,
    )  # fmt: skip
    assert caplog.messages == ["encoder a: why", "decoder b: because"]
    stack.close()
    assert not transcriber.is_open


@pytest.mark.parametrize(
    ("typed", "shown", "takes", "expected"),
    [
        (None, "", True, None),
        ("Hailo", "", True, "Hailo"),
        (None, "Whisper", True, "Whisper"),
        ("Hailo", "Whisper", True, "Hailo, Whisper"),
        (None, "Whisper", False, None),
    ],
)
def test_open_recognizer_replacements_become_hotwords(
    *, transcriber: Transcriber, stack: contextlib.ExitStack, caplog: pytest.LogCaptureFixture,
    typed: str | None, shown: str, takes: bool, expected: str | None,
) -> None:  # fmt: skip
    transcriber.takes = takes
    partial = given(typed, language="de")
    open_recognizer(CaptionModel(), partial, CaptionOptions(), shown, stack)
    heard, _ = transcriber.heard[0]
    assert heard.prompts.hotwords == expected
    assert heard.language == "de"
    assert ("--replace" in caplog.text) is not takes


@pytest.mark.parametrize(("longest_s", "content_s"), [(None, 9.0), (20.0, 20.0)])
def test_open_recognizer_moonshine_transcribes(
    monkeypatch: pytest.MonkeyPatch, stack: contextlib.ExitStack, longest_s: float | None,
    content_s: float, tmp_path: Path,
) -> None:  # fmt: skip
    moonshine_stand_in.install(monkeypatch, tmp_path)
    model = CaptionModel(moonshine="tiny")
    options = CaptionOptions(max_segment_s=longest_s)
    recognizer = open_recognizer(model, given(), options, "", stack)
    assert (recognizer.name, recognizer.content_s) == ("Moonshine tiny", content_s)
    assert (
        recognizer.transcribe(PartialBuffer(np.zeros(3200, np.float32), Draft())).text
        == "t0 t1"
    )


@pytest.mark.parametrize(
    ("typed", "hotwords", "named"),
    [({"language": "de"}, None, "--language"), ({"max_new_tokens": 9}, None, "--max-new-tokens"),
     ({}, "Hailo", "--hotwords")],
)  # fmt: skip
def test_refuse_whisper_options_names_the_option(
    typed: dict[str, Any], hotwords: str | None, named: str
) -> None:
    captions = PartialOptions(CaptionOptions, {"min_silence_s": 1.0})
    refuse_whisper_options(
        given(), PartialOptions(CaptionModel, {"moonshine": "tiny"}), captions
    )
    with pytest.raises(OptionError, match=named):
        refuse_whisper_options(given(hotwords, **typed), captions)
