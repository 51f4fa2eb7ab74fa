"""Seeking through speech that is written down: every utterance is heard once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.transcription.longform.layouts import PLAN, feed_of
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.transcription.assemble import split_at_timestamps
from whisper_hailo.transcription.longform.plan import WHOLE
from whisper_hailo.transcription.longform.seek import SeekPlan
from whisper_hailo.transcription.window import WindowResult

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
@settings(max_examples=30, deadline=None)
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
