"""Where a segment that is too long is cut, compared with a plain search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from whisper_hailo.core.types import BufferWord, FloatArray
from whisper_hailo.live.cuts import find_cut
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import Segmenter

FRAME = 512


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
