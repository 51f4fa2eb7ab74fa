"""Where a segment that is too long is cut, also compared with a plain search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes.scripted_speech import (
    FRAME,
    S,
    Speller,
    Sure,
    completed,
    frames,
    run,
    segmenter,
    signals,
    silence,
    speech,
    texts,
)
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import BufferText, BufferWord, FloatArray
from whisper_hailo.live.cuts import find_cut
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.transcription.partials import PartialBuffer


def words(*edges: tuple[float, float]) -> list[BufferWord]:
    return [BufferWord(" w", (1,), 0.9, *edge) for edge in edges]


@pytest.mark.parametrize(
    ("edges", "settled_s", "between"),
    [
        ([(0.1, 0.9), (1.2, 1.8)], 0.0, (0.96, 1.28)),  # between the two, with slack
        # The gap is in the first half: anywhere.
        ([(0.1, 0.4), (0.5, 1.8)], 0.0, (0.96, 1.72)),
        ([], 0.0, (0.96, 1.72)),
        ([(0.1, 0.9), (1.2, 1.8)], 1.1, (1.1, 1.28)),  # behind the settled text
    ],
)
def test_find_cut_is_between_words_in_the_second_half(
    edges: list[tuple[float, float]], settled_s: float, between: tuple[float, float]
) -> None:
    """60 frames are 1.92 s, the last 0.2 s of which stay together."""
    cutter = segmenter()
    signals(cutter, *[S] * 60)
    place = find_cut(cutter, words(*edges), settled_s)
    assert between[0] <= place / 16_000 <= between[1] + 1e-6


def test_find_cut_ignores_gaps_in_the_first_half() -> None:
    """Silence is at 1.4 s; the only gap between words, at 0.45 s, is too early for a cut."""
    cutter = segmenter(Sure())
    sound = np.concatenate(frames(*[S] * 60))
    sound[21_600:23_200] = 0.0
    for frame in sound.reshape(-1, FRAME):
        cutter.push(frame)
    place = find_cut(cutter, words((0.1, 0.4), (0.5, 1.8)), 0.0)
    assert 21_600 < place < 23_200


def test_find_cut_leaves_a_sample_on_both_sides() -> None:
    cutter = segmenter()
    signals(cutter, S, S)
    assert find_cut(cutter, [], 99.0) == 2 * FRAME - 1


class StallingOnce(Speller):
    """A device that fails once, when word times are wanted."""

    stalled = False

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        if buffer.word_timestamps and not self.stalled:
            self.stalled = True
            raise DeviceError("the device stalled; wait")
        return super().transcribe(buffer, language)


def test_captioner_device_stalling_at_a_cut_loses_no_word() -> None:
    """Without the times of words a segment that is too long is cut where it is quiet."""
    words = range(12)
    recognizer = StallingOnce()
    options = CaptionOptions(max_segment_s=2.5)
    events, captioner = run(
        np.concatenate([speech(words), silence(1)]), recognizer, options
    )
    assert recognizer.stalled
    assert texts(events).split() == [f"w{index}" for index in words]
    assert len(completed(events)) > 1
    assert captioner.statistics.n_engine_faults == 1


class Script:
    """A detector with a script of probabilities, one a frame."""

    def __init__(self, probabilities: list[float]) -> None:
        self._probabilities = iter(probabilities)

    def reset(self) -> None:
        pass

    def probability(self, frame: FloatArray) -> float:
        return next(self._probabilities)


def make_segmenter(audio: FloatArray, probabilities: list[float]) -> Segmenter:
    """Return a segmenter whose segment is all of the audio."""
    options = CaptionOptions(vad_threshold=0.2, min_speech_s=0.0, pre_roll_s=0.0)
    segmenter = Segmenter(Script(probabilities), options)
    for frame in audio.reshape(-1, FRAME):
        segmenter.push(frame)
    return segmenter


def noise(n_frames: int, seed: int) -> tuple[FloatArray, list[float]]:
    """Return noise of changing loudness, and the probability of speech of each frame."""
    rng = np.random.default_rng(seed)
    loudness = np.repeat(rng.uniform(0.01, 1.0, 4 * n_frames), FRAME // 4)
    audio = (loudness * rng.standard_normal(FRAME * n_frames)).astype(np.float32)
    return audio, [float(one) for one in rng.uniform(0.2, 1.0, n_frames)]


def search_quietest(
    audio: FloatArray, probabilities: list[float], n_cut: int, begin: int, end: int
) -> tuple[int, float]:
    """Search every 5 ms: root mean square of 40 ms, weighted by the frame's probability."""
    rest = audio[n_cut:].astype(np.float64)
    best = (0, np.inf)
    for place in range(begin, end, 80):
        around = rest[max(0, place - 320) : place + 320]
        frame = min((place + n_cut) // FRAME, len(probabilities) - 1)
        score = np.sqrt(np.mean(around**2)) * (0.5 + probabilities[frame])
        best = min(best, (place, score), key=lambda one: one[1])
    return best


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_find_quietest_equals_a_plain_search(data: st.DataObject) -> None:
    n_frames = data.draw(st.integers(2, 12))
    audio, probabilities = noise(n_frames, data.draw(st.integers(0, 999)))
    n_cut = data.draw(st.integers(0, audio.size - FRAME))
    segmenter = make_segmenter(audio, probabilities)
    if n_cut:
        segmenter.cut_segment(n_cut)
    begin = data.draw(st.integers(0, audio.size - n_cut - 1))
    end = data.draw(st.integers(begin + 1, audio.size - n_cut))
    place, loudness = segmenter.find_quietest(begin, end)
    expected, least = search_quietest(audio, probabilities, n_cut, begin, end)
    assert place == expected
    assert loudness == pytest.approx(least, rel=1e-6)


def make_words(*edges: tuple[float | None, float | None]) -> list[BufferWord]:
    return [BufferWord(" w", (1,), 0.9, *edge) for edge in edges]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.0, 2.0), max_size=12).map(sorted),
    st.floats(0.0, 2.048),  # no text settles behind the audio
    st.integers(0, 99),
)
# The first of two gaps is the quieter one.
@example([0.1, 1.1, 1.2, 1.5, 1.6, 1.9], 0.0, 3)
@example([0.1, 1.1, 1.2, 1.5, 1.6, 1.9], 0.0, 4)  # the second
def test_find_cut_is_quietest_place_between_words(
    edges: list[float], settled_s: float, seed: int
) -> None:
    """64 frames are 32,768 samples: the cut is in the second half and leaves 0.2 s behind it."""
    audio, probabilities = noise(64, seed)
    words = make_words(*zip(edges[::2], edges[1::2], strict=False))
    least = max(round(settled_s * 16_000), 16_384)
    most = max(least + 1, 32_768 - 3_200)
    gaps = [
        (
            max(least, round((one.end_s - 0.08) * 16_000)),
            min(most, round((two.start_s + 0.08) * 16_000)),
        )
        for one, two in pairwise(words)
        if one.end_s is not None and two.start_s is not None
    ]
    places = [
        search_quietest(audio, probabilities, 0, *gap)
        for gap in gaps
        if gap[0] < gap[1]
    ]
    places = places or [search_quietest(audio, probabilities, 0, least, most)]
    expected = min(places, key=lambda one: one[1])[0]
    assert find_cut(make_segmenter(audio, probabilities), words, settled_s) == min(
        expected, 32_767
    )


@pytest.mark.parametrize("edge", [(0.2, None), (None, 1.2)])
def test_find_cut_ignores_words_without_times(
    edge: tuple[float | None, float | None],
) -> None:
    """The whole second half is searched, of which the gap would be a part."""
    audio, probabilities = noise(64, 1)
    segmenter = make_segmenter(audio, probabilities)
    quietest = search_quietest(audio, probabilities, 0, 16_384, 29_568)[0]
    words = (
        make_words((0.1, 1.2), edge)
        if edge[0] is None
        else make_words(edge, (1.3, 1.4))
    )
    assert find_cut(segmenter, words, 0.0) == quietest
