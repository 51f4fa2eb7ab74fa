"""Parts of the measurement, each a result of its own."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.captions.hour import caption_with_faults
from whisper_hailo_lab.captions.policies import (
    CONTINUOUS_S,
    caption_continuously,
    caption_engine,
    compare_policies,
    join_english,
)
from whisper_hailo_lab.captions.soak.outcome import score_soak
from whisper_hailo_lab.captions.soak.part import run_soak
from whisper_hailo_lab.captions.stream import warm_engine, write_conversation
from whisper_hailo_lab.repository import MICRO
from whisper_hailo_lab.runs.machine import package_versions, this_machine
from whisper_hailo_lab.runs.results import mark_weights

WATCH_MODEL: Final = "tiny.en"
WATCH_S: Final = 7200.0
HOUR_S: Final = 3600.0


def measure_hour(arguments: argparse.Namespace) -> dict[str, Any]:
    """Caption a synthetic conversation for an hour, or for some loops, with faults."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_conversation(Path(folder) / "conversation.flac", arguments.minutes)
        seconds = load_audio(path).size / SAMPLE_RATE_HZ
        loops = arguments.loops or math.ceil(HOUR_S / seconds)
        with warm_engine(arguments.model) as engine:
            return caption_with_faults(path, engine, loops=loops)


def measure_watch(arguments: argparse.Namespace) -> dict[str, Any]:
    """Caption recordings of people for two hours, or for some loops, with the same faults."""
    stream = join_english(CONTINUOUS_S)
    loops = arguments.loops or math.ceil(WATCH_S / stream.seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.flac"
        soundfile.write(path, stream.audio, SAMPLE_RATE_HZ)
        path.with_suffix(".txt").write_text(stream.text, encoding="utf-8")
        with caption_engine(WATCH_MODEL) as (_, engine):
            result = caption_with_faults(path, engine, loops=loops)
    return {"models": [WATCH_MODEL]} | result


def measure_soak(arguments: argparse.Namespace) -> dict[str, Any]:
    """Caption a microphone in real time, with one fault a minute."""
    with ExitStack() as stack:
        folder = arguments.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory())
        )
        if not (folder / "diary.jsonl").exists():
            run_soak(arguments.model, arguments.soak, folder)
        return score_soak(folder, arguments.model)


def measure_policies(_arguments: argparse.Namespace) -> dict[str, Any]:
    """Caption recordings of people, beside transcripts of the whole recordings."""
    return compare_policies()


def measure_continuous(_arguments: argparse.Namespace) -> dict[str, Any]:
    """Caption half an hour of recordings of people, on slower cores as well."""
    return caption_continuously()


PARTS: Final[dict[str, Callable[[argparse.Namespace], dict[str, Any]]]] = {
    "hour": measure_hour,
    "soak": measure_soak,
    "policies": measure_policies,
    "continuous": measure_continuous,
    "watch": measure_watch,
}


def measure_part(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the result of one part with its origin."""
    checkpoint = Path(arguments.model)
    about = {
        "model": arguments.model,
        "weights": mark_weights(checkpoint if checkpoint.is_dir() else MICRO),
        "threads": 1,
        "minutes": arguments.minutes,
        "note": arguments.note,
        "machine": this_machine().label,
        "versions": package_versions(("onnxruntime", "numpy")),
    }
    return about | PARTS[name](arguments)
