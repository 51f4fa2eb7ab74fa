"""Windows: their requests, the context that they share, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import (
    FloatArray,
    IntArray,
    Segment,
    UntranscribedSpeech,
    Word,
)
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.decoding.search.verify_draft import Draft

_HOT: Final = 0.5
"""Text of a higher temperature is not shown to the next window, as in OpenAI Whisper."""

_SURE: Final = 0.5
"""A less likely language may change with the next window."""

_MOST_TOKENS: Final = 1024
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
        sequential: windows wait for each other; else only the first one is shown earlier text.
        language_probs: likeliest first: the mean of windows that were not sure.
        n_detections: windows whose language was detected.
        last_speech_s: end of the last word.
        n_windows: windows transcribed so far.
        detects: the language is detected.
        languages: codes among which it is; empty: any.
        detects_each: every window of a recording has a language of its own.
        has_text: a window had text.
        trusts_detector: where the speech detector hears nothing, doubtful text is made up.
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
    detects: bool = False
    languages: tuple[str, ...] = ()
    detects_each: bool = False
    has_text: bool = False
    trusts_detector: bool = False

    def detect(self, probs: Mapping[str, float]) -> str:
        """Return a window's language by its own probabilities and those of earlier windows.

        A window that is sure decides for all that follow.
        """
        is_sure = max(probs.values()) >= _SURE
        if is_sure:
            mean = dict(probs)
        else:
            n = self.n_detections
            earlier = self.language_probs
            mean = {
                code: (n * earlier.get(code, 0.0) + prob) / (n + 1)
                for code, prob in probs.items()
            }
        self.language_probs = dict(sorted(mean.items(), key=lambda item: -item[1]))
        self.n_detections += 1
        if is_sure:
            self.language = self.likeliest_language
        return self.likeliest_language

    @property
    def likeliest_language(self) -> str:
        """Code; `auto` until something was detected."""
        if self.language != AUTO_LANGUAGE or not self.language_probs:
            return self.language
        return next(iter(self.language_probs))

    def remember(
        self,
        result: WindowResult,
        final: Sequence[Segment],
        pending: Sequence[Segment] = (),
    ) -> None:
        """Update by a window's result, its final segments, and those that are held back."""
        if self.detects and result.silent and not self.has_text:
            # It was detected in what is no speech.
            self.language = AUTO_LANGUAGE
            self.language_probs = {}
            self.n_detections = 0
        if result.segments:
            self.has_text = True
        ends_s = [segment.words[-1].end_s for segment in final if segment.words]
        if not result.segments and result.end_s is not None:
            # Times without text: there, as OpenAI Whisper has it.
            ends_s.append(result.end_s)
        self.last_speech_s = max([self.last_speech_s, *ends_s])
        if self.conditions:
            self._remember_text(result, final, pending)
        elif not result.silent:
            self.previous = ()  # the initial prompt was shown to the first window with speech

    def _remember_text(
        self, result: WindowResult, final: Sequence[Segment], pending: Sequence[Segment]
    ) -> None:
        """Update the text that the next window is shown."""
        open_tokens = _tokens_of(pending)
        if result.decoded.temperature > _HOT and not result.silent:
            self.previous = ()
            self.doubted = bool(open_tokens)
            return
        settled = self.previous[: len(self.previous) - self.n_open]
        said = () if self.doubted else _tokens_of(final)
        self.previous = (*settled, *said, *open_tokens)[-_MOST_TOKENS:]
        self.n_open = len(open_tokens)
        self.doubted = False


def _tokens_of(segments: Sequence[Segment]) -> tuple[int, ...]:
    return tuple(token for segment in segments for token in segment.tokens)


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """One window of a recording, or of live audio, which has a draft and is decoded alone.

    Attributes:
        draft: expected start of the text.
        word_timestamps: align words of live audio, where the engine can.
        hold_back_s: end the text of live audio where the decoder attends to the last seconds, so
            many: what it writes there is a guess. 0 is off.
    """

    window: Window
    context: Context
    draft: Draft | None = None
    word_timestamps: bool = False
    hold_back_s: float = 0.0

    @property
    def has_own_language(self) -> bool:
        """True if its language is its own; live audio keeps that of its stream."""
        return self.context.detects_each and self.draft is None

    @property
    def detects_language(self) -> bool:
        """True if its language is not known yet, or its own."""
        return self.context.language == AUTO_LANGUAGE or self.has_own_language

    @property
    def is_running(self) -> bool:
        """True if decoded once: live audio, except a whole segment without settled text."""
        if self.draft is None:
            return False
        return not self.word_timestamps or self.draft.n_fixed > 0


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The result of one window.

    Attributes:
        segments: timed in the recording, none empty; with words where needed.
        advance_s: seconds to the next window's start, by the model's timestamps.
        ends_alone: a single timestamp ends the window: no speech follows it.
        silent: the window holds no speech.
        end_s: end of the last segment in the recording, counting empty ones; `None` if unknown.
        words: of live audio, if asked for.
        untranscribed: speech without text, in the recording.
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
    untranscribed: tuple[UntranscribedSpeech, ...] = ()

    def kept_tokens(self, eot: int) -> list[int]:
        """Return the text ids; of a silent window only the settled ones."""
        tokens = self.decoded.tokens
        if self.silent:
            drafted = self.decoded.drafted
            tokens = () if drafted is None else tokens[: drafted.n_fixed]
        return [token for token in tokens if token < eot]

    @property
    def last_word_end_s(self) -> float | None:
        """End of the last word, or of the last segment without words.

        A window without text but with a time leads there, as in OpenAI Whisper.
        """
        if self.end_s is not None and not any(
            segment.words for segment in self.segments
        ):
            return self.end_s
        for segment in reversed(self.segments):
            if segment.words:
                return segment.words[-1].end_s
        return self.segments[-1].end_s if self.segments else None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of encoded windows: audio features `(batch, n_audio_ctx, d_model)`, stage times.

    Attributes:
        n_positions: `(batch,)` int64 true positions of each window; `None` means all.
    """

    features: FloatArray
    clock: StageClock
    n_positions: IntArray | None = None
