"""FrameBuffer of audio that comes in pieces of any length, beside cutting all of it at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whisper_hailo.live.segmenter import FrameBuffer

FRAME = 512


@given(st.lists(st.integers(0, 1500), max_size=6), st.booleans())
def test_frames_are_those_of_the_whole_and_the_rest_is_silence(
    sizes: list[int], told_apart: bool
) -> None:
    n_samples = sum(sizes)
    audio = np.arange(1, n_samples + 1, dtype=np.float32)
    who = (np.arange(n_samples) // 700).astype(np.int8)
    frames, got, at = FrameBuffer(), [], 0
    for size in sizes:
        part = slice(at, at + size)
        got += frames.push(audio[part], who[part] if told_apart else None)
        at += size
        assert frames.n_waiting == at % FRAME
    rest = frames.rest()
    got += [rest] if rest is not None else []
    assert all(frame.size == FRAME for frame, _ in got)
    padded = np.concatenate([audio, np.zeros(-n_samples % FRAME, np.float32)])
    np.testing.assert_array_equal(np.concatenate([audio[:0], *(one for one, _ in got)]), padded)
    middles = [int(who[at]) for at in range(FRAME // 2, n_samples // FRAME * FRAME, FRAME)]
    last = [int(who[-1])] if n_samples % FRAME else []
    assert [speaker for _, speaker in got] == (middles + last if told_apart else [None] * len(got))
    assert (frames.n_waiting, frames.rest()) == (0, None)


def test_the_rest_is_theirs_who_spoke_last() -> None:
    frames = FrameBuffer()
    list(frames.push(np.ones(300, np.float32), np.array([0] * 299 + [1], np.int8)))
    rest = frames.rest()
    assert rest is not None
    assert rest[1] == 1


def test_what_waits_may_be_let_go() -> None:
    frames = FrameBuffer()
    assert list(frames.push(np.ones(300, np.float32), np.ones(300, np.int8))) == []
    assert (frames.drop(), frames.drop()) == (300, 0)
    first_half = (np.arange(FRAME) < FRAME // 2).astype(np.int8)
    (got,) = frames.push(np.full(FRAME, 2.0, np.float32), first_half)
    assert (got[0].min(), got[1]) == (2.0, 0), "the middle is who is heard in it"
    assert frames.rest() is None
