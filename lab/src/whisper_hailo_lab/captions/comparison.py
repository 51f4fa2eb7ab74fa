"""Several engines and settings caption the same stream, block by block in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES, SpeechDetector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer, warm_up
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import violations

TEN_SECONDS: Final = 10 * SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class CaptionSetup:
    """One engine with one set of options.

    Attributes:
        label: for the table.
        engine: open; setups may share one.
        options: of the captioner.
        keeps: it knows what it heard before; otherwise every buffer is decoded from nothing, its
            committed words included, as programs without a memory of their own do.
    """

    label: str
    engine: SpeechRecognizer
    options: CaptionOptions
    keeps: bool = True


@dataclass(frozen=True, slots=True)
class EngineCall:
    """One buffer that was heard.

    Attributes:
        audio_s: its length.
        draft: what its text was expected to begin with.
        result: its text, with what it cost.
    """

    audio_s: float
    draft: Draft
    result: BufferText


@dataclass(slots=True)
class WatchedEngine:
    """An engine whose calls are noted.

    Attributes:
        setup: whose engine it is.
        last: the latest call.
    """

    setup: CaptionSetup
    last: EngineCall | None = None

    @property
    def name(self) -> str:
        return self.setup.engine.name

    @property
    def content_s(self) -> float:
        return self.setup.engine.content_s

    @property
    def language(self) -> str:
        return self.setup.engine.language

    def with_language(self, language: str) -> WatchedEngine:
        engine = self.setup.engine.with_language(language)
        return WatchedEngine(replace(self.setup, engine=engine))

    def transcribe(self, buffer: PartialBuffer, language: str | None = None) -> BufferText:
        """Hear a buffer; see `SpeechRecognizer`."""
        given = buffer if self.setup.keeps else replace(buffer, draft=Draft())
        result = self.setup.engine.transcribe(given, language)
        self.last = EngineCall(given.audio.size / SAMPLE_RATE_HZ, given.draft, result)
        return result


@dataclass(slots=True)
class CaptionRun:
    """One setup on the stream.

    Attributes:
        setup: engine and options.
        watched: its engine.
        captioner: with the statistics.
        events: all so far.
        partials: the calls that partial texts were made of.
        final_ms: time from the block that ends a segment to its final text.
    """

    setup: CaptionSetup
    watched: WatchedEngine
    captioner: Captioner
    events: list[Event] = field(default_factory=list)
    partials: list[EngineCall] = field(default_factory=list)
    final_ms: list[float] = field(default_factory=list)

    @classmethod
    def make(cls, setup: CaptionSetup, detector: SpeechDetector) -> CaptionRun:
        """A run at the stream's beginning."""
        watched = WatchedEngine(setup)
        return cls(setup, watched, Captioner(watched, detector, setup.options))

    def feed(self, block: FloatArray | None) -> None:
        """Take a block, or the end of the stream."""
        captioner, begin = self.captioner, perf_counter()
        new = list(captioner.finish() if block is None else captioner.feed(block))
        if any(isinstance(event, Completed) for event in new):
            self.final_ms.append(1000 * (perf_counter() - begin))
        if self.watched.last is not None and any(isinstance(event, Partial) for event in new):
            self.partials.append(self.watched.last)
        self.events += new

    @property
    def text(self) -> str:
        """All completed segments as one text."""
        final = (event.text for event in self.events if isinstance(event, Completed))
        return " ".join(text for text in final if text)


def run_captions(
    setups: Sequence[CaptionSetup],
    audio: FloatArray,
    detector: Callable[[], SpeechDetector],
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> list[CaptionRun]:
    """Feed the same stream to all setups, in an order drawn anew for each block.

    In rotating order every one would always follow the same other one, which leaves the weights
    that they share in the processor's cache, or drives them out.

    Args:
        setups: engines and options.
        audio: `(n_samples,)` float32 at 16 kHz mono.
        detector: makes a detector of speech; each setup has one of its own.
        tick: told how many seconds are done, of how many.
    """
    for engine in {id(setup.engine): setup.engine for setup in setups}.values():
        warm_up(engine)
    runs = [CaptionRun.make(setup, detector()) for setup in setups]
    drawn = np.random.default_rng(0)
    for at in range(0, audio.size, FRAME_SAMPLES):
        for turn in drawn.permutation(len(runs)):
            runs[turn].feed(audio[at : at + FRAME_SAMPLES])
        if at % TEN_SECONDS < FRAME_SAMPLES:
            tick(at // SAMPLE_RATE_HZ, audio.size // SAMPLE_RATE_HZ)
    for run in runs:
        run.feed(None)
    return runs


def row_of(run: CaptionRun, error_rate: Callable[[str], float | None]) -> dict[str, Any]:
    """What a setup cost and how it felt.

    Args:
        run: after the stream.
        error_rate: word error rate of a text; `None` where what was said is not known.
    """
    figures, options = run.captioner.statistics.as_json(), run.setup.options
    final = run.final_ms
    return {
        "way": run.setup.label,
        "engine": run.setup.engine.name,
        "partial_s": options.min_partial_s,
        "partials": figures["partials"],
        "passes_per_partial": figures["passes_per_partial"],
        "decode_ms_per_partial": figures["decode_ms_per_partial"],
        "final_ms_median": median(final) if final else None,
        "final_ms_p95": float(np.percentile(final, 95)) if final else None,
        "rtfx": figures["rtfx"],
        "corrections_per_word": figures["corrections_per_word"],
        "wer": error_rate(run.text),
        "text": run.text,
        "violations": list(violations(run.events)),
    }
