"""One stream through the captioner: in real time, or for an hour with everything going wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.bench.machine import rss_mib
from whisper_hailo.bench.score import score_file
from whisper_hailo.core.buffers import BufferText
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.option_groups import TokenLimits
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.engine import TOKENS_PER_SECOND, TranscriberEngine, warm_up
from whisper_hailo.live.events import Completed, Event, Started, violations
from whisper_hailo.live.hub import Client, Hub, Message
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources import Block, FileSource
from whisper_hailo.live.statistics import Statistics
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo.longform.plan import LongOptions
from whisper_hailo.vad import SileroDetector

MOST_WAITING_S: Final = 30


@contextmanager
def engine_of(model: str, threads: int, *, snug: bool = False) -> Iterator[TranscriberEngine]:
    """The engine of `whisper-hailo caption`, warm."""
    with Transcriber.from_model(model, threads=threads) as transcriber:
        cures = transcriber.default_cures
        limits = TokenLimits(max_per_second=TOKENS_PER_SECOND)
        engine = TranscriberEngine(
            transcriber, DecodingOptions(cures=cures, limits=limits), snug=snug
        )
        warm_up(engine)
        yield engine


def said(path: Path) -> str:
    """What was said in a recording."""
    return path.with_suffix(".txt").read_text(encoding="utf-8").strip()


def percent_wrong(reference: str, heard: str) -> float:
    """Word error rate, normalised."""
    rate = score_file(reference, heard, "normalised", "en").words.rate
    return round(100 * rate, 2)


def text_of(events: list[Event]) -> str:
    """All completed segments as one text."""
    return " ".join(e.text for e in events if isinstance(e, Completed) and e.text)


def real_time(path: Path, model: str, threads: int) -> dict[str, Any]:
    """The recording at the speed of speech, and its offline transcription for comparison."""
    with Transcriber.from_model(model, threads=threads) as transcriber:
        offline = {
            strategy: transcriber.transcribe(path, long=LongOptions(strategy=strategy)).text
            for strategy in ("auto", "vad")
        }
    with engine_of(model, threads) as engine:
        captioner = Captioner(engine, SileroDetector())
        begin_s, cpu_s = time.perf_counter(), time.process_time()
        with FileSource(path, real_time=True) as source:
            events = list(CaptionStream(source, captioner).events())
        wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    live, reference = text_of(events), said(path)
    return {
        "wer_live": percent_wrong(reference, live),
        "wer_offline": percent_wrong(reference, offline["auto"]),
        "wer_offline_vad": percent_wrong(reference, offline["vad"]),
        "violations": list(violations(events)),
        "wall_s": round(wall_s, 1),
        "cpu_share": round(cpu_s / wall_s, 3),
        "reasons": {
            reason: sum(isinstance(e, Completed) and e.reason == reason for e in events)
            for reason in ("silence", "length", "end")
        },
        **captioner.statistics.as_json(),
    }


class Overrunning(FileSource):
    """A file played live whose sound card reports overruns.

    It waits when the captioner is `MOST_WAITING_S` behind: a machine too slow for the speed asked
    for plays more slowly, so that what grows is not what merely waits.
    """

    statistics = Statistics()

    def blocks(self) -> Iterator[Block]:
        """Every thousandth piece comes with a fault."""
        played = 0
        for index, block in enumerate(super().blocks()):
            while played - self.statistics.n_stream_samples > MOST_WAITING_S * SAMPLE_RATE_HZ:
                time.sleep(0.01)
            played += block.audio.size
            fault = "input overflow" if index % 1000 == 999 else None
            yield Block(block.audio, block.captured_s, fault)


@dataclass
class Unsteady:
    """An engine whose device stalls now and then, and now and then fails."""

    engine: TranscriberEngine
    rng: np.random.Generator
    n_stalls: int = 0
    n_failures: int = 0

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def content_s(self) -> float:
        return self.engine.content_s

    def hear(self, *given: Any, **named: Any) -> BufferText:  # noqa: ANN401 - passed on
        chance = self.rng.random()
        if chance < 0.005:
            self.n_stalls += 1
            time.sleep(self.rng.uniform(0.1, 1.0))
        elif chance < 0.015:
            self.n_failures += 1
            raise DeviceError("injected: the device failed")
        return self.engine.hear(*given, **named)


@dataclass
class Page:
    """A browser's view of the captions: it keeps one text per id, reads slowly, and comes and goes.

    Attributes:
        texts: id to final text.
        twice: ids that came with two texts.
        n_visits: times that it connected.
    """

    hub: Hub
    rng: np.random.Generator
    client: Client
    texts: dict[int, str] = field(default_factory=dict)
    twice: set[int] = field(default_factory=set)
    n_visits: int = 1

    def look(self) -> None:
        """Close and come back, read all that waits, or sleep."""
        chance = self.rng.random()
        if chance < 0.02:
            self.hub.leave(self.client)
            self.client = self.hub.join(lambda: None)
            self.n_visits += 1
        elif chance < 0.3:
            self.read()

    def read(self) -> None:
        """All that waits."""
        for message in iter(self.client.take, None):
            for entry in (message, *message.get("completed", [])):
                self._note(entry)

    def _note(self, entry: Message) -> None:
        if entry["event"] == "completed" and entry["text"]:
            known = self.texts.setdefault(entry["segment_id"], entry["text"])
            if known != entry["text"]:
                self.twice.add(entry["segment_id"])


def hour(
    path: Path, model: str, threads: int, *, loops: int, speed: float, seed: int = 0
) -> dict[str, Any]:
    """The recording over and over, faster than real time, while device, card and page misbehave.

    Args:
        path: the recording, what was said beside it.
        model: checkpoint.
        threads: of the engine.
        loops: how often it is played.
        speed: so many times real time; the clock of source and captioner runs that much faster.
        seed: of the faults.
    """

    def now() -> float:
        return speed * time.perf_counter()

    rng = np.random.default_rng(seed)
    hub = Hub()
    page = Page(hub, rng, hub.join(lambda: None))
    memory: list[float] = []
    options = CaptionOptions(min_partial_s=1.0, snug=True)
    with engine_of(model, threads, snug=True) as engine:
        unsteady = Unsteady(engine, rng)
        captioner = Captioner(unsteady, SileroDetector(), options, now)
        events: list[Event] = []
        played = Overrunning(
            path, real_time=True, loops=loops, now=now, sleep=lambda s: time.sleep(s / speed)
        )
        played.statistics = captioner.statistics
        begin_s, cpu_s = time.perf_counter(), time.process_time()
        with played as source:
            for event in CaptionStream(source, captioner).events():
                events.append(event)
                hub.put(event)
                page.look()
                if isinstance(event, Completed):
                    memory.append(rss_mib())
        wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    page.read()
    told = {e.segment_id: e.text for e in events if isinstance(e, Completed) and e.text}
    heard_s = captioner.statistics.n_stream_samples / SAMPLE_RATE_HZ
    tenth = max(1, len(memory) // 10)
    return {
        "stream_minutes": round(heard_s / 60, 1),
        "times_real_time": round(heard_s / wall_s, 1),
        "cpu_share": round(cpu_s / wall_s, 3),
        "wer": percent_wrong(" ".join([said(path)] * loops), text_of(events)),
        "segments": sum(isinstance(event, Started) for event in events),
        "violations": list(violations(events)),
        "stalls": unsteady.n_stalls,
        "device_failures": unsteady.n_failures,
        "page_visits": page.n_visits,
        "page_lost": len(told.keys() - page.texts.keys()),
        "page_doubled": len(page.twice),
        "memory_second_tenth_mib": round(float(np.median(memory[tenth : 2 * tenth + 1])), 1),
        "memory_last_tenth_mib": round(float(np.median(memory[-tenth:])), 1),
        "threads_left": threading.active_count(),
        **captioner.statistics.as_json(),
    }
