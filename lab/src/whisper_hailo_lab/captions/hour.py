"""An hour of captions while device, sound card and browser misbehave."""

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
from whisper_hailo_lab.captions.stream import percent_wrong
from whisper_hailo_lab.data.clips import said
from whisper_hailo_lab.runs.machine import rss_mib

_LOOK_S: Final = 0.05
_CATCH_UP_S: Final = 0.02


class FreeCore:
    """Time as it would pass on a core that does nothing but this.

    While the captioner computes it runs with the processor time of its thread, which other work on
    the machine does not lengthen; while it waits for audio the clock is set forward to the next
    piece. So a stream is played at the speed of speech by this clock, with the same partials due at
    the same audio, whatever else the machine does, and nobody waits for silence to pass.

    Made by the captioner's thread; `sleep` and `played` belong to the source's.
    """

    def __init__(self) -> None:
        self._processor = time.pthread_getcpuclockid(threading.get_ident())
        self._ahead_s = 0.0
        self._n_unheard = 0
        self._changed = threading.Condition()

    def now(self) -> float:
        return self._ahead_s + time.clock_gettime(self._processor)

    def played(self, n_samples: int) -> None:
        """The source is about to give a piece."""
        with self._changed:
            self._n_unheard += n_samples

    def heard(self, n_samples: int) -> None:
        """The captioner is done with so much, the texts made of it included."""
        with self._changed:
            self._n_unheard -= n_samples
            self._changed.notify()

    def sleep(self, seconds: float) -> None:
        """Wait by this clock, until it is time for the next piece."""
        end_s = self.now() + seconds
        with self._changed:
            while (left_s := end_s - self.now()) > 0:
                if self._n_unheard == 0:
                    self._ahead_s += left_s
                else:
                    self._changed.wait(min(left_s, _LOOK_S))

    def stall(self, seconds: float) -> None:
        """The captioner's thread waits for something that is not computed, while people speak."""
        with self._changed:
            self._ahead_s += seconds
            self._changed.notify()
        time.sleep(_CATCH_UP_S)  # for the source to play what was said meanwhile


STALL: Final = 0.005
"""Chance that the device does not answer for up to `LONGEST_STALL_S`."""

FAILURE: Final = 0.01
"""Chance that it fails."""

LONGEST_STALL_S: Final = 3.0
OVERRUN_BLOCKS: Final = 1000


class Overrunning(FileSource):
    """A file played over and over by the clock, with an overrun of the card in each 1000 pieces."""

    def __init__(self, path: Path, loops: int, clock: FreeCore) -> None:
        super().__init__(path, real_time=True, now=clock.now, sleep=clock.sleep)
        self._loops = loops
        self._clock = clock

    def blocks(self) -> Iterator[Block]:
        for index, block in enumerate(self._looped()):
            self._clock.played(block.audio.size)
            overruns = index % OVERRUN_BLOCKS == OVERRUN_BLOCKS - 1
            yield Block(block.audio, block.captured_s, n_faults=int(overruns))

    def _looped(self) -> Iterator[Block]:
        yield from super().blocks()
        for _ in range(1, self._loops):
            self.open()
            yield from super().blocks()


class PacedCaptioner(Captioner):
    """A captioner that tells the clock when it is done with a piece."""

    def __init__(self, engine: SpeechRecognizer, clock: FreeCore) -> None:
        super().__init__(engine, make_detector(), now=clock.now)
        self._core = clock

    def feed(self, audio: FloatArray, captured_s: float | None = None) -> Iterator[Event]:
        """Take audio; its events have been shown when it is done."""
        yield from super().feed(audio, captured_s)
        self._core.heard(audio.size)


@dataclass
class Unsteady:
    """An engine whose device stalls now and then, and now and then fails."""

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

    def with_language(self, language: str) -> Unsteady:
        return replace(self, engine=self.engine.with_language(language))

    def transcribe(self, *given: Any, **named: Any) -> BufferText:  # noqa: ANN401 - passed on
        """Hear a buffer, unless the device stalls or fails first."""
        chance = self.rng.random()
        if chance < STALL:
            self.n_stalls += 1
            self.clock.stall(self.rng.uniform(0.1, LONGEST_STALL_S))
        elif chance < STALL + FAILURE:
            self.n_failures += 1
            raise DeviceError("injected: the device failed")
        return self.engine.transcribe(*given, **named)


@dataclass
class Notes:
    """What is kept of the events: texts, breaches of the guarantees, memory at each final text."""

    texts: dict[int, str] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    n_started: int = 0
    watch: EventChecker = field(default_factory=EventChecker)

    def put(self, event: Event) -> None:
        self.breaches += self.watch.see(event)
        self.n_started = self.watch.next_id
        if isinstance(event, Completed):
            self.memory.append(rss_mib())
            if event.text:
                self.texts[event.segment_id] = event.text

    def tenths(self) -> list[float]:
        """Median memory of each tenth of the run, MiB."""
        return [round(float(np.median(part)), 1) for part in np.array_split(self.memory, 10)]


def hour(path: Path, engine: SpeechRecognizer, *, loops: int, seed: int = 0) -> dict[str, Any]:
    """The recording over and over, in real time by the clock of a free core, with faults.

    Args:
        path: the recording, what was said beside it.
        engine: warm.
        loops: how often it is played.
        seed: of the faults.
    """
    clock = FreeCore()
    unsteady = Unsteady(engine, np.random.default_rng(seed), clock)
    captioner = PacedCaptioner(unsteady, clock)
    notes = Notes()
    begin_s, begin_wall_s, cpu_s = clock.now(), time.perf_counter(), time.process_time()
    with (
        Overrunning(path, loops, clock) as source,
        WebView(lambda: captioner.statistics, PageAddress(port=0)) as page,
        Browser(page.address, seed) as browser,
    ):
        for event in CaptionStream(source, captioner).events():
            notes.put(event)
            page.put(event)
        browser.read_to(max(notes.texts, default=-1))
    stream_s, wall_s = clock.now() - begin_s, time.perf_counter() - begin_wall_s
    cpu_s = time.process_time() - cpu_s
    notes.breaches += notes.watch.end()
    heard_s = captioner.statistics.n_stream_samples / SAMPLE_RATE_HZ
    return {
        "stream_minutes": round(heard_s / 60, 1),
        "times_real_time": round(heard_s / wall_s, 1),
        "cpu_share": round(cpu_s / stream_s, 3),
        "wer": percent_wrong(" ".join([said(path)] * loops), " ".join(notes.texts.values())),
        "segments": notes.n_started,
        "violations": notes.breaches,
        "stalls": unsteady.n_stalls,
        "device_failures": unsteady.n_failures,
        "page_visits": browser.n_visits,
        "page_lost": len(notes.texts.keys() - browser.texts.keys()),
        "page_doubled": len(browser.twice),
        "memory_tenths_mib": notes.tenths(),
        **captioner.statistics.as_json(),
    }
