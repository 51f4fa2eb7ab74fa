"""Captions of a stream at the speed of speech, by the clock of a core without other work."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo_lab.captions.latency import Shown, measure_latency
from whisper_hailo_lab.captions.streams import SpokenStream
from whisper_hailo_lab.score import score_file


@dataclass(slots=True)
class CoreClock:
    """Clock of a core that does nothing but captions: processor time, and waits set forward.

    Attributes:
        times_slower: how much slower the core is than this machine.
        ahead_s: seconds that were set forward.
    """

    times_slower: float = 1.0
    ahead_s: float = 0.0

    def now(self) -> float:
        """Return seconds."""
        return self.ahead_s + self.times_slower * time.thread_time()

    def wait_until(self, moment_s: float) -> None:
        """Let the time until a moment pass."""
        self.ahead_s += max(0.0, moment_s - self.now())


@dataclass(slots=True)
class Playback:
    """One stream through the captioner.

    Attributes:
        captioner: the captioner, which has the statistics.
        shown: everything that was shown.
        behind_s: backlog of captions at each block.
        processor_s: seconds that captions took.
        settled: texts of completed segments.
    """

    captioner: Captioner
    shown: list[Shown] = field(default_factory=list)
    behind_s: list[float] = field(default_factory=list)
    processor_s: float = 0.0
    settled: list[str] = field(default_factory=list)

    def note_event(self, event: Event, at_s: float) -> None:
        """Add what an event shows."""
        if isinstance(event, Completed):
            self.settled.append(event.text)
            self.shown.append(Shown(at_s, " ".join(self.settled), ""))
        elif isinstance(event, Partial):
            tentative = "".join(word.text for word in event.tentative)
            committed = "".join(word.text for word in event.committed)
            self.shown.append(
                Shown(at_s, " ".join([*self.settled, committed]), tentative)
            )


def play_stream(
    engine: SpeechRecognizer,
    stream: SpokenStream,
    options: CaptionOptions,
    times_slower: float = 1.0,
) -> Playback:
    """Caption a stream at the speed of speech; audio that has been waiting is one block."""
    clock = CoreClock(times_slower)
    run = Playback(Captioner(engine, make_detector(), options, clock.now))
    audio = stream.audio
    begin_s = clock.now()
    begin_cpu_s = time.thread_time()
    start = 0
    while start < audio.size:
        clock.wait_until(begin_s + (start + FRAME_SAMPLES) / SAMPLE_RATE_HZ)
        n_played = min(audio.size, int((clock.now() - begin_s) * SAMPLE_RATE_HZ))
        end = max(start + FRAME_SAMPLES, n_played - n_played % FRAME_SAMPLES)
        # The backlog is measured at the end of the last frame.
        run.behind_s.append((end - start - FRAME_SAMPLES) / SAMPLE_RATE_HZ)
        captured_s = begin_s + end / SAMPLE_RATE_HZ
        for event in run.captioner.feed(audio[start:end], captured_s):
            run.note_event(event, clock.now() - begin_s)
        start = end
    for event in run.captioner.finish():
        run.note_event(event, clock.now() - begin_s)
    run.processor_s = time.thread_time() - begin_cpu_s
    return run


def word_error_percent(reference: str, hypothesis: str, language: str = "en") -> float:
    """Return the word error rate of normalised texts, in percent."""
    rate = score_file(reference, hypothesis, "normalised", language).words.rate
    return round(100 * rate, 2)


def figures_of(
    run: Playback, stream: SpokenStream, language: str = "en"
) -> dict[str, Any]:
    """Return the figures of one stream."""
    last = run.shown[-1]
    statistics = run.captioner.statistics
    n_words = statistics.words_in.total()
    return {
        "seconds": round(stream.seconds, 1),
        "wer": word_error_percent(
            stream.text, f"{last.settled} {last.running}", language
        ),
        **measure_latency(stream.utterances, run.shown).figures(),
        "share": round(run.processor_s / stream.seconds, 3),
        "rewritten": round(statistics.n_corrected / max(1, n_words), 3),
        "behind_s": round(max(run.behind_s), 2),
        "settle_s_median": round(float(np.median(statistics.settle_s)), 2),
        "settle_s_p95": round(float(np.percentile(statistics.settle_s, 95)), 2),
        "skipped_partials": statistics.n_skipped,
        "partials": statistics.n_partials,
        "words": n_words,
    }
