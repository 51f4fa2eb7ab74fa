"""Moonshine as an engine of the captioner."""

from __future__ import annotations

from typing import Final, Self

from whisper_hailo.backends.moonshine import MAX_S, SIZES, Moonshine
from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.running_text import text_words

LONGEST_S: Final = 9.0
"""The study's longest segment. The package takes more, in time that grows with the square."""


class MoonshineEngine(Closing):
    """Hears whole buffers: no drafts, no times of words, no probabilities, English only.

    Args:
        source: a size, such as `tiny-streaming`; or a folder with the weights.
        content_s: seconds that it is to hear at once.

    Raises:
        OptionError: more than the package takes.
    """

    def __init__(self, source: str = SIZES[0], content_s: float = LONGEST_S) -> None:
        if content_s >= MAX_S:
            raise OptionError(
                f"max-segment is {content_s:g} s, Moonshine takes less than {MAX_S:g} s"
            )
        self._source = source
        self._content_s = content_s
        self._model = Moonshine(source)

    @property
    def name(self) -> str:
        return f"Moonshine {self._source}"

    @property
    def content_s(self) -> float:
        """As it was asked for."""
        return self._content_s

    @property
    def language(self) -> str:
        """The one that it knows."""
        return "en"

    def in_language(self, language: str) -> MoonshineEngine:
        """Itself, in English.

        Raises:
            OptionError: another language.
        """
        if language != self.language:
            raise OptionError(f"the language is {language!r}, Moonshine hears English only (en)")
        return self

    def open(self) -> Self:
        """Load the weights; see `Moonshine.open`."""
        self._model.open()
        return self

    def close(self) -> None:
        self._model.close()

    def transcribe(
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
        with clock.stage("total"), clock.stage("decode"):
            text = self._model.transcribe(audio)
        return BufferText(text_words(text), "en", timings=clock.timings())
