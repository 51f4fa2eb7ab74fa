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
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import SpeechRecognizer, warm_up
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.captions.event_checks import find_violations

TEN_SECONDS: Final = 10 * SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class CaptionSetup:
    """One engine with one set of options.

    Attributes:
        label: name for the table.
        engine: open engine; setups may share one.
        options: options of the captioner.
        keeps: the engine gets drafts of what it heard before; else it is a `ForgetfulEngine`, as
            programs without a memory are.
    """

    label: str
    engine: SpeechRecognizer
    options: CaptionOptions
    keeps: bool = True


@dataclass(frozen=True, slots=True)
class ForgetfulEngine:
    """An engine that decodes every buffer from scratch, committed words included."""

    engine: SpeechRecognizer

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def content_s(self) -> float:
        return self.engine.content_s

    @property
    def language(self) -> str:
        return self.engine.language

    def with_language(self, language: str) -> ForgetfulEngine:
        return ForgetfulEngine(self.engine.with_language(language))

    def transcribe(
        self, buffer: PartialBuffer, language: str | None = None
    ) -> BufferText:
        """Transcribe a buffer without its draft; see `SpeechRecognizer`."""
        return self.engine.transcribe(replace(buffer, draft=Draft()), language)


@dataclass(slots=True)
class CaptionRun:
    """One setup on the stream.

    Attributes:
        setup: engine and options.
        captioner: its captioner, which has the statistics.
        events: events so far.
        final_ms: times from the block that ends a segment to its final text.
    """

    setup: CaptionSetup
    captioner: Captioner
    events: list[Event] = field(default_factory=list)
    final_ms: list[float] = field(default_factory=list)

    @classmethod
    def make(cls, setup: CaptionSetup, detector: SpeechDetector) -> CaptionRun:
        """Return a run at the start of the stream."""
        engine = setup.engine if setup.keeps else ForgetfulEngine(setup.engine)
        return cls(setup, Captioner(engine, detector, setup.options))

    def feed(self, block: FloatArray | None) -> None:
        """Take a block, or `None` at the end of the stream."""
        begin_s = perf_counter()
        events = (
            self.captioner.finish() if block is None else self.captioner.feed(block)
        )
        new = list(events)
        if any(isinstance(event, Completed) for event in new):
            self.final_ms.append(1000 * (perf_counter() - begin_s))
        self.events += new

    @property
    def text(self) -> str:
        """All completed segments as one text."""
        texts = (event.text for event in self.events if isinstance(event, Completed))
        return " ".join(text for text in texts if text)


def run_captions(
    setups: Sequence[CaptionSetup],
    audio: FloatArray,
    make_detector: Callable[[], SpeechDetector],
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[CaptionRun]:
    """Feed the same stream to all setups, in an order drawn anew for each block.

    In a rotating order every setup would always follow the same other one, which leaves shared
    weights in the processor's cache, or evicts them.

    Args:
        setups: engines and options.
        audio: `(n_samples,)` float32 at 16 kHz mono.
        make_detector: makes a speech detector; each setup has one of its own.
        report: called with seconds done and seconds in all.
    """
    for engine in {id(setup.engine): setup.engine for setup in setups}.values():
        warm_up(engine)
    runs = [CaptionRun.make(setup, make_detector()) for setup in setups]
    rng = np.random.default_rng(0)
    for start in range(0, audio.size, FRAME_SAMPLES):
        for turn in rng.permutation(len(runs)):
            runs[turn].feed(audio[start : start + FRAME_SAMPLES])
        if start % TEN_SECONDS < FRAME_SAMPLES:
            report(start // SAMPLE_RATE_HZ, audio.size // SAMPLE_RATE_HZ)
    for run in runs:
        run.feed(None)
    return runs


def row_of(
    run: CaptionRun, error_rate: Callable[[str], float | None]
) -> dict[str, Any]:
    """Return cost and quality of a setup.

    Args:
        run: run after the stream.
        error_rate: returns the word error rate of a text; `None` without a reference.
    """
    figures = run.captioner.statistics.as_json()
    final_ms = run.final_ms
    return {
        "way": run.setup.label,
        "engine": run.setup.engine.name,
        "partial_s": run.setup.options.min_partial_s,
        "partials": figures["partials"],
        "passes_per_partial": figures["passes_per_partial"],
        "decode_ms_per_partial": figures["decode_ms_per_partial"],
        "final_ms_median": median(final_ms) if final_ms else None,
        "final_ms_p95": float(np.percentile(final_ms, 95)) if final_ms else None,
        "rtfx": figures["rtfx"],
        "corrections_per_word": figures["corrections_per_word"],
        "wer": error_rate(run.text),
        "text": run.text,
        "violations": list(find_violations(run.events)),
    }
