"""One stream through the captioner in real time, and what was heard of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from whisper_hailo import Transcriber
from whisper_hailo.audio.vad import SileroDetector
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioning.captioner import Captioner
from whisper_hailo.live.captioning.engine import TranscriberEngine, warm_up
from whisper_hailo.live.event_checks import violations
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo_lab.captions.engines import CommonSetup, engine_of
from whisper_hailo_lab.data.clips import said
from whisper_hailo_lab.score import score_file


@contextmanager
def warm_engine(model: str, threads: int) -> Iterator[TranscriberEngine]:
    """The engine of `whisper-hailo caption`, warm."""
    with ExitStack() as stack:
        engine = engine_of(CommonSetup(model, threads=threads), "none", stack)
        warm_up(engine)
        yield engine


def percent_wrong(reference: str, hypothesis: str) -> float:
    """Word error rate of normalised English texts, in percent."""
    rate = score_file(reference, hypothesis, "normalised", "en").words.rate
    return round(100 * rate, 2)


def text_of(events: list[Event]) -> str:
    """All completed segments as one text."""
    return " ".join(e.text for e in events if isinstance(e, Completed) and e.text)


def captioned(path: Path, model: str, options: CaptionOptions) -> str:
    """What captions hear in a recording, as fast as it goes."""
    with warm_engine(model, 1) as engine, FileSource(path) as source:
        captioner = Captioner(engine, SileroDetector(), options)
        return text_of(list(CaptionStream(source, captioner).events()))


def real_time(path: Path, model: str, threads: int) -> dict[str, Any]:
    """The recording at the speed of speech, and its offline transcription for comparison."""
    with warm_engine(model, threads) as engine:
        captioner = Captioner(engine, SileroDetector())
        begin_s, cpu_s = time.perf_counter(), time.process_time()
        with FileSource(path, real_time=True) as source:
            events = list(CaptionStream(source, captioner).events())
        wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    figures = captioner.statistics.as_json()  # its memory is that of captions alone
    with Transcriber.from_model(
        model, convert=ConvertOptions("none"), threads=threads
    ) as transcriber:
        offline = {
            strategy: transcriber.transcribe(
                path, DecodingOptions(language="en"), long=LongOptions(strategy=strategy)
            ).text
            for strategy in ("auto", "vad")
        }
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
        **figures,
    }
