"""The running segment's text from a speech recogniser: drafts, retries, context, cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final

import numpy as np

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.commit_policy import MARKS, RunningText, words_behind
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.transcription.partials import PartialBuffer

_N_ATTEMPTS: Final = 3
"""Tries at a final text when the device fails."""

_LANGUAGE_S: Final = 2.0
"""Less speech says too little of its language."""

_CONTEXT_S: Final = 14.0
"""Most audio that a final text is made of, together with the segment before it. Real `base`, four
kinds of speech: 7.1 % errors fall to 6.5 (read), 12.2 to 10.4 (noisy), 18.6 stay (spontaneous)."""

_CONTEXT_GAP_S: Final = 1.0
"""Behind a longer pause the segment before is no context."""


@dataclass(slots=True)
class RunningSegment:
    """The active segment.

    Attributes:
        start: its first sample in the stream.
        is_continuation: its speech began in the segment before, which was cut.
        n_transcribed: samples that were transcribed last.
        language: code of its text so far.
        is_language_sure: it was found in enough speech, or set: words may be committed.
        has_text: some of its text was shown.
        settled_at_s: when each committed word was committed, by the captioner's clock.
    """

    segment_id: int
    text: RunningText
    start: int
    is_continuation: bool = False
    n_transcribed: int = 0
    language: str | None = None
    is_language_sure: bool = False
    has_text: bool = False
    settled_at_s: list[float] = field(default_factory=list)

    @property
    def start_s(self) -> float:
        """Its beginning in the stream, in seconds."""
        return self.start / SAMPLE_RATE_HZ

    @property
    def draft(self) -> Draft:
        """What its text may begin with."""
        return self.text.draft


@dataclass(frozen=True, slots=True)
class FinishedSegment:
    """The previous segment; with its audio, the beginning of the next one is recognised better.

    Attributes:
        end: the sample of the stream behind it.
    """

    audio: FloatArray
    end: int
    text: BufferText

    def join(
        self, running: RunningSegment, audio: FloatArray, most_s: float
    ) -> FloatArray | None:
        """Return its audio and that of the segment behind it; `None` where it is no context."""
        gap = running.start - self.end
        if not 0 <= gap <= _CONTEXT_GAP_S * SAMPLE_RATE_HZ:
            return None
        # Words of this segment, and tokens of the one before that are fixed, tell the texts apart.
        if not running.text.known or not self.text.tokens:
            return None
        if running.language != self.text.language or self.text.translation is not None:
            return None
        n_samples = self.audio.size + gap + audio.size
        if n_samples > min(most_s, _CONTEXT_S) * SAMPLE_RATE_HZ:
            return None
        return np.concatenate([self.audio, np.zeros(gap, np.float32), audio])


class SegmentListener:
    """Transcribes running segments, and counts the calls.

    Attributes:
        next_recognizer: of the segments that begin from now on.
        statistics: of the captions, to which calls are added.
    """

    def __init__(
        self,
        recognizer: SpeechRecognizer,
        options: CaptionOptions,
        statistics: CaptionStatistics,
    ) -> None:
        self.next_recognizer = recognizer
        self._recognizer = recognizer
        self._options = options
        self.statistics = statistics
        self._language: str | None = None  # of the last segment in which it was found
        self._previous: FinishedSegment | None = None

    def begin_segment(self) -> None:
        """Begin a segment; with another recogniser nothing that was said before counts."""
        if self._recognizer is not self.next_recognizer:
            self._recognizer = self.next_recognizer
            self._language = None
            self._previous = None

    def forget_language(self) -> None:
        """Let the next segment be in any language: its text left speech out in the last one."""
        self._language = None

    def transcribe_partial(
        self, running: RunningSegment, audio: FloatArray
    ) -> BufferText:
        """Return the text so far of a segment that goes on."""
        language = (
            running.language
            if running.is_language_sure
            else self._expect_language(audio)
        )
        result = self._transcribe(
            running,
            audio,
            language,
            hold_back_s=self._options.hold_back_s,
            word_timestamps=running.text.may_end_clause(audio.size / SAMPLE_RATE_HZ),
        )
        running.is_language_sure = (
            _is_enough(audio) or self._recognizer.language != AUTO_LANGUAGE
        )
        self.statistics.n_partials += 1
        self.statistics.partial_passes += result.passes
        self.statistics.partial_decode_ms += result.timings.decode_ms
        return result

    def transcribe_words(
        self, running: RunningSegment, audio: FloatArray
    ) -> BufferText:
        """Return the text to the end of the audio, with word times where there are some."""
        return self._transcribe(running, audio, self._expect_language(audio))

    def transcribe_all(self, running: RunningSegment, audio: FloatArray) -> BufferText:
        """Return the final text of a segment with word times; its language is decided again.

        Raises:
            DeviceError: the device failed each time.
        """
        for attempt in range(1, _N_ATTEMPTS + 1):
            try:
                result = self._transcribe_final(running, audio)
                break
            except DeviceError:
                if attempt == _N_ATTEMPTS:
                    raise
        if _is_enough(audio):
            self._language = result.language
        self._previous = FinishedSegment(audio, running.start + audio.size, result)
        return result

    def _transcribe_final(
        self, running: RunningSegment, audio: FloatArray
    ) -> BufferText:
        """Return the final text of a segment, heard behind the previous one if that is context."""
        previous = self._previous
        if previous is not None:
            longest_s = self._options.longest_s(self._recognizer.content_s)
            joined = previous.join(running, audio, longest_s)
            if joined is not None:
                result = self._transcribe_behind(previous, running, joined)
                if result.words:  # else they were lost behind the other text
                    return result
        return self._transcribe(running, audio, self._expect_language(audio))

    def _transcribe_behind(
        self, previous: FinishedSegment, running: RunningSegment, joined: FloatArray
    ) -> BufferText:
        """Return the text of a segment, heard behind the previous one, whose text is fixed."""
        before = previous.text.tokens
        draft = running.draft
        joined_draft = Draft(
            before + draft.tokens,
            len(before) + draft.n_fixed,
            goes_on=draft.n_fixed == 0,
        )
        result = self._transcribe(
            running, joined, previous.text.language, draft=joined_draft
        )
        words = words_behind(result.words, previous.text.words)
        # Ends the text before, which is final.
        if words and words[0].text.strip(MARKS) == "":
            words = words[1:]
        offset_s = (running.start - previous.end + previous.audio.size) / SAMPLE_RATE_HZ
        return replace(
            result, words=tuple(_shift_word(word, offset_s) for word in words)
        )

    def _expect_language(self, audio: FloatArray) -> str | None:
        """Return the language of short speech, that of the speech before; `None` to detect it."""
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
        buffer = PartialBuffer(
            audio, draft, word_timestamps, hold_back_s, self._language
        )
        begin_s = perf_counter()
        try:
            result = self._recognizer.transcribe(buffer, language)
        except DeviceError:
            self.statistics.n_engine_faults += 1
            raise
        finally:
            self.statistics.compute_s += perf_counter() - begin_s
        self.statistics.n_calls += 1
        self.statistics.n_heard_samples += audio.size
        running.language = result.language
        running.n_transcribed = audio.size
        return result


def _shift_word(word: BufferWord, offset_s: float) -> BufferWord:
    """Return a word with its times from a beginning that is later by `offset_s`."""

    def shift(time_s: float | None) -> float | None:
        return None if time_s is None else max(0.0, time_s - offset_s)

    return replace(word, start_s=shift(word.start_s), end_s=shift(word.end_s))


def _is_enough(audio: FloatArray) -> bool:
    """Return whether a buffer is long enough to detect its language."""
    return bool(audio.size >= _LANGUAGE_S * SAMPLE_RATE_HZ)
