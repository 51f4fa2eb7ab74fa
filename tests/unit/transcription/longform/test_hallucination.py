"""Made-up text beside silence: what is dropped, and where the next window begins.

The cases follow the rules of OpenAI Whisper's `hallucination_silence_threshold`; `tests/parity`
compares whole recordings with that program.
"""

from __future__ import annotations

import numpy as np
import pytest

from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import WordOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.plan import WHOLE
from whisper_hailo.transcription.longform.seek import (
    Kept,
    SeekPlan,
    drop_hallucinations,
    is_odd,
    word_oddity,
)
from whisper_hailo.transcription.window import WindowResult

SILENCE_S = 2.0
FULL_S = 30.0


def said(*at_s: float, probability: float = 0.9, length_s: float = 0.4) -> Segment:
    """A segment of words that begin at these times."""
    words = tuple(Word(at, at + length_s, " word", probability) for at in at_s)
    return Segment(at_s[0], words[-1].end_s, " word" * len(words), (), -0.1, 0.0, words=words)


def odd(*at_s: float) -> Segment:
    """A segment that nobody said: all of its words are improbable."""
    return said(*at_s, probability=0.05)


def heard(
    *segments: Segment, start_s: float = 60.0, content_s: float = FULL_S, ends_alone: bool = False
) -> WindowResult:
    audio = np.zeros(round(content_s * SAMPLE_RATE_HZ), np.float32)
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(Window(audio, start_s), decoded, segments, content_s, ends_alone=ends_alone)


def kept(
    result: WindowResult, *, last_speech_s: float = 59.0, silence_s: float = SILENCE_S
) -> Kept:
    return drop_hallucinations(result, silence_s, last_speech_s=last_speech_s, full_s=FULL_S)


@pytest.mark.parametrize(
    ("length_s", "probability", "oddity"),
    [
        (0.4, 0.15, 0.0),
        (0.4, 0.149, 1.0),
        (0.133, 0.9, 0.0),
        (0.033, 0.9, 1.5),
        (2.0, 0.9, 0.0),
        (3.5, 0.9, 1.5),
        (0.033, 0.1, 2.5),
    ],
)
def test_a_word_is_odd_by_its_probability_and_its_length(
    length_s: float, probability: float, oddity: float
) -> None:
    assert word_oddity(Word(5.0, 5.0 + length_s, " a", probability)) == pytest.approx(oddity)


def test_a_segment_is_odd_when_its_words_mostly_are() -> None:
    assert is_odd(odd(1.0))
    assert is_odd(odd(1.0, 2.0))
    assert not is_odd(said(1.0, 2.0))
    mixed = (*odd(1.0, 2.0).words, *said(3.0).words)
    assert not is_odd(Segment(1.0, 3.4, "", (), -0.1, 0.0, words=mixed)), "two of three"
    mixed = (*odd(1.0, 2.0, 3.0).words, *said(4.0, 5.0, 6.0, 7.0).words)
    assert is_odd(Segment(1.0, 7.4, "", (), -0.1, 0.0, words=mixed)), "three are enough"
    assert not is_odd(None)
    assert not is_odd(Segment(1.0, 2.0, "no words", (), -0.1, 0.0))


@pytest.mark.parametrize(("length_s", "expected"), [(0.0665, True), (0.0673, False)])
def test_a_word_alone_is_odd_within_a_hundredth_of_one(length_s: float, expected: bool) -> None:
    """15 for each second that it is shorter than 0.133 s: 0.9975 is enough, 0.9855 is not."""
    word = Word(1.0, 1.0 + length_s, " a", 0.9)
    assert is_odd(Segment(1.0, 1.1, "", (), -0.1, 0.0, words=(word,))) is expected


def test_marks_are_no_words_and_only_the_first_eight_words_count() -> None:
    mark = Word(1.4, 1.7, ".", 0.9)
    words = (*odd(1.0).words, mark)
    assert is_odd(Segment(1.0, 2.0, "", (), -0.1, 0.0, words=words)), "the mark is no good word"
    words = (*odd(1, 2).words, *said(3).words, *[mark] * 5)
    words += odd(9).words
    assert is_odd(Segment(1.0, 9.4, "", (), -0.1, 0.0, words=words)), "the fourth word is the ninth"
    late = (*said(*range(1, 9)).words, *odd(9.0, 10.0, 11.0).words)
    assert not is_odd(Segment(1.0, 11.4, "", (), -0.1, 0.0, words=late))


def test_speech_is_kept_and_the_next_window_begins_behind_it() -> None:
    result = heard(said(61.0, 62.0), said(70.0, 71.0))
    assert kept(result) == Kept(result.segments, pytest.approx(71.4))
    near_the_end = heard(said(61.0, 88.0))
    assert kept(near_the_end) == Kept(near_the_end.segments, pytest.approx(90.0))
    alone = heard(said(61.0, 62.0), ends_alone=True)
    assert kept(alone) == Kept(alone.segments, None)


def test_leading_silence_before_odd_text_is_skipped_and_all_heard_again() -> None:
    result = heard(odd(63.0), said(64.0, 65.0))
    assert kept(result) == Kept((), 63.0)
    assert kept(heard(odd(62.0), said(63.0, 64.0))).segments != (), "no more than the threshold"
    assert kept(heard(said(63.0), said(64.0))).segments != (), "nothing is odd"


def test_odd_text_between_silences_is_dropped_and_heard_again_from_there() -> None:
    speech = said(61.0, 62.0)
    result = heard(speech, odd(70.0), said(80.0, 81.0))
    assert kept(result) == Kept((speech,), 70.0)


def test_odd_text_within_speech_is_kept() -> None:
    for result in (
        heard(said(61.0, 69.4), odd(70.0), said(80.0, 81.0)),  # nothing before it
        heard(said(61.0, 62.0), odd(70.0), said(71.0, 81.0)),  # nothing behind it
    ):
        assert kept(result).segments == result.segments


def test_odd_text_beside_odd_text_or_the_window_edges_is_dropped() -> None:
    speech = said(61.0, 62.0)
    assert kept(heard(speech, odd(70.0), odd(71.0), said(72.0))) == Kept((speech,), 70.0)
    assert kept(heard(said(61.0, 84.0), odd(88.0))).seek_s == 88.0, "behind it the window ends"
    begins = heard(odd(61.5), said(70.0, 71.0))
    assert kept(begins, last_speech_s=61.0) == Kept((), 61.5)
    assert kept(heard(odd(60.2), said(70.0)), last_speech_s=60.0).seek_s == 61.0, (
        "a second at least"
    )


def test_silence_before_odd_text_counts_from_the_window_before() -> None:
    inside = heard(odd(62.0), said(70.0, 71.0))  # too late for the edge, too early to be skipped to
    assert kept(inside, last_speech_s=61.5).segments == inside.segments
    assert kept(inside, last_speech_s=58.0) == Kept((), 62.0)


def test_before_the_recording_there_is_silence() -> None:
    begins = heard(odd(2.5), said(10.0, 11.0), start_s=0.0)
    assert kept(begins, last_speech_s=0.0, silence_s=2.6) == Kept((), 2.5)
    later = heard(odd(2.7), said(10.0, 11.0), start_s=0.2)
    assert kept(later, last_speech_s=0.2, silence_s=2.6).segments == later.segments


def test_odd_text_at_the_end_of_the_recording() -> None:
    speech = said(61.0, 62.0)
    ends = heard(speech, odd(66.0), content_s=10.0)
    assert kept(ends) == Kept((speech,), 66.0), "the silence behind it is long enough"
    ends = heard(speech, odd(68.0), content_s=10.0)
    assert kept(ends).segments == ends.segments, "it is not"
    ends = heard(speech, odd(68.0), odd(69.0), content_s=10.0)
    assert kept(ends) == Kept((speech,), 70.0), "too little is left to hear it again"
    full = heard(speech, odd(88.0), odd(89.0))
    assert kept(full) == Kept((speech,), 88.0), "a full window is not the end"


def silent_feed(seconds: float) -> AudioBuffer:
    silence: FloatArray = np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)
    return AudioBuffer(iter([silence]))


def seeking(seconds: float, *, margin_s: float = 1.0) -> SeekPlan:
    words = WordOptions(hallucination_silence_s=SILENCE_S)
    return SeekPlan(silent_feed(seconds), WHOLE, WindowPlan(10.0, margin_s), words)


def result_of(window: Window, *segments: Segment) -> WindowResult:
    decoded = Decoded((), -0.1, 0.0, runaway=False)
    return WindowResult(window, decoded, segments, window.content_s)


def test_seeking_hears_again_from_what_was_dropped() -> None:
    plan = seeking(60.0)
    windows = plan.windows()
    speech = said(1.0, 2.0)
    assert plan.take(result_of(next(windows), speech, odd(5.0))) == [speech]
    assert next(windows).start_s == 5.0


def test_a_full_window_is_not_the_end_of_the_recording() -> None:
    """Its last second is kept free: 9 s of audio fill a window of 10 s."""
    plan = seeking(60.0)
    windows = plan.windows()
    speech = said(1.0, 2.0)
    assert plan.take(result_of(next(windows), speech, odd(8.2))) == [speech]
    assert next(windows).start_s == 8.2
    plan = seeking(9.5)
    windows = plan.windows()
    next(windows)
    plan.take(result_of(Window(np.zeros(8 * 16_000, np.float32), 0.0), speech, odd(7.2)))
    assert next(windows).start_s == 8.0, "a short window is: it ends there"


def test_a_pause_is_measured_from_what_was_kept() -> None:
    """What was dropped is no speech: the next window's silence begins before it."""
    plan = seeking(60.0)
    windows = plan.windows()
    plan.take(result_of(next(windows), said(1.0, 2.0), odd(5.0)))
    again = next(windows)
    assert plan.take(result_of(again, odd(7.0), said(12.0, 13.0))) == []
    assert next(windows).start_s == 7.0


def test_a_pause_is_measured_from_the_last_word_of_the_window_before() -> None:
    plan = seeking(60.0)
    windows = plan.windows()
    plan.take(result_of(next(windows), said(8.0, 8.6)))
    again = next(windows)
    assert again.start_s == 9.0
    segments = [odd(11.0), said(15.0, 16.0)]
    assert plan.take(result_of(again, *segments)) == segments, "2 s behind it, and no more"


def test_without_the_option_nothing_is_dropped() -> None:
    plan = SeekPlan(silent_feed(60.0), WHOLE, WindowPlan(10.0, 1.0), WordOptions())
    windows = plan.windows()
    segments = [said(1.0, 2.0), odd(5.0)]
    assert plan.take(result_of(next(windows), *segments)) == segments
    assert next(windows).start_s == pytest.approx(5.4)
