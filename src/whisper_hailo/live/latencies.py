"""How long readers wait: for the first text of a segment, its final text, and each word of it."""

from __future__ import annotations

from collections.abc import Sequence

from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferWord
from whisper_hailo.live.events import Completed, StreamClock
from whisper_hailo.live.listener import RunningSegment
from whisper_hailo.live.statistics import CaptionStatistics


class LatencyRecorder:
    """Add the latencies of segments to the statistics, by the clock of the stream."""

    def __init__(self, clock: StreamClock, statistics: CaptionStatistics) -> None:
        self._clock = clock
        self._statistics = statistics

    def note_first_text(self, running: RunningSegment, text: str) -> None:
        """Note how long after its start the first text of a segment is shown."""
        if not text or running.has_text:
            return
        running.has_text = True
        latency_s = self._clock.since(running.start)
        if latency_s is not None and not running.is_continuation:
            self._statistics.first_latency_s.append(latency_s)

    def note_completed(
        self,
        running: RunningSegment,
        event: Completed,
        n_samples: int,
        last_speech: int,
    ) -> None:
        """Count a completed segment; `last_speech` is the last sample of speech of the stream."""
        self.note_first_text(running, event.text)
        latency_s = self._clock.since(last_speech)
        ends_speech = event.reason in ("silence", "end")
        if latency_s is not None and ends_speech:
            self._statistics.final_latency_s.append(latency_s)
        since_s = self._clock.since(running.start + n_samples)
        self._statistics.note_completed(
            event, n_samples, running.text.n_corrected, since_s
        )

    def note_settled(
        self, running: RunningSegment, words: Sequence[BufferWord]
    ) -> None:
        """Note how long after its end each word of a completed segment settled."""
        now_s = self._clock.now()
        for index, word in enumerate(words):
            if word.end_s is None:
                continue
            end = running.start + round(word.end_s * SAMPLE_RATE_HZ)
            since_s = self._clock.since(end)
            if since_s is None:  # a recording has no delay
                return
            settled_at_s = now_s
            if index < len(running.settled_at_s):
                settled_at_s = running.settled_at_s[index]
            self._statistics.settle_s.append(since_s - (now_s - settled_at_s))
