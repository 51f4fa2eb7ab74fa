"""Timestamp rules and the segments that come of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.shapes import TINY, TOY_TOKENS
from whisper_hailo.decoding.logits_rules import LogitsRules, prefer_timestamps
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.assemble import split_at_timestamps

BEGIN = TOY_TOKENS.timestamp_begin
EOT = TOY_TOKENS.eot
N_VOCAB = 20 + 501  # times up to 10 s


@given(st.integers(0, 10_000), st.floats(0.5, 8.0))
@settings(max_examples=30, deadline=None)
def test_whatever_the_logits_time_runs_forwards_in_pairs(seed: int, spread: float) -> None:
    assert BEGIN is not None
    rng = np.random.default_rng(seed)
    rules = LogitsRules(TOY_TOKENS, TINY, DecodingOptions(timestamps=True), window_s=10.0)
    tokens: list[int] = []
    for _ in range(60):
        raw = rng.normal(scale=spread, size=N_VOCAB).astype(np.float32)
        lse = float(np.log(np.exp(raw.astype(np.float64)).sum()))
        ruled = rules.apply(raw, lse, tokens)
        token = int(np.argmax(ruled.logits))
        assert ruled.logits[token] > -np.inf
        assert ruled.logsumexp <= lse + 1e-6
        if token == EOT:
            break
        tokens.append(token)
    times = [token - BEGIN for token in tokens if token >= BEGIN]
    assert tokens[0] >= BEGIN
    assert times[0] <= 50  # one second
    assert times == sorted(times)
    assert times[-1] <= 500
    is_time = [token >= BEGIN for token in tokens]
    assert not any(all(is_time[i : i + 3]) for i in range(len(tokens) - 2))
    split = split_at_timestamps(tokens, BEGIN, 10.0)
    edges = [edge for part in split.segments for edge in (part.start_s, part.end_s)]
    assert edges == sorted(edges)
    assert 0 < split.advance_s <= 10.0


def test_all_times_together_against_the_best_word() -> None:
    logits = np.array([3.0, 0.0, 2.5, 2.5], np.float32)
    assert prefer_timestamps(logits.copy(), 2).tolist()[:2] == [-np.inf, -np.inf]
    logits[0] = 3.5
    assert prefer_timestamps(logits.copy(), 2).tolist() == logits.tolist()


def times(*parts: float | str) -> list[int]:
    """Timestamps for numbers, a text id for each letter."""
    assert BEGIN is not None
    return [BEGIN + round(p * 50) if isinstance(p, float) else ord(p) - 97 for p in parts]


@pytest.mark.parametrize(
    ("tokens", "edges", "advance_s", "alone"),
    [
        (times(0.0, "a", 2.0, 2.0, "b", 4.0, 4.0, "c"), [(0.0, 2.0), (2.0, 4.0)], 4.0, False),
        (times(0.0, "a", 2.0, 2.5, "b", 4.0), [(0.0, 2.0), (2.5, 4.0)], 9.0, True),
        (times(0.0, "a", 2.0, 2.5, "b"), [(0.0, 2.0)], 2.0, False),
        (times(0.0, "a", 3.0), [(0.0, 3.0)], 9.0, True),
        (times(1.0, "a", 3.0), [(0.0, 3.0)], 9.0, True),
        (times(0.0, "a", "b"), [(0.0, 9.0)], 9.0, False),
        ([1, 2, 3], [(0.0, 9.0)], 9.0, False),
        ([], [(0.0, 9.0)], 9.0, False),
        (times("a", 3.0), [(0.0, 3.0)], 9.0, True),
        (times(0.0, "a", 0.0), [(0.0, 9.0)], 9.0, True),
        (times("a", 2.0, 2.0, "b", 4.0, 4.0), [(0.0, 2.0), (2.0, 4.0)], 4.0, False),
        (times("a", 2.0, 2.0, "b", 4.0), [(0.0, 2.0), (2.0, 4.0)], 9.0, True),
        (times(1.0, 1.0, "a", 2.0), [(1.0, 1.0), (1.0, 2.0)], 9.0, True),
    ],
)
def test_segments_and_where_to_go_on(
    tokens: list[int], edges: list[tuple[float, float]], advance_s: float, alone: bool
) -> None:
    split = split_at_timestamps(tokens, BEGIN, 9.0)
    assert [(part.start_s, part.end_s) for part in split.segments] == edges
    assert (split.advance_s, split.ends_alone) == (advance_s, alone)


def test_a_segment_has_its_own_tokens_times_among_them() -> None:
    tokens = times(0.0, "a", 2.0, 2.0, "b", 4.0, 4.0, "c")
    split = split_at_timestamps(tokens, BEGIN, 9.0)
    assert [part.tokens for part in split.segments] == [tuple(tokens[:3]), tuple(tokens[3:6])]


@pytest.mark.parametrize(
    ("tokens", "edges", "advance_s"),
    [
        (times(0.0, "a", 2.0, 2.5, "b"), [(0.0, 2.0), (2.5, 9.0)], 9.0),
        (times(0.0, "a", 2.0, 2.0, "b", 4.0, 4.0), [(0.0, 2.0), (2.0, 4.0), (4.0, 4.0)], 4.0),
        (times(0.0, "a", 2.0, 2.5, "b", 4.0), [(0.0, 2.0), (2.5, 4.0)], 9.0),
        (times(0.0, "a", "b"), [(0.0, 9.0)], 9.0),
        (times(0.0, "a", 3.0), [(0.0, 3.0)], 9.0),
    ],
)
def test_rest_is_kept_where_the_next_window_begins_elsewhere(
    tokens: list[int], edges: list[tuple[float, float]], advance_s: float
) -> None:
    split = split_at_timestamps(tokens, BEGIN, 9.0, keeps_rest=True)
    assert [(part.start_s, part.end_s) for part in split.segments] == edges
    assert [token for part in split.segments for token in part.tokens] == tokens, "nothing is lost"
    assert split.advance_s == advance_s


def test_without_timestamps_a_window_is_one_segment() -> None:
    split = split_at_timestamps([1, 600, 2], None, 7.5)
    (whole,) = split.segments
    assert (whole.start_s, whole.end_s, whole.tokens) == (0.0, 7.5, (1, 600, 2))
    assert (split.advance_s, split.ends_alone) == (7.5, False)
