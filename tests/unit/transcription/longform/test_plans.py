"""Plans of windows over recordings of known layout: nothing is lost, doubled or held for ever."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.option_groups import WordOptions
from whisper_hailo.decoding.segments import split_at_timestamps
from whisper_hailo.transcription.longform.clips import WHOLE, Clip
from whisper_hailo.transcription.longform.feed import AudioFeed
from whisper_hailo.transcription.longform.overlap import OverlapPlan
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.longform.seek import SeekPlan
from whisper_hailo.transcription.longform.speech import SpeechPlan
from whisper_hailo.transcription.window import WindowResult

PLAN = WindowPlan(10.0, 1.0)


def feed_of(audio: FloatArray, block: int = 16_000) -> AudioFeed:
    return AudioFeed(audio[at : at + block] for at in range(0, len(audio), block))


def ramp(n_samples: int) -> FloatArray:
    """Every sample tells its own position."""
    return np.arange(n_samples, dtype=np.float32)


def heard(
    window: Window, segments: tuple[Segment, ...] = (), advance_s: float = 99.0
) -> WindowResult:
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(window, decoded, segments, min(advance_s, window.content_s))


def segment(words: list[Word]) -> Segment:
    text = "".join(word.text for word in words).strip()
    return Segment(words[0].start_s, words[-1].end_s, text, (), -0.1, 0.0, words=tuple(words))


def test_feed_reads_across_blocks_and_forgets() -> None:
    feed = feed_of(ramp(50_000), block=7_000)
    assert feed.read(5_000, 10_000).tolist() == list(range(5_000, 15_000))
    assert feed.reaches(49_999)
    assert not feed.reaches(50_000)
    assert feed.read(49_990, 100).size == 10
    assert feed.read(60_000, 100).size == 0


@given(st.integers(1, 1_000_000), st.sampled_from([0.0, 0.5, 2.0, 3.0]))
@settings(max_examples=50, deadline=None)
def test_fixed_windows_cover_everything(n_samples: int, overlap_s: float) -> None:
    plan = OverlapPlan(feed_of(ramp(n_samples)), WHOLE, PLAN, overlap_s, keep_words=False)
    windows = list(plan.windows())
    covered = 0
    for window in windows:
        start = round(window.start_s * SAMPLE_RATE_HZ)
        assert window.audio[0] == start
        assert start <= covered
        covered = start + window.audio.size
    assert n_samples - covered < 160
    assert [window.needs_words for window in windows] == [overlap_s > 0 and len(windows) > 1] * len(
        windows
    )


@given(st.integers(1, 600_000), st.lists(st.floats(0.0, 9.0), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_seeking_always_gets_to_the_end(n_samples: int, advances: list[float]) -> None:
    plan = SeekPlan(feed_of(ramp(n_samples)), WHOLE, PLAN)
    end = 0
    for index, window in enumerate(plan.windows()):
        start = round(window.start_s * SAMPLE_RATE_HZ)
        assert window.audio[0] == start
        assert start <= end
        end = start + window.audio.size
        plan.take(heard(window, advance_s=advances[index % len(advances)]))
        assert index < 10 * n_samples // 1600 + 10
    assert n_samples - end < 160


def test_with_words_a_window_of_a_time_alone_leads_to_that_time() -> None:
    audio = ramp(40 * SAMPLE_RATE_HZ)
    for words, at_s in ((WordOptions(), 1.5), (None, 9.0)):
        plan = SeekPlan(feed_of(audio), WHOLE, PLAN, words)
        windows = plan.windows()
        result = replace(heard(next(windows)), end_s=1.5)
        assert plan.take(result) == []
        assert next(windows).start_s == pytest.approx(at_s)


def test_clips_bound_the_windows_of_every_plan() -> None:
    audio = ramp(40 * SAMPLE_RATE_HZ)
    clips = (Clip(16_000, 32_000), Clip(160_000, 480_000))
    for plan in (
        OverlapPlan(feed_of(audio), clips, PLAN, 2.0, keep_words=False),
        SeekPlan(feed_of(audio), clips, PLAN),
        SpeechPlan(feed_of(audio), clips, PLAN, LongOptions(speech_pad_s=0.5), Script([1.0] * 999)),
    ):
        inside = np.zeros(audio.size, bool)
        for window in plan.windows():
            inside[window.audio.astype(int)] = True
            plan.take(heard(window))
        expected = np.zeros(audio.size, bool)
        expected[16_000:32_000] = expected[160_000:480_000] = True
        assert np.array_equal(inside, expected)


class Script:
    """A detector that says what it was told to say."""

    def __init__(self, probabilities: list[float]) -> None:
        self._probabilities = iter(probabilities)

    def probability(self, frame: FloatArray) -> float:
        return next(self._probabilities, 0.0)


@st.composite
def layouts(draw: st.DrawFn) -> list[float]:
    """Speech probabilities per 32 ms: runs of speech and of silence."""
    runs = draw(st.lists(st.tuples(st.booleans(), st.integers(1, 500)), min_size=1, max_size=12))
    return [0.9 if is_speech else 0.05 for is_speech, length in runs for _ in range(length)]


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_speech_is_packed_once_and_in_order(probabilities: list[float]) -> None:
    """Every frame of speech is in exactly one window; windows fit; pieces tell the truth."""
    audio = ramp(len(probabilities) * 512)
    plan = SpeechPlan(feed_of(audio), WHOLE, PLAN, LongOptions(), Script(probabilities))
    seen = np.zeros(audio.size, int)
    last = -1.0
    for window in plan.windows():
        assert window.audio.size <= PLAN.content_samples
        for piece in window.pieces:
            at, size = round(piece.at_s * 16_000), round(piece.duration_s * 16_000)
            samples = window.audio[at : at + size]
            assert samples[0] == round(piece.start_s * 16_000) > last
            last = samples[-1]
            seen[samples.astype(int)] += 1
    assert seen.max(initial=0) <= 1
    speech = np.repeat(np.array(probabilities) > 0.5, 512)
    run_lengths = np.diff(np.flatnonzero(np.diff(speech, prepend=False, append=False)))[::2]
    if not np.any(run_lengths < 3 * 512):  # shorter ones are clicks
        assert np.all(seen[speech] == 1)


@st.composite
def speeches(draw: st.DrawFn) -> list[Word]:
    """Half a minute of words with pauses; words may repeat."""
    every = ["the", "a", "cat", "dog", "tree", "very", "no", "yes", "runs"]
    vocabulary = st.sampled_from(every[: draw(st.sampled_from([3, 9]))])
    words, at = [], 0.0
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([0.02, 0.05, 0.1, 0.4, 3.0]))
        length = draw(st.floats(0.15, 0.7))
        words.append(Word(at, at + length, " " + draw(vocabulary), 0.9))
        at += length
    return words


def listen(words: list[Word], window: Window, jitter: np.random.Generator) -> list[Word]:
    """Words that lie in the window, times a little off; those cut by its edge are garbled."""
    result = []
    for word in words:
        inside = min(word.end_s, window.end_s) - max(word.start_s, window.start_s)
        share = inside / (word.end_s - word.start_s)
        off = jitter.uniform(-0.08, 0.08)
        if share >= 0.999:
            result.append(Word(word.start_s + off, word.end_s + off, word.text, 0.9))
        elif share > 0.3:
            start = max(word.start_s, window.start_s)
            result.append(Word(start, min(word.end_s, window.end_s), word.text + "zz", 0.2))
    return result


def sound_of(words: list[Word], *, pauses: bool) -> FloatArray:
    """As loud as it takes: words over a murmur, or a sound so steady that no pause shows."""
    n_samples = round((words[-1].end_s + 0.5) * SAMPLE_RATE_HZ) if words else 320_000
    loudness = np.full(n_samples, 0.001 if pauses else 0.1)
    for word in words:
        loudness[round(word.start_s * SAMPLE_RATE_HZ) : round(word.end_s * SAMPLE_RATE_HZ)] = 0.1
    return (loudness * noise()[:n_samples]).astype(np.float32)


@cache
def noise() -> NDArray[np.float64]:
    """As long as the longest of the speeches."""
    return np.random.default_rng(0).standard_normal(151 * SAMPLE_RATE_HZ)


@pytest.mark.parametrize("pauses", [False, True], ids=["overlapping", "between pauses"])
@given(speeches(), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_no_word_is_lost_or_doubled_at_a_seam(pauses: bool, words: list[Word], seed: int) -> None:
    jitter = np.random.default_rng(seed)
    feed = feed_of(sound_of(words, pauses=pauses))
    plan = OverlapPlan(feed, WHOLE, PLAN, 2.0, keep_words=True)
    segments: list[Segment] = []
    for window in plan.windows():
        own = listen(words, window, jitter)
        segments += plan.take(heard(window, (segment(own),) if own else ()))
    segments += plan.finish()
    said = [word.text for part in segments for word in part.words]
    assert said == [word.text for word in words]
    starts = [part.start_s for part in segments]
    assert starts == sorted(starts)


def test_words_with_useless_times_are_joined_by_what_they_say() -> None:
    left = [Word(0.0, 9.0, f" {w}", 0.5) for w in ("one", "two", "three", "four", "five")]
    right = [Word(7.0, 16.0, f" {w}", 0.5) for w in ("four", "five", "six", "seven")]
    plan = OverlapPlan(feed_of(np.zeros(256_000, np.float32)), WHOLE, PLAN, 2.0, keep_words=False)
    first, second = plan.windows()
    segments = plan.take(heard(first, (segment(left),)))
    segments += plan.take(heard(second, (segment(right),)))
    segments += plan.finish()
    assert " ".join(part.text for part in segments) == "one two three four five six seven"


def test_a_seam_within_a_later_segment_leaves_what_is_behind_it() -> None:
    """The second window's first segment and the first word of its second were heard before."""
    first_window, second_window = Window(ramp(144_000), 0.0), Window(ramp(144_000), 7.0)
    at_end = [Word(7.2, 7.4, " a", 0.9), Word(7.5, 7.7, " b", 0.9)]
    behind = [Word(9.5, 9.7, " c", 0.9), Word(10.0, 10.2, " d", 0.9)]
    plan = OverlapPlan(feed_of(ramp(1)), WHOLE, PLAN, 2.0, keep_words=True)
    assert plan.take(heard(first_window, (segment(at_end),))) == []
    parts = (segment(at_end[:1]), segment([at_end[1], *behind]))
    (kept,) = plan.take(heard(second_window, parts))
    assert kept.text == "a b"
    (rest,) = plan.finish()
    assert (rest.text, rest.start_s, rest.end_s) == ("c d", 9.5, 10.2)


@pytest.mark.parametrize(
    ("n_samples", "n_windows"), [(1, 1), (144_000, 1), (144_159, 1), (144_160, 2), (288_000, 2)]
)
def test_a_rest_of_less_than_a_frame_is_not_worth_a_window(n_samples: int, n_windows: int) -> None:
    plan = OverlapPlan(feed_of(ramp(n_samples)), WHOLE, PLAN, 0.0, keep_words=False)
    assert len(list(plan.windows())) == n_windows


def test_stretches_of_speech_keep_a_little_of_the_silence_around_them() -> None:
    """Frames 20 to 29 are speech: 0.2 s before them, and 0.2 s behind."""
    probabilities = [0.05] * 20 + [0.9] * 10 + [0.05] * 40
    audio = ramp(len(probabilities) * 512)
    plan = SpeechPlan(feed_of(audio), WHOLE, PLAN, LongOptions(), Script(probabilities))
    (window,) = plan.windows()
    assert window.audio[[0, -1]].tolist() == [20 * 512 - 3200, 30 * 512 + 3200 - 1]
    assert [piece.at_s for piece in window.pieces] == [0.0]
    assert window.start_s == pytest.approx(20 * 0.032 - 0.2)


def test_stretches_that_were_cut_meet_where_they_were_cut() -> None:
    """9 s of audio with 0.2 s on both sides are 268 frames: the quietest is frame 200."""
    probabilities = [0.9] * 400 + [0.05] * 20
    probabilities[200] = 0.6
    audio = ramp(len(probabilities) * 512)
    plan = SpeechPlan(feed_of(audio), WHOLE, PLAN, LongOptions(), Script(probabilities))
    first, second = plan.windows()
    assert first.audio[[0, -1]].tolist() == [0, 201 * 512 - 1]
    assert second.audio[[0, -1]].tolist() == [201 * 512, 400 * 512 + 3200 - 1]


@pytest.mark.parametrize("strategy", ["", "Seek", "vadd"])
def test_unknown_strategies_are_refused(strategy: str) -> None:
    with pytest.raises(Exception, match="expected one of: auto, seek, overlap, vad, consecutive"):
        LongOptions(strategy=strategy)


@pytest.mark.parametrize("overlap_s", [0.0, -1.0, 15.01])
def test_overlaps_that_no_window_has_are_refused(overlap_s: float) -> None:
    with pytest.raises(OptionError, match="more than 0 s, at most 15 s"):
        LongOptions(overlap_s=overlap_s)
    assert LongOptions(overlap_s=15.0).overlap_s == 15.0


def test_what_nobody_tells_of_long_recordings() -> None:
    told = LongOptions("auto", None, WHOLE, vad_threshold=0.5, min_silence_s=0.5)
    assert LongOptions() == replace(told, speech_pad_s=0.2, trim_window=False)


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("overlap_s", [None, 0.1, 15.0], [0.0, 15.1, float("nan")]),
        ("vad_threshold", [0.01, 0.99], [0.0, 1.0, 1.5, -0.1, float("nan")]),
        ("min_silence_s", [0.0, 10.0], [-0.1, 10.1, float("nan")]),
        ("speech_pad_s", [0.0, 10.0], [-0.1, 10.1, float("nan")]),
    ],
)
def test_options_of_long_recordings_end_where_they_are_said_to(
    name: str, accepted: list[float], refused: list[float]
) -> None:
    for value in accepted:
        assert getattr(LongOptions(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in refused:
        with pytest.raises(OptionError, match="expected"):
            LongOptions(**{name: value})  # type: ignore[arg-type]


BEGIN = 1000
"""Id of `<|0.00|>` in the tests below; each utterance is an id of its own."""


@st.composite
def utterances(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Starts and ends on the grid of the timestamps; each fits a window that begins before it."""
    result, at = [], 0
    for _ in range(draw(st.integers(0, 25))):
        at += draw(st.integers(0, 250))
        end = at + draw(st.integers(5, 190))
        result.append((at * 0.02, end * 0.02))
        at = end
    return result


def written(truth: list[tuple[float, float]], window: Window) -> list[int]:
    """What a model that hears everything writes: one that is cut has no end."""
    tokens: list[int] = []
    for index, (start_s, end_s) in enumerate(truth):
        if window.start_s - 0.01 <= start_s < window.end_s - 0.01:
            tokens += [BEGIN + round((start_s - window.start_s) * 50), index]
            if end_s <= window.end_s + 0.001:
                tokens.append(BEGIN + round((end_s - window.start_s) * 50))
    return tokens


@given(utterances())
@settings(max_examples=60, deadline=None)
def test_seeking_hears_every_utterance_once_and_times_rise(
    truth: list[tuple[float, float]],
) -> None:
    n_samples = round(((truth[-1][1] if truth else 0.0) + 0.3) * SAMPLE_RATE_HZ)
    plan = SeekPlan(feed_of(np.zeros(n_samples, np.float32)), WHOLE, PLAN)
    segments: list[Segment] = []
    for window in plan.windows():
        tokens = written(truth, window)
        split = split_at_timestamps(tokens, BEGIN, window.content_s)
        parts = tuple(
            Segment(
                window.start_s + part.start_s,
                window.start_s + part.end_s,
                " ".join(str(token) for token in part.tokens if token < BEGIN),
                part.tokens,
                -0.1,
                0.0,
            )
            for part in split.segments
            if tokens
        )
        decoded = Decoded(tuple(tokens), -0.1, 0.0, runaway=False)
        result = WindowResult(
            window, decoded, parts, split.advance_s, split.ends_alone, silent=not tokens
        )
        segments += plan.take(result)
    assert [part.text for part in segments] == [str(index) for index in range(len(truth))]
    # As in Whisper, a segment that is alone in its window begins where the window does.
    assert all(part.start_s <= s + 0.021 for part, (s, _) in zip(segments, truth, strict=True))
    assert [part.end_s for part in segments] == pytest.approx([e for _, e in truth], abs=0.021)
    edges = [edge for part in segments for edge in (part.start_s, part.end_s)]
    assert np.all(np.diff(edges) > -1e-6)
