"""What `caption` is tried with: sound that spells words, an recognizer that hears them, a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import soundfile

from tests.fakes.commands import given
from tests.fakes.scripted_speech import Loudness, Speller, silence, speech
from whisper_hailo.cli.app import run
from whisper_hailo.cli.commands import caption as module
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.sources.source import Block, Pace

SOUND = np.concatenate(
    [silence(0.5), speech([0, 1]), silence(1), speech([2, 3]), silence(1)]
)
FIRST = "w0 w1"
SECOND = "w2 w3"
LINES = f"{FIRST}\n{SECOND}\n"


@dataclass
class Made:
    """The stand-ins of a run.

    Attributes:
        recognizer: that hears.
        given: what the recognizer was asked for with.
        detectors: what they were made with.
    """

    recognizer: Speller = field(default_factory=Speller)
    given: list[tuple[Any, ...]] = field(default_factory=list)
    detectors: list[tuple[Any, ...]] = field(default_factory=list)


@pytest.fixture
def transcribed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files whose captions were their transcripts."""
    found: list[str] = []

    def caption_recording(request: module.CaptionRequest) -> int:
        found.append(str(request.audio))
        return 0

    monkeypatch.setattr(module, "caption_recording", caption_recording)
    return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Made:
    """Every file is captioned as a stream."""
    found = Made()
    monkeypatch.setattr(module.CaptionRequest, "takes_transcript", False)

    def recognizer(*given: Any) -> Speller:
        found.given.append(given)
        return found.recognizer

    def detector(*given: Any) -> Loudness:
        found.detectors.append(given)
        return Loudness()

    monkeypatch.setattr(module, "open_recognizer", recognizer)
    monkeypatch.setattr("whisper_hailo.audio.vad.make_detector", detector)
    monkeypatch.setattr(module, "release_freed_memory", lambda: None)
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", SOUND, 16_000, subtype="FLOAT")
    return found


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Page]:
    """Those that were made."""
    found: list[Page] = []

    def make(*given: Any, **named: Any) -> Page:
        found.append(Page(*given, **named))
        return found[-1]

    monkeypatch.setattr("whisper_hailo.serve.routes.captions.view.WebView", make)
    monkeypatch.setattr(
        "whisper_hailo.cli.caption_options.require_extra", lambda *_: None
    )
    return found


def caption(words: str = "") -> int:
    return run(["caption", "a.wav", *given(words, Path.cwd())])


@dataclass
class Endless:
    """Ends when it is closed, as a microphone does."""

    name: str = "microphone"
    pace: Pace = Pace.PULL
    endless: bool = True
    closed: bool = False
    before: Callable[[int], None] = lambda _: None
    failure: Exception | None = None

    def __enter__(self) -> Self:
        return self

    open = __enter__

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True

    def blocks(self) -> Iterator[Block]:
        for at, part in enumerate(np.array_split(SOUND.astype(np.float32), 100)):
            if self.closed:
                return
            self.before(at)
            yield Block(part)
        if self.failure is not None:
            raise self.failure


class Page:
    """Stands for the web page.

    Attributes:
        made: with what.
        events: that it was shown.
    """

    address = "http://127.0.0.1:8765/"
    address_for_others = ""
    address_to_control = "http://127.0.0.1:8765/?token=secret"

    def __init__(self, statistics: Callable[[], Any], place: Any, **named: Any) -> None:
        self.statistics = statistics
        self.made = (place, named)
        self.events: list[Any] = []
        self.heard: list[FloatArray] = []
        self.is_open = False

    def __enter__(self) -> Self:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def put(self, event: Any) -> None:
        assert self.is_open
        self.events.append(event)

    def put_audio(self, audio: FloatArray) -> None:
        self.heard.append(audio)
