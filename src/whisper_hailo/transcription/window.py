"""Requests and results of windows, and the context that a recording's windows share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray, IntArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.decoding.search.draft_decoder import DraftStats
from whisper_hailo.decoding.search.verify_draft import Draft

_HOT = 0.5
"""Text of a higher temperature is not shown to the next window, as in OpenAI Whisper."""

_SURE: Final = 0.5
"""A less likely language may change with the next window."""

_MOST_TOKENS = 1024
"""More text than any text context holds."""


@dataclass(slots=True)
class Context:
    """What a recording's windows know of the previous ones.

    Attributes:
        language: code; `auto` until it is detected.
        previous: ids of the text so far that the next window may see.
        conditions: windows are shown the previous text.
        n_open: ids at the end that a plan may still change.
        doubted: do not show the text that a plan holds back.
        sequential: windows wait for each other; where they do not, only the first one is shown
            earlier text, whatever batch the others are in.
        language_probs: of the detection, likeliest first: the mean of windows that were not sure.
        n_detections: windows whose language was detected.
        last_speech_s: end of the last word.
        n_windows: windows transcribed so far.
        tally: of the draft model.
        last_words: of the previous window.
        detects: the language is detected.
        has_text: a window had text.
    """

    language: str
    previous: tuple[int, ...] = ()
    conditions: bool = False
    n_open: int = 0
    doubted: bool = False
    sequential: bool = True
    language_probs: dict[str, float] = field(default_factory=dict)
    last_speech_s: float = 0.0
    n_detections: int = 0
    n_windows: int = 0
    clock: StageClock = field(default_factory=StageClock)
    prompts: PromptMaker | None = None
    tally: DraftStats | None = None
    last_words: tuple[Word, ...] = ()
    detects: bool = False
    has_text: bool = False

    def detect(self, probs: Mapping[str, float]) -> str:
        """Return a window's language by its own probabilities and those of earlier windows.

        A window that is sure decides for all that follow.
        """
        sure = max(probs.values()) >= _SURE
        n, before = (0, {}) if sure else (self.n_detections, self.language_probs)
        mean = {code: (n * before.get(code, 0.0) + p) / (n + 1) for code, p in probs.items()}
        self.language_probs = dict(sorted(mean.items(), key=lambda item: -item[1]))
        self.n_detections += 1
        if sure:
            self.language = self.likeliest_language
        return self.likeliest_language

    @property
    def likeliest_language(self) -> str:
        """Code; `auto` until something was detected."""
        if self.language != AUTO_LANGUAGE or not self.language_probs:
            return self.language
        return next(iter(self.language_probs))

    def said_from(self, start_s: float) -> tuple[int, ...]:
        """Return the previous window's ids from a time on, which the next one hears again."""
        return tuple(
            token for word in self.last_words if word.start_s >= start_s for token in word.tokens
        )

    def remember(
        self, result: WindowResult, final: Sequence[Segment], pending: Sequence[Segment] = ()
    ) -> None:
        """Update by a window's result, its final segments, and those that are held back."""
        self.last_words = tuple(word for segment in result.segments for word in segment.words)
        if self.detects and result.silent and not self.has_text:
            # It was detected in what is no speech.
            self.language, self.language_probs, self.n_detections = AUTO_LANGUAGE, {}, 0
        self.has_text = self.has_text or bool(result.segments)
        words_end = [segment.words[-1].end_s for segment in final if segment.words]
        if not result.segments and result.end_s is not None:
            words_end.append(result.end_s)  # times without text: there, as OpenAI Whisper has it
        self.last_speech_s = max([self.last_speech_s, *words_end])
        if not self.conditions:
            if not result.silent:
                self.previous = ()
            return
        waiting = _tokens(pending)
        if result.decoded.temperature > _HOT and not result.silent:
            self.previous, self.doubted = (), bool(waiting)
            return
        settled = self.previous[: len(self.previous) - self.n_open]
        said = () if self.doubted else _tokens(final)
        self.previous = (*settled, *said, *waiting)[-_MOST_TOKENS:]
        self.n_open, self.doubted = len(waiting), False


def _tokens(segments: Sequence[Segment]) -> tuple[int, ...]:
    return tuple(token for segment in segments for token in segment.tokens)


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """One window to transcribe.

    Attributes:
        window: its audio.
        context: of its recording.
        draft: of live audio: expected start of the text; such a window is decoded alone.
        word_times: of live audio: align words, where the engine can.
        hold_back_s: of live audio: end the text where the decoder attends to the last seconds, so
            many: what it writes there is a guess. 0 is off.
    """

    window: Window
    context: Context
    draft: Draft | None = None
    word_times: bool = False
    hold_back_s: float = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it is decoded once: live audio, except a whole segment without settled text."""
        draft = self.draft
        return draft is not None and not (self.word_times and draft.n_fixed == 0)


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The result of one window.

    Attributes:
        segments: timed in the recording, none empty; with words where needed.
        advance_s: seconds to the next window's start, by the model's timestamps.
        ends_alone: a single timestamp ends the window: no speech follows it.
        silent: the window holds no speech.
        end_s: end of the last segment in the recording, counting empty ones; `None` if unknown.
        language: code.
        words: of live audio, if asked for.
    """

    window: Window
    decoded: Decoded
    segments: tuple[Segment, ...]
    advance_s: float
    ends_alone: bool = False
    silent: bool = False
    end_s: float | None = None
    language: str = ""
    words: tuple[Word, ...] = ()

    def kept_tokens(self, eot: int) -> list[int]:
        """Return the text ids; of a silent window only the settled ones."""
        kept, drafted = self.decoded.tokens, self.decoded.drafted
        if self.silent:
            kept = kept[: drafted.n_fixed] if drafted is not None else ()
        return [token for token in kept if token < eot]

    @property
    def last_word_end_s(self) -> float | None:
        """End of the last word, or of the last segment without words.

        A window without text but with a time leads there, as in OpenAI Whisper.
        """
        if self.end_s is not None and not any(segment.words for segment in self.segments):
            return self.end_s
        return last_word_end(self.segments)


def last_word_end(segments: Sequence[Segment]) -> float | None:
    """Return the end of the last word, or of the last segment without words."""
    for segment in reversed(segments):
        if segment.words:
            return segment.words[-1].end_s
    return segments[-1].end_s if segments else None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of encoded windows.

    Attributes:
        features: `(batch, n_audio_ctx, d_model)` float32.
        clock: stage times.
        ahead: the draft model's audio features.
        n_positions: `(batch,)` int64 true positions of each window; `None` means all.
    """

    features: FloatArray
    clock: StageClock
    ahead: FloatArray | None = None
    n_positions: IntArray | None = None
