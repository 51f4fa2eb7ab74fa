"""Asks the engine for the running segment's text: with which draft, how often, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Final

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.commit_policy import RunningText
from whisper_hailo.live.engine import CaptionEngine
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.statistics import CaptionStatistics

_ATTEMPTS: Final = 3
"""A final text is asked for so often from a device that fails."""

_ENOUGH_S: Final = 2.0
"""Less speech says too little of its language."""


@dataclass(slots=True)
class RunningSegment:
    """The active segment.

    Attributes:
        segment_id: its id.
        text: hypotheses so far.
        start: its first sample in the stream.
        carried: text of the rest of a segment that was cut, which this one begins with.
        speaker: where channels are speakers.
        shown: samples that were transcribed last.
        n_skipped: partials that were due but not made.
        language: of its text so far.
        is_decided: the language was found in enough speech, or set: words may be committed.
        first_text: some text was shown.
    """

    segment_id: int
    text: RunningText
    start: int
    carried: Draft | None = None
    speaker: int | None = None
    shown: int = 0
    n_skipped: int = 0
    language: str | None = None
    is_decided: bool = False
    first_text: bool = False

    @property
    def draft(self) -> Draft:
        """Return what its text may begin with."""
        if self.carried is None or self.shown:
            return self.text.draft
        return self.carried


class SegmentListener:
    """Transcribes running segments.

    Args:
        engine: transcribes buffers.
        options: whether drafts are used, and what of a partial is held back.
        statistics: where the calls are counted.

    Attributes:
        options: the current ones.
    """

    def __init__(
        self, engine: CaptionEngine, options: CaptionOptions, statistics: CaptionStatistics
    ) -> None:
        self._engine = self._next = engine
        self.options = options
        self._statistics = statistics
        self._language: str | None = None  # of the last segment in which it was found

    @property
    def language(self) -> str:
        """Return the language of the next segment, or `auto`."""
        return self._next.language

    @language.setter
    def language(self, language: str) -> None:
        self._next = self._next.in_language(language)

    def begin(self) -> None:
        """Begin a segment, in the language that was set last."""
        if self._next is not self._engine:
            self._engine, self._language = self._next, None

    def transcribe_partial(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the text so far of a segment that goes on.

        Raises:
            DeviceError: the device failed.
        """
        language = running.language if running.is_decided else self._expected(audio)
        hold_back_s = self.options.hold_back_s
        result = self._transcribe(
            running, audio, language, word_times=False, hold_back_s=hold_back_s
        )
        running.is_decided = _is_enough(audio) or self._engine.language != AUTO_LANGUAGE
        self._statistics.n_partials += 1
        self._statistics.partial_passes += result.passes
        self._statistics.partial_decode_ms += result.timings.decode_ms
        return result

    def transcribe_words(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the text to the end of the audio, with word times where the engine gives them."""
        return self._transcribe(running, audio, self._expected(audio), word_times=True)

    def transcribe_all(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the final text of a segment with word times; its language is decided again.

        Raises:
            DeviceError: the device failed in every attempt.
        """
        language = self._expected(audio)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                result = self._transcribe(running, audio, language, word_times=True)
            except DeviceError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                break
        if _is_enough(audio):
            self._language = result.language
        return result

    def _expected(self, audio: FloatArray) -> str | None:
        """Return the language of short speech, that of the segment before; `None` to detect it."""
        return None if _is_enough(audio) else self._language

    def _transcribe(
        self,
        running: RunningSegment,
        audio: FloatArray,
        language: str | None,
        *,
        word_times: bool,
        hold_back_s: float = 0.0,
    ) -> BufferText:
        draft = running.draft
        if not self.options.drafts:
            draft = Draft(draft.tokens[: draft.n_fixed], draft.n_fixed)
        figures, begin = self._statistics, perf_counter()
        try:
            result = self._engine.transcribe(
                audio,
                draft,
                language=language,
                previous_language=self._language,
                word_times=word_times,
                hold_back_s=hold_back_s,
            )
        except DeviceError:
            figures.n_engine_faults += 1
            raise
        finally:
            figures.compute_s += perf_counter() - begin
        figures.n_calls += 1
        figures.n_heard_samples += audio.size
        running.language = result.language
        running.shown = audio.size
        return result


def _is_enough(audio: FloatArray) -> bool:
    """Return whether a buffer is long enough to detect its language."""
    return bool(audio.size >= _ENOUGH_S * SAMPLE_RATE_HZ)
