"""Moonshine as an engine of the captioner, by the package that the comparisons use as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.bench.case import Case
from whisper_hailo.bench.systems.moonshine import MAX_S, SIZES, Moonshine
from whisper_hailo.bench.systems.protocol import Loading
from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.hearing.buffers import Draft, text_words
from whisper_hailo.timing import StageClock

LONGEST_S: Final = 9.0
"""The study's longest segment. The package takes more, in time that grows with the square."""

_LEAST_S: Final = 0.2
"""The package refuses buffers of 0.1 s or less; they are filled up with silence."""


class MoonshineEngine(Closing):
    """Hears whole buffers: no drafts, no times of words, no probabilities, English only.

    Args:
        source: `tiny` or `base`, of the model hub or its cache; or a folder with the graphs.
        content_s: seconds that it is to hear at once.

    Raises:
        OptionError: more than the package takes.
    """

    def __init__(self, source: str = "tiny", content_s: float = LONGEST_S) -> None:
        if content_s >= MAX_S:
            raise OptionError(
                f"--max-segment is {content_s:g} s, Moonshine takes less than {MAX_S:g} s"
            )
        self._source = source
        self._content_s = content_s
        settings = {"size": source if source in SIZES else SIZES[0]}
        self._model = Moonshine(Loading(Case("captions", "moonshine", settings=settings), source))

    @property
    def name(self) -> str:
        """For results."""
        return f"Moonshine {self._source}"

    @property
    def content_s(self) -> float:
        """As it was asked for."""
        return self._content_s

    def open(self) -> Self:
        """Load the weights.

        Raises:
            OptionError: the package is not installed.
            ModelError: the weights are not there.
        """
        self._model.open(_unwatched)
        return self

    def close(self) -> None:
        """Free the weights."""
        self._model.close()

    def hear(
        self,
        audio: FloatArray,
        draft: Draft,
        *,
        language: str | None = None,
        word_times: bool = False,
        hold_back_s: float = 0.0,
    ) -> BufferText:
        """Hear a buffer; see `CaptionEngine`. There is nothing to verify, hold back or time."""
        del draft, language, word_times, hold_back_s
        clock = StageClock()
        missing = round(_LEAST_S * SAMPLE_RATE_HZ) - audio.size
        if missing > 0:
            audio = np.pad(audio, (0, missing))
        with clock.stage("total"), clock.stage("decode"):
            heard = self._model.transcribe(audio, "en")
        return BufferText(text_words(heard.text), "en", timings=clock.timings())


def _unwatched(component: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - passed on
    """Load without noting how memory grows."""
    del component
    return work()
