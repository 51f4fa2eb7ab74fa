"""Cost and latency of a run of captions: the study's eight figures and ours."""

from __future__ import annotations

import resource
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import Completed
from whisper_hailo.live.sources.source import Interruption


@dataclass(slots=True)
class CaptionStatistics:
    """Sums over a stream, whose audio is counted in samples.

    Attributes:
        n_calls: buffers that were transcribed, also to find where to cut a segment.
        n_partials: partials that were made; `partial_passes` of the decoder, and
            `partial_decode_ms`, are of all of them.
        n_full: completed segments.
        n_heard_samples: of all calls; each counts its whole buffer.
        n_segment_samples: of completed segments, each once.
        n_stream_samples: of the stream, silence included.
        compute_s: wall-clock time of the calls.
        n_skipped: partials that were due but not made.
        words_in: number of words by the code of their language.
        n_corrected: words that were shown and then changed.
        longest_backlog_s: longest audio that ever waited.
        n_lost_samples: dropped, since the queue was full.
        n_away: absences of the source.
        n_stalls: times that no sound arrived from an open source.
        n_away_samples: for which it was away.
        n_paused_samples: for which a user paused it.
        n_faults: gaps that the source reported, such as overruns of a sound card.
        n_engine_faults: calls in which the device failed.
        first_latency_s: of live audio, from the start of a segment to its first text.
        final_latency_s: of live audio, from the end of speech to the final text.
        settle_s: of each word of live audio, from its end until it could not change any more.
        untranscribed_s: seconds of speech that got no text.
        behind_s: how late captions are, as of the last segment; 0 where the audio is not live, or
            comes faster than it is said.
    """

    n_calls: int = 0
    n_partials: int = 0
    n_full: int = 0
    n_heard_samples: int = 0
    n_segment_samples: int = 0
    n_stream_samples: int = 0
    compute_s: float = 0.0
    partial_passes: int = 0
    partial_decode_ms: float = 0.0
    n_skipped: int = 0
    words_in: Counter[str] = field(default_factory=Counter)
    n_corrected: int = 0
    longest_backlog_s: float = 0.0
    n_lost_samples: int = 0
    n_away: int = 0
    n_stalls: int = 0
    n_away_samples: int = 0
    n_paused_samples: int = 0
    n_faults: int = 0
    n_engine_faults: int = 0
    first_latency_s: list[float] = field(default_factory=list)
    final_latency_s: list[float] = field(default_factory=list)
    settle_s: array[float] = field(default_factory=lambda: array("f"))
    untranscribed_s: float = 0.0
    behind_s: float = 0.0

    def note_absence(self, gap: Interruption) -> None:
        """Count that a source is away; a pause is wanted."""
        if gap.stalled:
            self.n_stalls += 1
        elif not gap.paused:
            self.n_away += 1

    def note_completed(
        self, event: Completed, n_samples: int, n_corrected: int, since_s: float | None
    ) -> None:
        """Count a completed segment, whose end was captured `since_s` ago.

        A pipe may give audio faster than it is said; so the segment is at most as late as the
        program has run longer than the stream.
        """
        self.n_full += 1
        self.n_segment_samples += n_samples
        self.words_in[event.language] += len(event.words)
        self.n_corrected += n_corrected
        late_s = event.at_s - event.heard_s
        self.behind_s = 0.0 if since_s is None else max(0.0, min(since_s, late_s))

    def as_json(self) -> dict[str, Any]:
        """Return all figures by name; `None` where there is nothing to measure.

        `speech_s` and `rtfx_recounted` count audio each time it is transcribed, as the study did;
        `segment_s` and `rtfx` count it once.
        """
        speech_s = self.n_heard_samples / SAMPLE_RATE_HZ
        segment_s = self.n_segment_samples / SAMPLE_RATE_HZ
        n_words = self.words_in.total()
        figures = {
            "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "calls": self.n_calls,
            "partials": self.n_partials,
            "full_segments": self.n_full,
            "frames": self.n_heard_samples,
            "speech_s": speech_s,
            "compute_s": self.compute_s,
            "rtfx_recounted": _ratio(speech_s, self.compute_s),
            "rtfx": _ratio(segment_s, self.compute_s),
            "segment_s": segment_s,
            "stream_s": self.n_stream_samples / SAMPLE_RATE_HZ,
            "first_partial_latency_s_median": _percentile(self.first_latency_s, 50),
            "first_partial_latency_s_p95": _percentile(self.first_latency_s, 95),
            "final_latency_s_median": _percentile(self.final_latency_s, 50),
            "final_latency_s_p95": _percentile(self.final_latency_s, 95),
            "word_settle_s_median": _percentile(self.settle_s, 50),
            "word_settle_s_p95": _percentile(self.settle_s, 95),
            "passes_per_partial": _ratio(self.partial_passes, self.n_partials),
            "decode_ms_per_partial": _ratio(self.partial_decode_ms, self.n_partials),
            "skipped_partials": self.n_skipped,
            "corrections_per_word": _ratio(self.n_corrected, n_words),
            "words": n_words,
            "longest_backlog_s": self.longest_backlog_s,
            "untranscribed_s": self.untranscribed_s,
            "lost_s": self.n_lost_samples / SAMPLE_RATE_HZ,
            "absences": self.n_away,
            "stalls": self.n_stalls,
            "away_s": self.n_away_samples / SAMPLE_RATE_HZ,
            "paused_s": self.n_paused_samples / SAMPLE_RATE_HZ,
            "source_faults": self.n_faults,
            "engine_faults": self.n_engine_faults,
        }
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in figures.items()
        }


def _percentile(seconds: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(seconds, percent)) if seconds else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
