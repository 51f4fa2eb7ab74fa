"""Windows of speech alone: what fits, what is padded, what is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.recording_layouts import PLAN, Script, feed_of, ramp
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.transcription.longform.options import WHOLE, Clip, LongOptions
from whisper_hailo.transcription.longform.speech import SpeechPlanner

FRAME = 512


def windows(
    frames: list[float],
    options: LongOptions,
    clips: tuple[Clip, ...] = WHOLE,
    plan: WindowPlan = PLAN,
) -> list[Window]:
    audio = ramp(len(frames) * FRAME)
    return list(
        SpeechPlanner(feed_of(audio), clips, plan, options, Script(frames)).windows()
    )


@pytest.mark.parametrize("pad_s", [0.0, 0.2, 0.5, 10.0])
@pytest.mark.parametrize(
    "n_spoken", [200, 255, 260, 266, 267, 268, 269, 272, 275, 281, 282]
)
def test_stretch_with_padding_fits_a_window(n_spoken: int, pad_s: float) -> None:
    """However short the pauses are that end a stretch; nothing of the speech is lost."""
    frames = [0.05] * 60 + [0.9] * n_spoken + [0.05] * 60
    options = LongOptions(min_silence_s=0.0, speech_pad_s=pad_s)
    cut_windows = windows(frames, options)
    assert all(window.audio.size <= PLAN.content_samples for window in cut_windows)
    heard = np.concatenate([window.audio for window in cut_windows])
    assert np.array_equal(heard, np.arange(heard[0], heard[-1] + 1)), "in one piece"
    assert heard[0] <= 60 * FRAME
    assert heard[-1] >= (60 + n_spoken) * FRAME - 1


@pytest.mark.parametrize(
    ("silence_s", "behind"), [(0.1, 3 * FRAME), (0.5, 16 * FRAME), (2, 18_000)]
)
def test_padding_is_an_eighth_of_a_window_at_most(
    silence_s: float, behind: int
) -> None:
    """Behind a stretch no more than the silence that ended it: what follows may be speech."""
    frames = [0.05] * 99 + [0.9] * 10 + [0.05] * 99
    (window,) = windows(frames, LongOptions(speech_pad_s=10.0, min_silence_s=silence_s))
    assert window.audio[[0, -1]].tolist() == [
        99 * FRAME - 18_000,
        109 * FRAME + behind - 1,
    ]


def test_stretches_with_meeting_padding_share_no_sample() -> None:
    """Ten frames, 0.32 s, lie between them; the second asks for 0.3 s, of which 0.1 s is taken."""
    frames = [0.05] * 20 + [0.9] * 10 + [0.05] * 10 + [0.9] * 10 + [0.05] * 20
    (window,) = windows(frames, LongOptions(min_silence_s=0.1, speech_pad_s=0.3))
    first, second = window.pieces
    assert second.start_s == pytest.approx(first.start_s + first.duration_s)
    assert second.at_s == pytest.approx(first.duration_s)
    assert window.audio.tolist() == list(range(20 * FRAME - 4800, 53 * FRAME))


def test_window_takes_stretches_until_full() -> None:
    """Each is 60 frames and 0.4 s, 37,120 samples: three are 111,360 of 144,000."""
    frames = ([0.05] * 40 + [0.9] * 60) * 4 + [0.05] * 40
    cut_windows = windows(frames, LongOptions())
    assert [len(window.pieces) for window in cut_windows] == [3, 1]
    assert [piece.at_s for piece in cut_windows[0].pieces] == pytest.approx(
        [0.0, 2.32, 4.64]
    )
    assert [window.start_s for window in cut_windows] == [
        window.pieces[0].start_s for window in cut_windows
    ]


def test_stretches_that_fill_a_window_are_one() -> None:
    """Two of 65 frames and one of 150 with nothing around them: 280 frames are the content."""
    plan = WindowPlan(280 * FRAME / 16_000 + 1.0, 1.0)
    frames = [0.05] * 9
    for length in (65, 65, 150):
        frames += [0.9] * length + [0.05] * 9
    options = LongOptions(min_silence_s=0.2, speech_pad_s=0.0)
    (window,) = windows(frames, options, plan=plan)
    assert window.audio.size == plan.content_samples == 280 * FRAME
    twice = windows(frames * 2, options, plan=plan)
    assert [window.audio.size for window in twice] == [plan.content_samples] * 2
    frames[9 + 65] = 0.9  # a frame more
    assert len(windows(frames, options, plan=plan)) == 2


@pytest.mark.parametrize("end", [None, 100 * FRAME, 100 * FRAME - 7])
def test_speech_ends_with_its_clip_or_recording(
    end: int | None,
) -> None:
    frames = [0.05] * 50 + [0.9] * 50
    (window,) = windows(frames, LongOptions(), (Clip(FRAME, end),))
    assert window.audio[-1] == (end or 100 * FRAME) - 1
    assert window.audio[0] == 51 * FRAME - 3200, (
        "the clip's frames are counted from its start"
    )


@pytest.mark.parametrize("clip", [Clip(0, 0), Clip(FRAME, FRAME)])
def test_clip_shorter_than_a_sample_has_no_window(clip: Clip) -> None:
    assert windows([0.9] * 20, LongOptions(), (clip,)) == []


def test_last_frame_is_padded_with_silence() -> None:
    seen: list[int] = []

    class Counting(Script):
        def reset(self) -> None:
            pass

        def probability(self, frame: np.ndarray) -> float:
            seen.append(int(np.count_nonzero(frame)))
            assert frame.shape == (FRAME,)
            return super().probability(frame)

    audio = ramp(3 * FRAME + 100) + 1
    plan = SpeechPlanner(
        feed_of(audio), WHOLE, PLAN, LongOptions(), Counting([0.9] * 9)
    )
    (window,) = plan.windows()
    assert seen == [FRAME, FRAME, FRAME, 100]
    assert window.audio.size == audio.size


@pytest.mark.parametrize(
    ("end", "n_frames"), [(3 * FRAME, 3), (3 * FRAME + 1, 4), (None, 9)]
)
def test_detector_sees_nothing_behind_a_clip(end: int | None, n_frames: int) -> None:
    """But for the frame in which it ends."""
    asked: list[int] = []

    class Counting(Script):
        def reset(self) -> None:
            pass

        def probability(self, frame: np.ndarray) -> float:
            asked.append(round(float(frame[0])))
            return super().probability(frame)

    clips = (Clip(FRAME, None if end is None else FRAME + end),)
    plan = SpeechPlanner(
        feed_of(ramp(10 * FRAME)), clips, PLAN, LongOptions(), Counting([0.9] * 99)
    )
    (window,) = plan.windows()
    assert asked == [FRAME * index for index in range(1, n_frames + 1)]
    assert window.audio.size == (9 * FRAME if end is None else end)


@st.composite
def layouts(draw: st.DrawFn) -> list[float]:
    """Speech probabilities per 32 ms: runs of speech and of silence."""
    runs = draw(
        st.lists(st.tuples(st.booleans(), st.integers(1, 400)), min_size=1, max_size=8)
    )
    return [
        0.9 if is_speech else 0.05 for is_speech, length in runs for _ in range(length)
    ]


@given(layouts())
@settings(max_examples=30, deadline=None)
def test_speech_is_packed_once_and_in_order(probabilities: list[float]) -> None:
    """Every frame of speech is in exactly one window; windows fit; pieces tell the truth."""
    audio = ramp(len(probabilities) * 512)
    plan = SpeechPlanner(
        feed_of(audio), WHOLE, PLAN, LongOptions(), Script(probabilities)
    )
    seen = np.zeros(audio.size, int)
    last = -1.0
    for window in plan.windows():
        assert window.audio.size <= PLAN.content_samples
        for piece in window.pieces:
            start = round(piece.at_s * 16_000)
            size = round(piece.duration_s * 16_000)
            samples = window.audio[start : start + size]
            assert samples[0] == round(piece.start_s * 16_000) > last
            last = samples[-1]
            seen[samples.astype(int)] += 1
    assert seen.max(initial=0) <= 1
    speech = np.repeat(np.array(probabilities) > 0.5, 512)
    run_lengths = np.diff(np.flatnonzero(np.diff(speech, prepend=False, append=False)))[
        ::2
    ]
    if not np.any(run_lengths < 3 * 512):  # shorter ones are clicks
        assert np.all(seen[speech] == 1)


def test_stretches_keep_0_2_s_of_silence() -> None:
    """Frames 20 to 29 are speech: 0.2 s before them, and 0.2 s behind."""
    probabilities = [0.05] * 20 + [0.9] * 10 + [0.05] * 40
    audio = ramp(len(probabilities) * 512)
    plan = SpeechPlanner(
        feed_of(audio), WHOLE, PLAN, LongOptions(), Script(probabilities)
    )
    (window,) = plan.windows()
    assert window.audio[[0, -1]].tolist() == [20 * 512 - 3200, 30 * 512 + 3200 - 1]
    assert [piece.at_s for piece in window.pieces] == [0.0]
    assert window.start_s == pytest.approx(20 * 0.032 - 0.2)


def test_cut_stretches_meet_where_they_were_cut() -> None:
    """9 s of audio with 0.2 s on both sides are 268 frames: the quietest is frame 200."""
    probabilities = [0.9] * 400 + [0.05] * 20
    probabilities[200] = 0.6
    audio = ramp(len(probabilities) * 512)
    plan = SpeechPlanner(
        feed_of(audio), WHOLE, PLAN, LongOptions(), Script(probabilities)
    )
    first, second = plan.windows()
    assert first.audio[[0, -1]].tolist() == [0, 201 * 512 - 1]
    assert second.audio[[0, -1]].tolist() == [201 * 512, 400 * 512 + 3200 - 1]


def test_longest_stretch_leaves_room_for_padding() -> None:
    """144,000 samples without 3,200 on both sides: the last of 268 frames is the quietest."""
    frames = [0.9] * 400 + [0.05] * 20
    frames[200] = 0.6
    frames[267] = 0.56
    frames[270] = 0.52
    first, second = windows(frames, LongOptions())
    assert first.audio[[0, -1]].tolist() == [0, 268 * FRAME - 1]
    assert second.audio[0] == 268 * FRAME
    assert [window.needs_words for window in (first, second)] == [False, False], (
        "they share nothing"
    )


@pytest.mark.parametrize("window_s", [0.02, 0.04, 0.06, 0.1])
def test_short_windows_hold_all_speech(window_s: float) -> None:
    frames = [0.05] * 5 + [0.9] * 10 + [0.05] * 5
    plan = WindowPlan(window_s, window_s / 2)
    options = LongOptions(speech_pad_s=0.2, min_silence_s=0.0)
    packed = np.concatenate(
        [window.audio for window in windows(frames, options, plan=plan)]
    )
    before = plan.content_samples // 8
    assert packed.tolist() == list(range(5 * FRAME - before, 15 * FRAME))
