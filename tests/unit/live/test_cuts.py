"""Where a segment that is too long is cut: between words, in its second half."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.captioned_audio import completed, run, texts
from tests.fakes.counted_frames import FRAME, S, Sure, frames, segmenter, signals
from tests.fakes.scripted_speech import Speller, silence, speech
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import BufferText, BufferWord
from whisper_hailo.live.cuts import find_cut
from whisper_hailo.live.options import CaptionOptions
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
