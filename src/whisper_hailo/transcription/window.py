"""Windows: their requests, the context that they share, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from whisper_hailo.audio.windows import Window
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP, FloatArray, IntArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.prompt import PromptMaker
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.decoding.words import split_words
from whisper_hailo.text.subtitles import spread_times
from whisper_hailo.text.tokenizer import Tokenizer

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
        sequential: windows wait for each other; else only the first one is shown earlier text.
        language_probs: likeliest first: the mean of windows that were not sure.
        n_detections: windows whose language was detected.
        last_speech_s: end of the last word.
        n_windows: windows transcribed so far.
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

    def remember(
        self, result: WindowResult, final: Sequence[Segment], pending: Sequence[Segment] = ()
    ) -> None:
        """Update by a window's result, its final segments, and those that are held back."""
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
        waiting = tuple(token for segment in pending for token in segment.tokens)
        if result.decoded.temperature > _HOT and not result.silent:
            self.previous, self.doubted = (), bool(waiting)
            return
        settled = self.previous[: len(self.previous) - self.n_open]
        shown = () if self.doubted else final
        said = (token for segment in shown for token in segment.tokens)
        self.previous = (*settled, *said, *waiting)[-_MOST_TOKENS:]
        self.n_open, self.doubted = len(waiting), False


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """One window of a recording, or of live audio, which has a draft and is decoded alone.

    Attributes:
        draft: expected start of the text.
        word_times: align words of live audio, where the engine can.
        hold_back_s: end the text of live audio where the decoder attends to the last seconds, so
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
        ends = [segment.words[-1].end_s for segment in self.segments if segment.words]
        ends = ends or [segment.end_s for segment in self.segments]
        return ends[-1] if ends else None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of encoded windows: audio features `(batch, n_audio_ctx, d_model)`, stage times.

    Attributes:
        n_positions: `(batch,)` int64 true positions of each window; `None` means all.
    """

    features: FloatArray
    clock: StageClock
    n_positions: IntArray | None = None


class TimedTokens(NamedTuple):
    """Ids of one segment, timestamps included, and its times within the window."""

    start_s: float
    end_s: float
    tokens: tuple[int, ...]


class Split(NamedTuple):
    """A window's tokens by segments; `advance_s` and `ends_alone` as in `WindowResult`."""

    segments: list[TimedTokens]
    advance_s: float
    ends_alone: bool


def split_at_timestamps(
    tokens: Sequence[int], begin: int | None, content_s: float, *, keeps_rest: bool = False
) -> Split:
    """Split where one segment's end meets the next one's start.

    Text after the last pair is an unfinished segment: it is left to the next window, which starts
    at that pair, unless it `keeps_rest`. Without pairs all of the window is one segment, and the
    next one follows it. `begin` is the id of `<|0.00|>`; `None` for models without timestamps.

    Source: OpenAI Whisper, `transcribe`.
    """
    if begin is None:
        return Split([TimedTokens(0.0, content_s, tuple(tokens))], content_s, ends_alone=False)
    is_time = [token >= begin for token in tokens]
    ends_alone = is_time[-2:] == [False, True]
    seams = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    if not seams:
        later = [token for token in tokens if token > begin]
        end_s = (later[-1] - begin) * SECONDS_PER_TIMESTAMP if later else content_s
        return Split([TimedTokens(0.0, end_s, tuple(tokens))], content_s, ends_alone)
    if ends_alone or keeps_rest:
        seams.append(len(tokens))
    segments = []
    for part in (tuple(tokens[a:b]) for a, b in zip([0, *seams], seams, strict=False)):
        start_s = max(0, part[0] - begin) * SECONDS_PER_TIMESTAMP
        end_s = (part[-1] - begin) * SECONDS_PER_TIMESTAMP if part[-1] >= begin else content_s
        segments.append(TimedTokens(start_s, end_s, part))
    return Split(segments, content_s if ends_alone else segments[-1].end_s, ends_alone)


def assemble_segments(
    window: Window, decoded: Decoded, language: str, tokenizer: Tokenizer, options: DecodingOptions
) -> WindowResult:
    """Split a window's tokens at their timestamps; silence and empty segments are dropped."""
    content_s = window.content_s
    begin = tokenizer.special.timestamp_begin if options.timestamps else None
    timed, advance_s, ends_alone = split_at_timestamps(
        decoded.tokens, begin, content_s, keeps_rest=not window.is_sought
    )
    silent = decoded.is_silence(options.thresholds)
    timed = [] if silent else timed
    segments = [
        Segment(
            start_s=window.locate(min(start_s, content_s), is_start=True),
            end_s=window.locate(min(end_s, content_s)),
            text=tokenizer.decode(tokens).strip(),
            tokens=tokens,
            avg_logprob=decoded.avg_logprob,
            no_speech_prob=decoded.no_speech_prob,
            runaway=decoded.runaway,
            temperature=decoded.temperature,
            compression_ratio=decoded.compression_ratio,
            language=language,
            window_start_s=window.start_s,
        )
        for start_s, end_s, tokens in timed
    ]
    return WindowResult(
        window=window,
        decoded=decoded,
        segments=tuple(segment for segment in segments if segment.text),
        advance_s=advance_s,
        ends_alone=ends_alone,
        silent=silent,
        end_s=window.locate(min(timed[-1].end_s, content_s)) if timed else None,
        language=language,
    )


TimedT = TypeVar("TimedT", Segment, Word)


def round_times(segment: Segment) -> Segment:
    """Return the segment with its times rounded to 0.1 ms, for output.

    Until then they stay exact: rules about words compare differences of times.
    """

    def rounded(timed: TimedT) -> TimedT:
        return replace(timed, start_s=round(timed.start_s, 4), end_s=round(timed.end_s, 4))

    words, start_s = tuple(map(rounded, segment.words)), round(segment.window_start_s, 4)
    return replace(rounded(segment), words=words, window_start_s=start_s)


def spread_words(segments: Sequence[Segment], tokenizer: Tokenizer) -> list[Segment]:
    """Add words without alignment, timed by their letters: good enough to join windows."""
    spread = []
    for segment in segments:
        text = [token for token in segment.tokens if token < tokenizer.special.eot]
        pieces = split_words(tokenizer, text, segment.language)
        words = spread_times([word for word, _ in pieces], segment.start_s, segment.end_s)
        timed = zip(words, pieces, strict=True)
        words = [replace(word, tokens=tokens) for word, (_, tokens) in timed]
        spread.append(replace(segment, words=tuple(words)))
    return spread
