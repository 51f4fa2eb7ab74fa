"""Recordings of several kinds, and who hears them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.unit.cli.commands.test_transcribe_options import Heard, Listener, said
from whisper_hailo.audio.stream import ChannelOf
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.options import LongOptions


@dataclass
class Many(Listener):
    """Hears several at once, too, and fails where it is told to.

    Attributes:
        failing: stems of recordings, and the numbers of channels.
        opened: what happened to it, in order.
        together: what was asked of several.
        before_progress: called before it reports how far it is.
    """

    failing: dict[object, Exception] = field(default_factory=dict)
    opened: list[object] = field(default_factory=list)
    together: list[tuple[DecodingOptions, LongOptions | None, int | None]] = field(
        default_factory=list
    )
    refusal: Exception | None = None
    before_progress: Callable[[], None] = field(default=lambda: None)

    def __enter__(self) -> Many:
        self.opened.append("open")
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.append("closed")

    def check(self, options: DecodingOptions, long: LongOptions) -> None:
        self.opened.append(("checked", options, long))
        if self.refusal is not None:
            raise self.refusal

    def segments(self, source: Any, *given: Any, **named: Any) -> Heard:
        if source.stem in self.failing:
            raise self.failing[source.stem]
        return super().segments(source, *given, **named)

    def transcribe_many(
        self,
        sources: Iterable[Any],
        options: DecodingOptions,
        progress: Any = None,
        *,
        long: LongOptions | None = None,
        batch_size: int | None = None,
        speakers: SpeakerOptions | None = None,
    ) -> Iterator[Transcript | Exception]:
        self.speakers = speakers
        self.together.append((options, long, batch_size))
        if progress is not None:
            self.before_progress()
            progress(100.0, 600.0)
        for source in sources:
            if isinstance(source, ChannelOf):
                text = replace(said().segments[0], start_s=1.0 - source.channel)
                found = replace(said(), segments=(text,))
                yield self.failing.get(source.channel, found)
            else:
                yield self.failing.get(source.stem, said())


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Many:
    monkeypatch.chdir(tmp_path)
    for name in ("a.wav", "b.wav", "c.wav"):
        (tmp_path / name).write_text("some sound")
    found = Many()
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: found)
    return found


@pytest.fixture
def stereo(many: Many, tmp_path: Path) -> Path:
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.zeros((1600, 2)), 16_000)
    return path
