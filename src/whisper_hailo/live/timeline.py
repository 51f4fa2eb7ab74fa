"""Where a stream is: its clock, its frames, and the audio that was lost between them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TypedDict

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.events import Away, Back, Lost
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.live.sources.source import Voices
from whisper_hailo.live.statistics import CaptionStatistics


class Moment(TypedDict):
    """When an event is emitted: fields of all of `live.events`."""

    heard_s: float
    at_s: float
    wall_s: float


class StreamClock:
    """Knows when each sample of a stream was captured.

    Args:
        now: a monotonic clock in seconds.
        wall: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self.now = now
        self._wall = wall
        self._began_s = now()
        self._began_wall_s = wall()
        self._recorded = False
        self._captured_s: float | None = None  # when the stream's sample 0 would have been

    @property
    def is_live(self) -> bool:
        """Return whether the stream's samples have capture times."""
        return self._captured_s is not None

    def note_capture(self, captured_s: float, n_samples: int) -> None:
        """Note that `n_samples` of the stream had been captured at a time of `now`."""
        self._captured_s = captured_s - n_samples / SAMPLE_RATE_HZ

    def note_recorded(self, recorded_s: float, n_samples: int) -> None:
        """Note when the audio behind `n_samples` was recorded, in seconds since 1970."""
        self._began_wall_s = recorded_s - n_samples / SAMPLE_RATE_HZ
        self._recorded = True

    def moment(self, start_s: float, heard_s: float) -> Moment:
        """Return the times of an event at `start_s` of a stream that has come to `heard_s`."""
        at_s = self.now() - self._began_s
        return {"heard_s": heard_s, "at_s": at_s, "wall_s": self._wall_s(start_s)}

    def since(self, sample: int) -> float | None:
        """Return the seconds since the capture of a sample; `None` if the stream is not live."""
        if self._captured_s is None:
            return None
        return self.now() - (self._captured_s + sample / SAMPLE_RATE_HZ)

    def _wall_s(self, start_s: float) -> float:
        """Return when a place of the stream was said, in seconds since 1970.

        Where the stream is not live and no recording tells, it counts as said at its own speed,
        from when
        the clock began.
        """
        if self._captured_s is None or self._recorded:
            return self._began_wall_s + start_s
        return self._wall() - (self.now() - (self._captured_s + start_s))


class FrameBuffer:
    """Collects audio into whole frames."""

    def __init__(self) -> None:
        self._audio = np.empty(0, np.float32)
        self._voices: Voices = np.empty(0, np.int8)

    @property
    def n_waiting(self) -> int:
        """Return the samples of the incomplete frame."""
        return self._audio.size

    def push(
        self, audio: FloatArray, voices: Voices | None = None
    ) -> Iterator[tuple[FloatArray, int | None]]:
        """Yield whole frames, each with its speaker, where channels are speakers.

        Args:
            audio: `(n_samples,)` float32, following what was pushed before.
            voices: of it.
        """
        pending = np.concatenate([self._audio, audio])
        heard = None if voices is None else np.concatenate([self._voices, voices])
        n_whole = pending.size // FRAME_SAMPLES * FRAME_SAMPLES
        self._audio = pending[n_whole:].copy()
        if heard is not None:
            self._voices = heard[n_whole:].copy()
        for begin in range(0, n_whole, FRAME_SAMPLES):
            speaker = None if heard is None else int(heard[begin + FRAME_SAMPLES // 2])
            yield pending[begin : begin + FRAME_SAMPLES], speaker

    def rest(self) -> tuple[FloatArray, int | None] | None:
        """Return the incomplete frame, padded with silence; `None` where there is none."""
        n_waiting = self.n_waiting
        if not n_waiting:
            return None
        frame = np.zeros(FRAME_SAMPLES, np.float32)
        frame[:n_waiting] = self._audio
        speaker = int(self._voices[-1]) if self._voices.size else None
        self.drop()
        return frame, speaker

    def drop(self) -> int:
        """Drop the incomplete frame; return its samples."""
        n_waiting = self.n_waiting
        self._audio, self._voices = self._audio[:0], self._voices[:0]
        return n_waiting


logger = logging.getLogger(__name__)


class Discontinuities:
    """Skips gaps of the stream while no segment is running."""

    def __init__(
        self,
        segmenter: Segmenter,
        frames: FrameBuffer,
        clock: StreamClock,
        statistics: CaptionStatistics,
    ) -> None:
        self._segmenter = segmenter
        self._frames = frames
        self._clock = clock
        self._statistics = statistics
        self._away_s = 0.0  # how far the stream had come when its source went away,
        self._n_torn = 0  # what it gave of the next frame,
        self._paused = False  # and whether that was wanted

    def lose(self, n_samples: int) -> Lost:
        """Skip audio that was dropped; see `Captioner.lose`."""
        start_s = self._segmenter.heard_s
        n_samples = self._skip(n_samples)
        if not self._statistics.n_lost_samples:
            logger.warning(
                "%.2f s of sound could not wait and were lost: computing is too far behind (told "
                "once; events and lost_s tell of all)",
                n_samples / SAMPLE_RATE_HZ,
            )
        self._statistics.n_lost_samples += n_samples
        heard_s = self._segmenter.heard_s
        return Lost(start_s, heard_s, **self._clock.moment(start_s, heard_s))

    def leave(self, why: str, *, paused: bool) -> Away:
        """Note that the source is away; see `Captioner.leave`."""
        self._away_s, self._n_torn = self._segmenter.heard_s, self._frames.drop()
        self._paused = paused
        self._statistics.n_away += not paused
        moment = self._clock.moment(self._away_s, self._away_s)
        return Away(self._away_s, why, paused=paused, **moment)

    def come_back(self, n_samples: int) -> Back:
        """Skip the time that the source was away; see `Captioner.come_back`."""
        n_skipped = self._skip(n_samples + self._n_torn)
        if self._paused:
            self._statistics.n_paused_samples += n_skipped
        else:
            self._statistics.n_away_samples += n_skipped
        heard_s = self._segmenter.heard_s
        moment = self._clock.moment(self._away_s, heard_s)
        return Back(self._away_s, heard_s, paused=self._paused, **moment)

    def _skip(self, n_samples: int) -> int:
        """Skip samples and the incomplete frame; return their number."""
        n_samples += self._frames.drop()
        self._segmenter.skip(n_samples)
        return n_samples
