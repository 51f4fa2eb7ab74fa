"""Audio that is captioned to its end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tests.fakes.scripted_speech import Loudness, quick
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions


def run(
    audio: FloatArray,
    recognizer: Any,
    options: CaptionOptions | None = None,
    sizes: Sequence[int] = (3200,),
) -> tuple[list[Event], Captioner]:
    ticks = itertools.count()
    captioner = Captioner(
        recognizer, Loudness(), options or quick(), now=lambda: next(ticks) / 100
    )
    events: list[Event] = []
    at = 0
    for size in itertools.cycle(sizes):
        if at >= audio.size:
            break
        events += captioner.feed(audio[at : at + size])
        at += size
    events += captioner.finish()
    return events, captioner


def completed(events: Sequence[Event]) -> list[Completed]:
    return [event for event in events if isinstance(event, Completed)]


def texts(events: Sequence[Event]) -> str:
    return " ".join(event.text for event in completed(events))
