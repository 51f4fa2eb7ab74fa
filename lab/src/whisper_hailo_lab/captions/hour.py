"""Captions for an hour while device, sound card and browser misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio.vad import make_detector
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.recognizer import SpeechRecognizer
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.sources.source import Block
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo.serve.routes.captions.access import PageAddress
from whisper_hailo.serve.routes.captions.view import WebView
from whisper_hailo_lab.captions.browser import Browser
from whisper_hailo_lab.captions.event_checks import EventChecker
from whisper_hailo_lab.captions.stream import word_error_percent
from whisper_hailo_lab.data.clips import text_beside
from whisper_hailo_lab.runs.machine import rss_mib

_POLL_S: Final = 0.05
_CATCH_UP_S: Final = 0.02


class FreeCore:
    """Clock of a core that does nothing but captions.

    While the captioner computes, the clock runs with the processor time of its thread, which other
    load on the machine does not lengthen. While it waits for audio, the clock is set forward to the
    next block. So a stream plays at the speed of speech by this clock, with the same partials due
    at the same audio, and nothing waits for silence to pass.

    The captioner's thread makes it; the source's thread calls `sleep` and `note_played`.
    """

    def __init__(self) -> None:
        self._processor = time.pthread_getcpuclockid(threading.get_ident())
        self._ahead_s = 0.0
        self._n_unheard = 0
        self._changed = threading.Condition()

    def now(self) -> float:
        """Return seconds."""
        return self._ahead_s + time.clock_gettime(self._processor)

    def note_played(self, n_samples: int) -> None:
        """Note that the source is about to give a block."""
        with self._changed:
            self._n_unheard += n_samples

    def note_heard(self, n_samples: int) -> None:
        """Note that the captioner is done with a block, its texts included."""
        with self._changed:
            self._n_unheard -= n_samples
            self._changed.notify()

    def sleep(self, seconds: float) -> None:
        """Wait by this clock until the next block is due."""
        end_s = self.now() + seconds
        with self._changed:
            while (remaining_s := end_s - self.now()) > 0:
                if self._n_unheard == 0:
                    self._ahead_s += remaining_s
                else:
                    self._changed.wait(min(remaining_s, _POLL_S))

    def stall(self, seconds: float) -> None:
        """Let time pass in the captioner's thread without computing, while people speak."""
        with self._changed:
            self._ahead_s += seconds
            self._changed.notify()
        # The source plays meanwhile what was said during the stall.
        time.sleep(_CATCH_UP_S)


STALL: Final = 0.005
"""Probability that the device does not answer for up to `LONGEST_STALL_S`."""

FAILURE: Final = 0.01
"""Probability that it fails."""

LONGEST_STALL_S: Final = 3.0
OVERRUN_BLOCKS: Final = 1000


class OverrunningSource(FileSource):
    """A file that loops by the clock, with an overrun of the sound card every 1000 blocks."""

    def __init__(
        self,
        path: Path,
        loops: int,
        clock: FreeCore,
    ) -> None:
        super().__init__(path, real_time=True, now=clock.now, sleep=clock.sleep)
        self._loops = loops
        self._clock = clock

    def blocks(self) -> Iterator[Block]:
        for index, block in enumerate(self._looped_blocks()):
            self._clock.note_played(block.audio.size)
            overruns = index % OVERRUN_BLOCKS == OVERRUN_BLOCKS - 1
            yield Block(block.audio, block.captured_s, n_faults=int(overruns))

    def _looped_blocks(self) -> Iterator[Block]:
        yield from super().blocks()
        for _ in range(1, self._loops):
            self.open()
            yield from super().blocks()


class PacedCaptioner(Captioner):
    """A captioner that reports finished blocks to the clock."""

    def __init__(self, engine: SpeechRecognizer, clock: FreeCore) -> None:
        super().__init__(engine, make_detector(), now=clock.now)
        self._core = clock

    def feed(
        self, audio: FloatArray, captured_s: float | None = None
    ) -> Iterator[Event]:
        """Take audio; its events have been shown when it is done."""
        yield from super().feed(audio, captured_s)
        self._core.note_heard(audio.size)


@dataclass
class FaultyEngine:
    """An engine whose device stalls or fails at random."""

    engine: SpeechRecognizer
    rng: np.random.Generator
    clock: FreeCore
    n_stalls: int = 0
    n_failures: int = 0

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def content_s(self) -> float:
        return self.engine.content_s

    @property
    def language(self) -> str:
        return self.engine.language

    def with_language(self, language: str) -> FaultyEngine:
        return replace(self, engine=self.engine.with_language(language))

    def transcribe(self, *args: Any, **named: Any) -> BufferText:  # noqa: ANN401 - passed on
        """Transcribe a buffer, unless the device stalls or fails first."""
        chance = self.rng.random()
        if chance < STALL:
            self.n_stalls += 1
            self.clock.stall(self.rng.uniform(0.1, LONGEST_STALL_S))
        elif chance < STALL + FAILURE:
            self.n_failures += 1
            raise DeviceError("injected: the device failed")
        return self.engine.transcribe(*args, **named)


@dataclass
class EventLog:
    """Texts, breaches of the guarantees, and memory at each final text."""

    texts: dict[int, str] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    checker: EventChecker = field(default_factory=EventChecker)

    def put(self, event: Event) -> None:
        """Add an event."""
        self.breaches += self.checker.check_event(event)
        if isinstance(event, Completed):
            self.memory_mib.append(rss_mib())
            if event.text:
                self.texts[event.segment_id] = event.text

    def memory_tenths(self) -> list[float]:
        """Return the median memory of each tenth of the run, in MiB."""
        parts = np.array_split(self.memory_mib, 10)
        return [round(float(np.median(part)), 1) for part in parts]


def caption_with_faults(
    path: Path,
    engine: SpeechRecognizer,
    *,
    loops: int,
    seed: int = 0,
) -> dict[str, Any]:
    """Caption a looping recording in real time by the clock of a free core, with faults.

    Args:
        path: recording, its text beside it.
        engine: warm engine.
        loops: number of times it is played.
        seed: seed of the faults.
    """
    clock = FreeCore()
    faulty = FaultyEngine(engine, np.random.default_rng(seed), clock)
    captioner = PacedCaptioner(faulty, clock)
    log = EventLog()
    begin_s = clock.now()
    begin_wall_s = time.perf_counter()
    begin_cpu_s = time.process_time()
    with (
        OverrunningSource(path, loops, clock) as source,
        WebView(lambda: captioner.statistics, PageAddress(port=0)) as page,
        Browser(page.address, seed) as browser,
    ):
        for event in CaptionStream(source, captioner).events():
            log.put(event)
            page.put(event)
        browser.read_to(max(log.texts, default=-1))
    stream_s = clock.now() - begin_s
    wall_s = time.perf_counter() - begin_wall_s
    cpu_s = time.process_time() - begin_cpu_s
    log.breaches += log.checker.check_end()
    heard_s = captioner.statistics.n_stream_samples / SAMPLE_RATE_HZ
    reference = " ".join([text_beside(path)] * loops)
    return {
        "stream_minutes": round(heard_s / 60, 1),
        "times_real_time": round(heard_s / wall_s, 1),
        "cpu_share": round(cpu_s / stream_s, 3),
        "wer": word_error_percent(reference, " ".join(log.texts.values())),
        "segments": log.checker.next_id,
        "violations": log.breaches,
        "stalls": faulty.n_stalls,
        "device_failures": faulty.n_failures,
        "page_visits": browser.n_visits,
        "page_lost": len(log.texts.keys() - browser.texts.keys()),
        "page_doubled": len(browser.twice),
        "memory_tenths_mib": log.memory_tenths(),
        **captioner.statistics.as_json(),
    }
