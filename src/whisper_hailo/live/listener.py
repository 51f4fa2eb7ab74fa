"""Asks the engine for the running segment's text: with which draft, how often, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

import numpy as np

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.commit_policy import MARKS, RunningText, words_behind
from whisper_hailo.live.engine import CaptionEngine
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.transcription.partials import PartialBuffer

_ATTEMPTS: Final = 3
"""A final text is asked for so often from a device that fails."""

_ENOUGH_S: Final = 2.0
"""Less speech says too little of its language."""

_CONTEXT_S: Final = 14.0
"""Most audio of a segment's final text, with the segment before it. Real `base`, four kinds of
speech: 7.1 % errors fall to 6.5 (read), 12.2 to 10.4 (noisy), 18.6 stay (spontaneous)."""

_CONTEXT_GAP_S: Final = 1.0
"""A longer pause separates what is said."""


@dataclass(slots=True)
class RunningSegment:
    """The active segment.

    Attributes:
        start: its first sample in the stream.
        carried: text of the rest of a segment that was cut, which this one begins with.
        shown: samples that were transcribed last.
        language: of its text so far.
        is_decided: the language was found in enough speech, or set: words may be committed.
        first_text: some text was shown.
    """

    segment_id: int
    text: RunningText
    start: int
    carried: Draft | None = None
    shown: int = 0
    language: str | None = None
    is_decided: bool = False
    first_text: bool = False

    @property
    def start_s(self) -> float:
        """Return where it begins in the stream, in seconds."""
        return self.start / SAMPLE_RATE_HZ

    @property
    def draft(self) -> Draft:
        """Return what its text may begin with."""
        if self.carried is None or self.shown:
            return self.text.draft
        return self.carried


@dataclass(frozen=True, slots=True)
class FinishedSegment:
    """The segment before: who hears it too recognises the beginning of the next one better.

    It ends behind sample `end` of the stream. The text of an engine without tokens is no context.
    """

    audio: FloatArray
    end: int
    text: BufferText

    def joined(
        self, running: RunningSegment, audio: FloatArray, most_s: float
    ) -> FloatArray | None:
        """Return its audio and that of the segment behind it; `None` where it is no context."""
        gap = running.start - self.end
        n_samples = self.audio.size + gap + audio.size
        near = 0 <= gap <= _CONTEXT_GAP_S * SAMPLE_RATE_HZ
        has_words = bool(running.text.known and self.text.tokens)
        fits = n_samples <= min(most_s, _CONTEXT_S) * SAMPLE_RATE_HZ
        same = running.language == self.text.language and self.text.translation is None
        if not (same and near and has_words and fits):
            return None
        return np.concatenate([self.audio, np.zeros(gap, np.float32), audio])


class SegmentListener:
    """Transcribes running segments with `engine`, from the next one on; counts the calls."""

    def __init__(
        self, engine: CaptionEngine, options: CaptionOptions, statistics: CaptionStatistics
    ) -> None:
        self.engine = self._engine = engine
        self._options = options
        self._statistics = statistics
        self._language: str | None = None  # of the last segment in which it was found
        self._before: FinishedSegment | None = None

    def begin(self) -> None:
        """Begin a segment."""
        if self._engine is not self.engine:
            self._engine, self._language, self._before = self.engine, None, None

    def transcribe_partial(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the text so far of a segment that goes on."""
        language = running.language if running.is_decided else self._expected(audio)
        result = self._transcribe(
            running, audio, language, hold_back_s=self._options.hold_back_s, word_timestamps=False
        )
        running.is_decided = _is_enough(audio) or self._engine.language != AUTO_LANGUAGE
        self._statistics.n_partials += 1
        self._statistics.partial_passes += result.passes
        self._statistics.partial_decode_ms += result.timings.decode_ms
        return result

    def transcribe_words(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the text to the end of the audio, with word times where the engine gives them."""
        return self._transcribe(running, audio, self._expected(audio))

    def transcribe_all(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the final text of a segment with word times; its language is decided again."""
        language, before = self._expected(audio), self._before
        longest_s = self._options.longest_s(self._engine.content_s)
        joined = None if before is None else before.joined(running, audio, longest_s)
        result = BufferText(())
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if before is not None and joined is not None:
                    result = self._transcribe_behind(before, running, joined)
                if not result.words:  # it has none, or lost them behind the other text
                    result = self._transcribe(running, audio, language)
            except DeviceError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                break
        if _is_enough(audio):
            self._language = result.language
        self._before = FinishedSegment(audio, running.start + audio.size, result)
        return result

    def _transcribe_behind(
        self, before: FinishedSegment, running: RunningSegment, joined: FloatArray
    ) -> BufferText:
        """Return the final text of a segment, heard behind the segment before it."""
        draft, known = running.draft, before.text.tokens
        behind = Draft(known + draft.tokens, len(known) + draft.n_fixed, goes_on=draft.n_fixed == 0)
        result = self._transcribe(running, joined, before.text.language, draft=behind)
        offset_s = (running.start - before.end + before.audio.size) / SAMPLE_RATE_HZ
        words = words_behind(result.words, before.text.words)
        if words and words[0].text.strip(MARKS) == "":  # ends the text before, which is final
            words = words[1:]
        return replace(result, words=tuple(_shift_word(word, offset_s) for word in words))

    def _expected(self, audio: FloatArray) -> str | None:
        """Return the language of short speech, that of the segment before; `None` to detect it."""
        return None if _is_enough(audio) else self._language

    def _transcribe(
        self,
        running: RunningSegment,
        audio: FloatArray,
        language: str | None,
        *,
        word_timestamps: bool = True,
        hold_back_s: float = 0.0,
        draft: Draft | None = None,
    ) -> BufferText:
        draft = draft or running.draft
        if not self._options.drafts:
            draft = replace(draft, tokens=draft.tokens[: draft.n_fixed])
        buffer = PartialBuffer(audio, draft, word_timestamps, hold_back_s, self._language)
        figures, begin = self._statistics, perf_counter()
        try:
            result = self._engine.transcribe(buffer, language)
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


def _shift_word(word: BufferWord, by_s: float) -> BufferWord:
    """Return a word with its times from another beginning."""
    times = (word.start_s, word.end_s)
    start_s, end_s = (None if time_s is None else max(0.0, time_s - by_s) for time_s in times)
    return replace(word, start_s=start_s, end_s=end_s)


def _is_enough(audio: FloatArray) -> bool:
    """Return whether a buffer is long enough to detect its language."""
    return bool(audio.size >= _ENOUGH_S * SAMPLE_RATE_HZ)
