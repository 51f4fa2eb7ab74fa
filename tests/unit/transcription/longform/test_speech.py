"""Windows of speech alone: what fits, what is padded, what is read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.recording_layouts import PLAN, Script, feed_of, heard, ramp
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import FRAME_SAMPLES, LEVEL_SAMPLES, make_detector
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.audio_buffer import AudioBuffer
from whisper_hailo.transcription.longform.options import WHOLE, Clip, LongOptions
from whisper_hailo.transcription.longform.overlap import OverlapPlanner
from whisper_hailo.transcription.longform.planner import WindowPlanner
from whisper_hailo.transcription.longform.seek import SeekPlanner
from whisper_hailo.transcription.longform.speech import SpeechPlanner
from whisper_hailo.transcription.longform.speech_gate import SpeechGate
from whisper_hailo.transcription.recording import make_planner
from whisper_hailo_lab.clip_archives import unpack_clips

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
    found = windows(frames, options)
    assert all(window.audio.size <= PLAN.content_samples for window in found)
    heard = np.concatenate([window.audio for window in found])
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
    found = windows(frames, LongOptions())
    assert [len(window.pieces) for window in found] == [3, 1]
    assert [piece.at_s for piece in found[0].pieces] == pytest.approx([0.0, 2.32, 4.64])
    assert [window.start_s for window in found] == [
        window.pieces[0].start_s for window in found
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
    assert asked == [FRAME * at for at in range(1, n_frames + 1)]
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
            at = round(piece.at_s * 16_000)
            size = round(piece.duration_s * 16_000)
            samples = window.audio[at : at + size]
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
    assert [one.needs_words for one in (first, second)] == [False, False], (
        "they share nothing"
    )


@pytest.mark.parametrize("window_s", [0.02, 0.04, 0.06, 0.1])
def test_short_windows_hold_all_speech(window_s: float) -> None:
    frames = [0.05] * 5 + [0.9] * 10 + [0.05] * 5
    plan = WindowPlan(window_s, window_s / 2)
    options = LongOptions(speech_pad_s=0.2, min_silence_s=0.0)
    held = np.concatenate(
        [window.audio for window in windows(frames, options, plan=plan)]
    )
    before = plan.content_samples // 8
    assert held.tolist() == list(range(5 * FRAME - before, 15 * FRAME))


SECOND = SAMPLE_RATE_HZ


class Loud:
    """Takes a frame for speech whose first sample is above a tenth; notes what it is asked."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.n_resets = 0

    def reset(self) -> None:
        self.n_resets += 1

    def probability(self, frame: FloatArray) -> float:
        assert frame.shape == (FRAME_SAMPLES,)
        self.n_asked += 1
        return 0.9 if frame[0] > 0.1 else 0.1


def sound(*parts: tuple[float, float]) -> FloatArray:
    """Levels, each for so many seconds."""
    levels = [
        np.full(round(seconds * SECOND), level, np.float32) for level, seconds in parts
    ]
    return np.concatenate(levels)


def start_of(audio: FloatArray, start: int = 0, end: int | None = None) -> int | None:
    return SpeechGate(Loud(), 0.5).find_start(feed_of(audio), start, end)


def frame_before(position: int, start: int = 0) -> int:
    """The first whole frame of speech that begins at a position."""
    return start + -(-(position - start) // FRAME_SAMPLES) * FRAME_SAMPLES


@pytest.mark.parametrize("level", [0.0, 0.05])
@pytest.mark.parametrize("silence_s", [1.5, 3.0, 61.7])
def test_find_start_is_half_a_second_before_speech(
    level: float, silence_s: float
) -> None:
    audio = sound((level, silence_s), (0.5, 5.0))
    expected = frame_before(round(silence_s * SECOND)) - SECOND // 2
    assert start_of(audio) == expected


@pytest.mark.parametrize("silence_s", [0.0, 0.3, 0.9])
def test_find_start_keeps_short_silence(silence_s: float) -> None:
    assert start_of(sound((0.05, silence_s), (0.5, 5.0))) == 0


def test_find_start_begins_at_the_given_sample() -> None:
    audio = sound((0.5, 2.0), (0.05, 4.0), (0.5, 3.0))
    start = 2 * SECOND + 77
    assert start_of(audio, start) == frame_before(6 * SECOND, start) - SECOND // 2
    assert start_of(audio, SECOND) == SECOND


@pytest.mark.parametrize("level", [0.0, 0.05])
def test_find_start_without_speech_is_none(level: float) -> None:
    assert start_of(sound((level, 20.0))) is None
    assert start_of(sound((level, 0.01))) is None
    assert start_of(np.empty(0, np.float32)) is None
    assert start_of(sound((level, 2.0)), 5 * SECOND) is None


def test_find_start_ignores_speech_behind_the_clip() -> None:
    audio = sound((0.05, 4.0), (0.5, 4.0))
    assert start_of(audio, 0, 3 * SECOND) is None
    assert start_of(audio, 0, 5 * SECOND) is not None


def test_find_start_finds_speech_at_the_end() -> None:
    """The last frame is filled up with zeros."""
    n_frames = 70
    audio = np.full(n_frames * FRAME_SAMPLES - 500, 0.05, np.float32)
    audio[(n_frames - 8) * FRAME_SAMPLES :] = 0.5
    assert start_of(audio) == (n_frames - 8) * FRAME_SAMPLES - SECOND // 2
    assert start_of(audio[:-FRAME_SAMPLES]) is None


def test_digital_silence_is_not_shown_to_the_detector() -> None:
    detector = Loud()
    gate = SpeechGate(detector, 0.5)
    assert gate.find_start(feed_of(sound((0.0, 30.0))), 0) is None
    assert detector.n_asked == 0
    assert detector.n_resets == 1
    assert gate.find_start(feed_of(sound((0.0, 30.0), (0.5, 1.0))), 0) is not None
    assert detector.n_asked <= 9


def test_detector_is_reset_for_each_window() -> None:
    detector = Loud()
    gate = SpeechGate(detector, 0.5)
    plan = OverlapPlanner(feed_of(sound((0.5, 40.0))), WHOLE, PLAN, 0.0, gate=gate)
    n_windows = len(list(plan.windows()))
    assert n_windows == 5
    assert detector.n_resets >= n_windows
    assert detector.n_asked <= 8 * detector.n_resets, "a quarter of a second is enough"


def test_long_silence_is_searched_in_bounded_memory() -> None:
    """Of 30 s, whose level is measured: held, joined and made absolute; ten minutes have 38 MB."""
    for level in (0.0, 0.05):
        feed = AudioBuffer(np.full(SECOND, level, np.float32) for _ in range(600))
        tracemalloc.start()
        try:
            assert SpeechGate(Loud(), 0.5).find_start(feed, 0) is None
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert feed.n_samples == 600 * SECOND
        assert most_bytes < 4 * 4 * LEVEL_SAMPLES


PLANS: dict[
    str, Callable[[AudioBuffer, tuple[Clip, ...], SpeechGate], WindowPlanner]
] = {
    "overlap": lambda feed, clips, gate: OverlapPlanner(
        feed, clips, PLAN, 2.0, gate=gate
    ),
    "consecutive": lambda feed, clips, gate: OverlapPlanner(
        feed, clips, PLAN, 0.0, gate=gate
    ),
    "seek": lambda feed, clips, gate: SeekPlanner(feed, clips, PLAN, None, gate=gate),
}


def windows_of(
    name: str, audio: FloatArray, clips: tuple[Clip, ...] = WHOLE
) -> list[tuple[int, FloatArray]]:
    return taken(PLANS[name](feed_of(audio), clips, SpeechGate(Loud(), 0.5)))


def taken(plan: WindowPlanner) -> list[tuple[int, FloatArray]]:
    """Starts and audio of all windows; one that seeks begins where the one before was taken."""
    found = []
    for window in plan.windows():
        plan.take(heard(window))
        found.append((round(window.start_s * SECOND), window.audio))
    return found


@pytest.mark.parametrize("name", PLANS)
def test_gated_windows_have_audio_of_exact_positions(name: str) -> None:
    """Noise, so that no two stretches are alike."""
    audio = sound((0.01, 13.3), (0.5, 6.0), (0.01, 25.0), (0.5, 12.0), (0.01, 9.0))
    audio = audio * (1 + 0.1 * np.random.default_rng(0).random(audio.size, np.float32))
    found = windows_of(name, audio)
    inside = np.zeros(audio.size, bool)
    for start, own in found:
        np.testing.assert_array_equal(own, audio[start : start + own.size])
        inside[start : start + own.size] = True
    assert found[0][0] == pytest.approx(12.8 * SECOND, abs=FRAME_SAMPLES + 160)
    assert inside[audio > 0.1].all(), "all speech is in some window"
    assert not inside[24 * SECOND : 43 * SECOND].any(), "and silence in none"
    assert len(found) <= 4


@pytest.mark.parametrize("name", PLANS)
def test_recordings_without_speech_have_no_window(name: str) -> None:
    assert windows_of(name, sound((0.05, 45.0))) == []
    assert windows_of(name, sound((0.0, 45.0))) == []


@pytest.mark.parametrize("name", PLANS)
def test_windows_of_clips_end_with_them(name: str) -> None:
    audio = sound((0.05, 20.0), (0.5, 20.0))
    clips = (
        Clip(0, 5 * SECOND),
        Clip(15 * SECOND, 22 * SECOND),
        Clip(30 * SECOND, 33 * SECOND),
    )
    (first, own), (second, other) = windows_of(name, audio, clips)
    assert first == pytest.approx(19.5 * SECOND, abs=FRAME_SAMPLES + 160)
    assert first + own.size == 22 * SECOND
    assert second == 30 * SECOND
    assert other.size == 3 * SECOND


def test_skip_silence_makes_the_gate() -> None:
    """Noise is no speech for the real detector; whoever wants it transcribed switches it off."""
    noise = 0.05 * np.random.default_rng(0).standard_normal(4 * SECOND).astype(
        np.float32
    )
    for strategy in ("overlap", "consecutive", "seek"):
        for skips, n_windows in ((True, 0), (False, 1)):
            long = LongOptions(strategy, skip_silence=skips)
            plan = make_planner(feed_of(noise), PLAN, DecodingOptions(), long)
            assert len(taken(plan)) == n_windows


def test_silero_finds_speech_behind_silence() -> None:
    speech = load_audio(unpack_clips() / "seen" / "seen-000.ogg")
    hum = 0.001 * np.random.default_rng(0).standard_normal(10 * SECOND).astype(
        np.float32
    )
    alone = SpeechGate(make_detector(), 0.35).find_start(feed_of(speech), 0)
    assert alone is not None
    found = SpeechGate(make_detector(), 0.35).find_start(
        feed_of(np.concatenate([hum, speech])), 0
    )
    assert found == pytest.approx(10 * SECOND - SECOND // 2, abs=SECOND)
