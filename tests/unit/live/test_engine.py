"""Our transcriber as an engine of captions: what is refused, what is passed on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.live.scripted import Speller
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.option_groups import Search
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.draft import Draft
from whisper_hailo.live.engine import TranscriberEngine, warm_up


class Noting:
    """A transcriber that notes what it is asked."""

    content_s = 9.0

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._refuses = refuses

    def check(self, options: DecodingOptions) -> None:
        if self._refuses:
            raise OptionError("this model has no padding; leave out --pad-to")

    def settings(self, options: DecodingOptions) -> SimpleNamespace:
        return SimpleNamespace(model="micro", encoder="onnx-fp32", decoder="cached-int8")

    def transcribe_running(
        self, audio: np.ndarray, options: DecodingOptions, draft: Draft, **named: Any
    ) -> str:
        self.asked.append((audio.size, options.language, draft, named))
        return "heard"


def engine(options: DecodingOptions, *, snug: bool = False, refuses: bool = False) -> Any:
    return TranscriberEngine(Noting(refuses), options, snug=snug)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DecodingOptions(search=Search(beam_size=2)), "got beam 2; leave out --beam-size"),
        (DecodingOptions(search=Search(temperatures=(0.2,))), "got best of 5 at 0.2"),
        (DecodingOptions(timestamps=True), "no --timestamps"),
    ],
)
def test_what_needs_more_than_one_pass_is_refused(options: DecodingOptions, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        engine(options)


def test_what_the_model_refuses_is_refused_before_anything_is_heard() -> None:
    with pytest.raises(OptionError, match="leave out --pad-to"):
        engine(DecodingOptions(), refuses=True)


def test_later_temperatures_are_for_recordings_and_no_reason_to_refuse() -> None:
    assert engine(DecodingOptions(search=Search(temperatures=(0.0, 0.2)))).content_s == 9.0


def test_a_segment_s_language_once_found_is_kept() -> None:
    ours = engine(DecodingOptions(language="auto"), snug=True)
    draft = Draft((1, 2), 1)
    audio = np.zeros(160, np.float32)
    assert ours.hear(audio, draft) == "heard"
    ours.hear(audio, Draft(), language="de", word_times=True, hold_back_s=0.2)
    noted = ours._transcriber.asked
    assert noted[0] == (
        160, "auto", draft, {"snug": True, "word_times": False, "hold_back_s": 0.0}
    )  # fmt: skip
    assert noted[1] == (
        160, "de", Draft(), {"snug": True, "word_times": True, "hold_back_s": 0.2}
    )  # fmt: skip
    assert ours.name == "micro (onnx-fp32 + cached-int8)"


def test_warming_up_hears_a_second_of_noise_three_times() -> None:
    speller = Speller()
    warm_up(speller)
    assert [audio.size for audio in speller.heard] == [16_000] * 3
    assert all(0 < np.abs(audio).max() < 0.01 for audio in speller.heard)
