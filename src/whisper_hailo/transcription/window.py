"""What is asked of one window, what came of it, and what its recording's next one is to know."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import FloatArray, IntArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.decoding.search.draft_decoder import DraftStats
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.decoding.search.verify_draft import Draft

_HOT = 0.5
"""Text found at a higher temperature is not shown to the next window, as in OpenAI Whisper."""

_SURE: Final = 0.5
"""A language less likely than that may be another one's by the next window."""

_MOST_TOKENS = 1024
"""More earlier text than any text context holds."""


@dataclass(slots=True)
class Context:
    """What a recording's windows know of those before them.

    Attributes:
        language: code; `auto` until it was detected.
        previous: ids of the text so far, as far as the next window is to see it.
        conditions: windows are shown what was before them.
        n_open: so many ids at the end a plan may still change.
        doubted: the text that a plan holds back is not to be shown.
        sequential: windows wait for each other; where they do not, only the first one is shown
            what was before it, in whatever batch the others are.
        language_probs: of the detection, likeliest first: the mean of windows that were not sure.
        n_detections: windows whose language was detected.
        last_speech_s: end of the last word.
        n_windows: windows transcribed so far.
        clock: where the time went.
        prompts: what its windows are shown.
        tally: what a model that decodes ahead has brought; `None` without one.
        last_words: of the window before.
        detects: the language is found out.
        has_text: a window had some.
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
        """Return the language of a window by its own probabilities and those of the ones before.

        One that is sure decides for all that follow.
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
        """Ids of what the window before said from a time on, which the next one hears again."""
        return tuple(
            token for word in self.last_words if word.start_s >= start_s for token in word.tokens
        )

    def remember(
        self, result: WindowResult, final: Sequence[Segment], pending: Sequence[Segment] = ()
    ) -> None:
        """Note what the next window is to know.

        Args:
            result: of the last window.
            final: segments that are final with it.
            pending: segments that the plan holds back until the next window.
        """
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
    """One window to transcribe, whatever brings it.

    Attributes:
        window: its audio.
        context: of its recording; windows of one recording share one.
        draft: of live audio: what its text may begin with; such a window is decoded alone.
        word_times: of audio that goes on: find where each word is, where the engine can.
        hold_back_s: of audio that goes on: the text ends where the decoder looks at the last so
            many seconds, where it tells: what it says there is a guess. 0: nowhere.
    """

    window: Window
    context: Context
    draft: Draft | None = None
    word_times: bool = False
    hold_back_s: float = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it is decoded once: live audio, but for a whole segment that is all open."""
        draft = self.draft
        return draft is not None and not (self.word_times and draft.n_fixed == 0)


@dataclass(frozen=True, slots=True)
class WindowResult:
    """What came of one window.

    Attributes:
        window: the window.
        decoded: its tokens and what they tell about themselves.
        segments: timed in the recording, none of them empty; with words where asked for.
        advance_s: seconds to where the next window begins, by the model's timestamps.
        ends_alone: a single timestamp ends the window: nothing was said after it.
        silent: the window holds no speech.
        end_s: end of the last segment in the recording, counting empty ones; `None` if unknown.
        language: code.
        words: of audio that goes on, where their times were asked for.
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
        """Text ids that stay: those of silence are made up, but what is settled stays."""
        kept, drafted = self.decoded.tokens, self.decoded.drafted
        if self.silent:
            kept = kept[: drafted.n_fixed] if drafted is not None else ()
        return [token for token in kept if token < eot]

    @property
    def last_word_end_s(self) -> float | None:
        """End of the last word, or of the last segment where there are no words.

        A window without text but with a time leads there, as in OpenAI Whisper.
        """
        if self.end_s is not None and not any(segment.words for segment in self.segments):
            return self.end_s
        return last_word_end(self.segments)


def last_word_end(segments: Sequence[Segment]) -> float | None:
    """End of the last word of segments, or of the last one where there are no words."""
    for segment in reversed(segments):
        if segment.words:
            return segment.words[-1].end_s
    return segments[-1].end_s if segments else None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of windows behind the encoder.

    Attributes:
        features: `(batch, n_audio_ctx, d_model)` float32.
        clock: what that took.
        ahead: the same by the encoder of the model that decodes ahead, where there is one.
        n_positions: `(batch,)` int64 true positions of each window; `None` means all.
    """

    features: FloatArray
    clock: StageClock
    ahead: FloatArray | None = None
    n_positions: IntArray | None = None


class WindowEngine(Protocol):
    """Audio features, or audio, to text; one for each way to decode, with all its options.

    Attributes:
        batch_key: engines that have the same one decode each other's windows alike, so that windows
            of recordings with different engines may be one batch.
    """

    @property
    def batch_key(self) -> Hashable: ...

    def context(self) -> Context:
        """Of a recording that has not begun."""
        ...

    def steps(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        """Take windows to text; yield before each step, when other windows may be decoded.

        Args:
            encoded: what the encoder made of them; its clock is told where the time goes.
            requests: one per row.
        """
        ...
