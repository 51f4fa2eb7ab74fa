"""The parts of the measurement, each a result of its own."""

from __future__ import annotations

import argparse
import logging
import math
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo_lab.captions.comparison import CaptionSetup, run_captions
from whisper_hailo_lab.captions.cost import SIZES, decoder_of, replayed
from whisper_hailo_lab.captions.engines import CommonSetup, compare_captions
from whisper_hailo_lab.captions.hour import hour
from whisper_hailo_lab.captions.policies import (
    CONTINUOUS_S,
    caption_continuously,
    caption_engine,
    compare_policies,
    join_english,
)
from whisper_hailo_lab.captions.same import same_texts
from whisper_hailo_lab.captions.soak.outcome import outcome
from whisper_hailo_lab.captions.soak.part import soak
from whisper_hailo_lab.captions.stream import reading, real_time, warm_engine
from whisper_hailo_lab.repository import MICRO, SOURCES
from whisper_hailo_lab.runs.machine import mark_of, package_versions, this_machine
from whisper_hailo_lab.runs.run_file import key_of

logger = logging.getLogger(__name__)

PARTIALS = 30  # of those with a text, evenly spaced, on other decoders


def paired(arguments: argparse.Namespace) -> dict[str, Any]:
    """`compare captions` on the first minute of the conversation."""
    return in_turns(arguments, first_minute(arguments.audio))


def read_aloud(arguments: argparse.Namespace) -> dict[str, Any]:
    """The same on a minute of somebody reading."""
    return in_turns(arguments, first_minute(reading(arguments.audio.with_name("reading.flac"), 1)))


def in_turns(arguments: argparse.Namespace, short: Path) -> dict[str, Any]:
    """All setups on one stream, and whether drafts changed its text."""
    record = compare_captions(short, CommonSetup(arguments.model, threads=1, moonshine=""), told)
    texts = {row["way"]: row.pop("text") for row in record.rows}
    pairs = (("drafts", "no drafts"), ("drafts, guesses shown", "no drafts, guesses shown"))
    return {
        "settings": record.settings,
        "rows": list(record.rows),
        "same_text": all(texts[one] == texts[other] for one, other in pairs),
    }


def cost(arguments: argparse.Namespace) -> dict[str, Any]:
    """The partials of the first minute on larger decoders, float and 8-bit."""
    audio = load_audio(first_minute(arguments.audio))
    with warm_engine(arguments.model, 1) as engine:
        (one,) = run_captions(
            [CaptionSetup("drafts", engine, CaptionOptions())], audio, make_detector
        )
    texts = [call for call in one.partials if call.result.tokens]
    some = texts[:: max(1, len(texts) // PARTIALS)]
    found: dict[str, Any] = {"partials": len(some)}
    for size in SIZES:
        for quantize in ("none", "int8"):
            with decoder_of(size, quantize) as decoder:
                found[f"{size} {quantize}"] = replayed(decoder, some)
    return found


def same(arguments: argparse.Namespace) -> dict[str, Any]:
    """Random edits of audio and drafts."""
    return same_texts(arguments.model, arguments.buffers)


def live(arguments: argparse.Namespace) -> dict[str, Any]:
    """The stream at the speed of speech, as a microphone gives it."""
    return real_time(arguments.audio, arguments.model, arguments.threads)


def looped(arguments: argparse.Namespace) -> dict[str, Any]:
    """An hour, or so many loops."""
    seconds = load_audio(arguments.audio).size / SAMPLE_RATE_HZ
    loops = arguments.loops or math.ceil(3600 / seconds)
    with warm_engine(arguments.model, 1) as engine:
        return hour(arguments.audio, engine, loops=loops)


def soaked(arguments: argparse.Namespace) -> dict[str, Any]:
    """A microphone of minutes of real time, a fault in each."""
    with ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (folder / "diary.jsonl").exists():
            soak(arguments.model, arguments.soak, folder)
        return outcome(folder, arguments.model)


def policies(arguments: argparse.Namespace) -> dict[str, Any]:
    """The commit policy on recordings of people, beside whole recordings."""
    del arguments  # its models and streams are its own
    return compare_policies()


def continuous(arguments: argparse.Namespace) -> dict[str, Any]:
    """Half an hour of recordings of people, on slower cores as well."""
    del arguments
    return caption_continuously()


def watch(arguments: argparse.Namespace) -> dict[str, Any]:
    """Two hours of recordings of people with the faults of `hour`, or so many loops."""
    path, model = arguments.audio.with_name("people.flac"), "tiny.en"
    stream = join_english(CONTINUOUS_S)
    soundfile.write(path, stream.audio, SAMPLE_RATE_HZ)
    path.with_suffix(".txt").write_text(stream.text, encoding="utf-8")
    loops = arguments.loops or math.ceil(7200 / stream.seconds)
    with caption_engine(model) as (_, engine):
        return {"models": [model], **hour(path, engine, loops=loops)}


def first_minute(path: Path) -> Path:
    """The stream's first 60 s as a file of its own, without its text."""
    short = path.with_name("first-minute.flac")
    soundfile.write(short, np.asarray(load_audio(path)[: 60 * SAMPLE_RATE_HZ]), SAMPLE_RATE_HZ)
    return short


def told(done: int, total: int) -> None:
    """Log how far it is, in seconds of audio."""
    logger.info("%d of %d s", done, total)


FUNCTIONS = {
    "paired": paired,
    "reading": read_aloud,
    "same": same,
    "cost": cost,
    "live": live,
    "hour": looped,
    "soak": soaked,
    "policies": policies,
    "continuous": continuous,
    "watch": watch,
}


def measure(what: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One part, with what it was measured on."""
    about = {
        "model": arguments.model,
        "weights": mark_of(folder_of(arguments.model)),
        "threads": arguments.threads if what == "live" else 1,
        "minutes": arguments.minutes,
        "note": arguments.note,
        "machine": this_machine().label,
        "versions": package_versions(("onnxruntime", "numpy")),
    }
    begin_s = time.perf_counter()
    found = FUNCTIONS[what](arguments)
    logger.info("%s: %.0f s", what, time.perf_counter() - begin_s)
    return about | found | {"key": key(arguments)}


def folder_of(model: str) -> Path:
    """Where a model's weights are; those of the bundled one for a name."""
    return Path(model) if Path(model).is_dir() else MICRO


def key(arguments: argparse.Namespace) -> str:
    """Changes with the code, the model and the stream."""
    model = folder_of(arguments.model)
    files = [
        *(program for folder in SOURCES for program in folder.rglob("*.py")),
        *(path for path in model.rglob("*") if path.is_file()),
        arguments.audio,
    ]
    stated = (arguments.model, arguments.threads, arguments.loops, arguments.buffers)
    return key_of(files, *stated)
