"""Segments of speech, frame by frame: whose they are, and how little is enough."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.live.captioning.test_counted import FRAME, N, S, Told, frames, segmenter, signals
from whisper_hailo.live.captioning.segmenter import Segmenter, Signal
from whisper_hailo.live.options import CaptionOptions


def test_before_anything_is_said_there_is_no_segment() -> None:
    cutter = segmenter()
    assert (cutter.n_samples, cutter.n_heard, cutter.heard_s, cutter.start) == (0, 0, 0.0, 0)
    assert (cutter.last_speech, cutter.audio.size, cutter.audio.dtype) == (0, 0, np.float32)
    assert cutter.speaker is None


def test_one_frame_is_enough_where_no_speech_is_too_short() -> None:
    assert signals(segmenter(min_speech_s=0.0), N, S, N) == ".S."
    assert signals(segmenter(min_silence_s=0.032), S, S, N, S, S) == ".SE.S"


def test_a_segment_that_has_ended_leaves_no_speech_behind_it() -> None:
    assert signals(segmenter(), S, S, N, N, N, S, N, S, S) == ".S..E...S"


@pytest.mark.parametrize(("pre_roll_s", "n_frames"), [(0.0, 2), (0.032, 3), (0.064, 4), (1.0, 8)])
def test_a_segment_has_its_pre_roll_and_no_more(pre_roll_s: float, n_frames: int) -> None:
    cutter = segmenter(pre_roll_s=pre_roll_s)
    assert signals(cutter, *[N] * 6, S, S) == ".......S"
    assert cutter.audio.size == n_frames * FRAME
    assert cutter.start == (8 - n_frames) * FRAME


def test_what_is_skipped_is_no_pre_roll_and_half_a_click_before_it_counts_no_more() -> None:
    cutter = segmenter(pre_roll_s=0.32)
    signals(cutter, N, S)
    cutter.skip(100)
    assert signals(cutter, S, S) == ".S"
    assert cutter.n_samples == 2 * FRAME


def said_by(*speakers: int | None) -> tuple[Segmenter, list[Signal | None]]:
    """Speech of these speakers, a frame each; the first two begin a segment."""
    options = CaptionOptions(min_speech_s=0.064, pre_roll_s=0.096, min_silence_s=1.0)
    cutter = Segmenter(Told(), options)
    return cutter, [
        cutter.push(frame, who)
        for frame, who in zip(frames(*[S] * len(speakers)), speakers, strict=True)
    ]


def test_a_segment_is_its_speakers_not_theirs_who_were_before_it() -> None:
    cutter = Segmenter(Told(), CaptionOptions(min_speech_s=0.064, pre_roll_s=0.96))
    for probability, who in ((N, 0), (N, 0), (N, 0), (S, 1), (S, 1)):
        cutter.push(frames(probability)[0], who)
    assert (cutter.speaker, cutter.n_samples) == (1, 5 * FRAME)


@pytest.mark.parametrize(("heard", "whose"), [((1, 0, 1), 1), ((0, 1, 0), 0), ((1, 1, 0), 1)])
def test_a_segment_is_theirs_who_said_most_of_its_beginning(
    heard: tuple[int, ...], whose: int
) -> None:
    cutter = Segmenter(Told(), CaptionOptions(min_speech_s=0.096, pre_roll_s=0.0))
    for frame, who in zip(frames(S, S, S), heard, strict=True):
        cutter.push(frame, who)
    assert cutter.speaker == whose


def test_ten_frames_by_another_are_their_turn_and_nine_are_a_word_between() -> None:
    cutter, signals = said_by(0, 0, *[1] * 9, 0, 0, *[1] * 10)
    assert signals == [None, Signal.STARTED, *[None] * 20, Signal.TURNED]
    assert cutter.speaker == 0
    assert (cutter.turn(), cutter.speaker) == (13 * FRAME, 1)


def test_two_others_who_interrupt_have_no_turn_together() -> None:
    _, signals = said_by(0, 0, *[1] * 6, *[2] * 9, *[1] * 9)
    assert Signal.TURNED not in signals


def test_who_spoke_behind_another_has_not_begun_a_turn_in_the_next_segment() -> None:
    cutter, _ = said_by(0, 0, *[1] * 6)
    signals = [cutter.push(frame) for frame in frames(*[N] * 32)]
    assert signals[-1] is Signal.ENDED
    cutter.end()
    told = [
        cutter.push(frame, who)
        for frame, who in zip(frames(*[S] * 6), [0, 0, 1, 1, 1, 1], strict=True)
    ]
    assert told == [None, Signal.STARTED, None, None, None, None]


def test_silence_is_nobodys_turn() -> None:
    cutter, _ = said_by(0, 0)
    assert [cutter.push(frame, 1) for frame in frames(*[N] * 12)] == [None] * 12


def test_a_turn_behind_a_cut_has_its_place_in_the_rest() -> None:
    cutter, _ = said_by(0, 0, 0, 0)
    cutter.cut(700)
    for frame in frames(*[S] * 10):
        signal = cutter.push(frame, 1)
    assert signal is Signal.TURNED
    assert cutter.turn() == 4 * FRAME - 700


def test_thresholds_that_are_changed_hold_from_the_next_frame_on() -> None:
    cutter = segmenter()
    assert signals(cutter, 0.4, 0.4) == ".."
    options = CaptionOptions(vad_threshold=0.3, min_silence_s=0.032, min_speech_s=0.064)
    cutter.set(options)
    assert signals(cutter, 0.4, 0.4, N) == ".SE"
