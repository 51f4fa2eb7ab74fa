"""Stretches of a stream that nobody heard: lost audio, a source that is away or paused."""

from __future__ import annotations

import logging

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioning.clock import StreamClock
from whisper_hailo.live.captioning.frames import Frames
from whisper_hailo.live.captioning.segmenter import Segmenter
from whisper_hailo.live.events import Away, Back, Lost
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)


class Gaps:
    """Goes on behind them; no segment may be running.

    Args:
        segmenter: of the captioner, like the others.
        frames: likewise.
        clock: likewise.
        statistics: likewise.
    """

    def __init__(
        self,
        segmenter: Segmenter,
        frames: Frames,
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
        """Audio could not wait; see `Captioner.lose`."""
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
        """The source gives nothing any more; see `Captioner.leave`."""
        self._away_s, self._n_torn = self._segmenter.heard_s, self._frames.drop()
        self._paused = paused
        self._statistics.n_away += not paused
        moment = self._clock.moment(self._away_s, self._away_s)
        return Away(self._away_s, why, paused=paused, **moment)

    def come_back(self, n_samples: int) -> Back:
        """It gives sound again; see `Captioner.come_back`."""
        n_skipped = self._skip(n_samples + self._n_torn)
        if self._paused:
            self._statistics.n_paused_samples += n_skipped
        else:
            self._statistics.n_away_samples += n_skipped
        heard_s = self._segmenter.heard_s
        moment = self._clock.moment(self._away_s, heard_s)
        return Back(self._away_s, heard_s, paused=self._paused, **moment)

    def _skip(self, n_samples: int) -> int:
        """Go on so much later; how much it is, with what was no whole frame."""
        n_samples += self._frames.drop()
        self._segmenter.skip(n_samples)
        return n_samples
