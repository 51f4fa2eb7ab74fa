"""From a stream of audio to events: its segments, and what happens between them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, SpeechDetector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.events import (
    Away,
    Back,
    Cleared,
    Event,
    Lost,
    Marker,
    Moment,
    SettingsChanged,
    StreamClock,
)
from whisper_hailo.live.listener import SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo.live.segment_captions import SegmentCaptions
from whisper_hailo.live.segmenter import Segmenter
from whisper_hailo.live.sources.source import Interruption
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)


class Captioner:
    """Turn audio into caption events; `now` is a monotonic clock in seconds.

    Attributes:
        statistics: of everything so far.

    Raises:
        OptionError: segments are longer than the recogniser takes.
    """

    def __init__(
        self,
        recognizer: SpeechRecognizer,
        detector: SpeechDetector,
        options: CaptionOptions | None = None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        options = options or CaptionOptions()
        self._segmenter = Segmenter(detector, options)
        self._clock = StreamClock(now)
        self._incomplete = np.empty(0, np.float32)  # the beginning of the next frame
        self._n_dropped = 0  # samples of an incomplete frame when the source went away
        self.statistics = CaptionStatistics()
        self._listener = SegmentListener(recognizer, options, self.statistics)
        self._segments = SegmentCaptions(
            self._segmenter,
            self._listener,
            self._clock,
            options,
            options.longest_s(recognizer.content_s),
        )

    @property
    def heard_s(self) -> float:
        """How far the stream has come, in seconds."""
        return self._segmenter.n_heard / SAMPLE_RATE_HZ

    @property
    def settings(self) -> dict[str, str]:
        """The settings that users change while captions run, by name."""
        return {"language": self._listener.next_recognizer.language}

    def feed(
        self, audio: FloatArray, captured_s: float | None = None
    ) -> Iterator[Event]:
        """Take audio of any length; make at most one partial, of all of it.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz mono, following what was fed before.
            captured_s: when its last sample was captured, by the captioner's clock, from which
                latencies are measured; `None` for audio that is not live.
        """
        if self._incomplete.size:
            audio = np.concatenate([self._incomplete, audio])
        if captured_s is not None:
            self._clock.note_capture(captured_s, self._segmenter.n_heard + audio.size)
        n_whole = audio.size - audio.size % FRAME_SAMPLES
        self._incomplete = audio[n_whole:].copy()
        for begin in range(0, n_whole, FRAME_SAMPLES):
            yield from self._process_frame(audio[begin : begin + FRAME_SAMPLES])
        yield from self._segments.make_due_partial()

    def skip_lost(self, n_samples: int) -> Iterator[Event]:
        """Complete the running segment and continue behind `n_samples` of lost audio."""
        yield from self._segments.end("loss")
        start_s = self.heard_s
        n_lost = self._skip(n_samples)
        if not self.statistics.n_lost_samples:
            logger.warning(
                "%.2f s of audio were lost because decoding is too far behind (this warning is "
                "given once; events and lost_s count every loss)",
                n_lost / SAMPLE_RATE_HZ,
            )
        self.statistics.n_lost_samples += n_lost
        yield Lost(end_s=self.heard_s, **self._moment(start_s))

    def suspend(self, gap: Interruption) -> Iterator[Event]:
        """Complete the running segment: the source is disconnected, or paused, or stalls."""
        yield from self._segments.end("away")
        if not gap.stalled:  # of a source that stalls the next samples follow
            self._n_dropped = self._incomplete.size
            self._incomplete = self._incomplete[:0]
        self.statistics.note_absence(gap)
        yield Away(
            why=gap.reason,
            paused=gap.paused,
            stalled=gap.stalled,
            **self._moment(self.heard_s),
        )

    def resume(self, gap: Interruption) -> Iterator[Event]:
        """Continue behind the samples for which the source was away."""
        start_s = self.heard_s
        if not gap.stalled:
            n_skipped = self._skip(gap.n_samples + self._n_dropped)
            if gap.paused:
                self.statistics.n_paused_samples += n_skipped
            else:
                self.statistics.n_away_samples += n_skipped
        yield Back(
            end_s=self.heard_s,
            paused=gap.paused,
            stalled=gap.stalled,
            **self._moment(start_s),
        )

    def finish(self) -> Iterator[Event]:
        """Complete the running segment at the end of the stream."""
        if self._incomplete.size:
            frame = np.pad(self._incomplete, (0, FRAME_SAMPLES - self._incomplete.size))
            self._incomplete = self._incomplete[:0]
            yield from self._process_frame(frame)
        yield from self._segments.end("end")

    def set_language(self, language: str) -> SettingsChanged:
        """Change the language from the next segment on.

        Raises:
            OptionError: the recogniser does not know it.
        """
        recognizer = self._listener.next_recognizer.with_language(language)
        self._listener.next_recognizer = recognizer
        return SettingsChanged(settings=self.settings, **self._moment(self.heard_s))

    def mark(self, label: str) -> Marker:
        """Return a marker at the current place of the stream."""
        return Marker(label=label, **self._moment(self.heard_s))

    def clear(self) -> Cleared:
        """Return the event that clears what is shown."""
        return Cleared(**self._moment(self.heard_s))

    def _skip(self, n_samples: int) -> int:
        """Skip the incomplete frame and what follows; return their samples."""
        n_samples += self._incomplete.size
        self._incomplete = self._incomplete[:0]
        self._segmenter.skip(n_samples)
        return n_samples

    def _process_frame(self, frame: FloatArray) -> Iterator[Event]:
        self.statistics.n_stream_samples += frame.size
        change = self._segmenter.push(frame)
        if change == "started":
            yield self._segments.begin()
        elif change == "ended":
            yield from self._segments.end("silence")
        else:
            yield from self._segments.cut_at_limit()

    def _moment(self, start_s: float) -> Moment:
        """Return the times of an event that begins at `start_s` of the stream."""
        return self._clock.moment(start_s, self.heard_s)
