"""Recordings, encoders and an engine that are made up, for tests of transcription."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fakes.model_sizes import toy_spec
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray, Segment
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import Steps
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.schedule import (
    Schedule,
    WindowSource,
    transcribe_in_order,
)
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import (
    Context,
    Encoded,
    WindowRequest,
    WindowResult,
)

PLAN = WindowPlan(window_s=2.0, margin_s=1.0)
WAIT_S = 10


@dataclass
class Encoder:
    """Gives each window's loudness; notes where it ran; waits or fails on request."""

    threads: list[str] = field(default_factory=list)
    ready: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    fail_at: int = -1
    spec = toy_spec()

    def encode(self, mel: FloatArray) -> FloatArray:
        self.threads.append(threading.current_thread().name)
        self.ready.release()
        if len(self.threads) == self.fail_at:
            raise DeviceError("the chip went away; try again")
        return mel.max(axis=(1, 2), keepdims=True)


@dataclass
class Interpreter:
    """Says a window's start; with `waits`, only once the encoder has begun the one after."""

    encoder: Encoder
    n_windows: int = 0
    waits: bool = False
    n_begun: int = 0
    n_encoded: list[int] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    batch_key: str = ""

    def context(self) -> Context:
        return Context("en")

    def decode_windows(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> Steps[list[WindowResult]]:
        yield from ()
        return self.transcribe(encoded, requests)

    def transcribe(
        self, encoded: Encoded, requests: Sequence[WindowRequest]
    ) -> list[WindowResult]:
        audio_features = encoded.features
        assert audio_features is not None
        assert len(audio_features) == len(requests)
        self.heard += audio_features[:, 0, 0].tolist()
        while self.waits and self.n_begun < min(len(self.heard) + 1, self.n_windows):
            assert self.encoder.ready.acquire(timeout=WAIT_S), (
                "nothing was encoded ahead"
            )
            self.n_begun += 1
        self.n_encoded.append(len(self.encoder.threads))
        with encoded.clock.stage("decode"):
            return [_result(request.window) for request in requests]


def _result(window: Window) -> WindowResult:
    text = f"{window.start_s:g}"
    segment = Segment(window.start_s, window.end_s, text, (1,), 0.0, 0.0)
    return WindowResult(
        window, Decoded((1,), 0.0, 0.0, runaway=False), (segment,), window.content_s
    )


def noise(seconds: int, seed: int = 0) -> FloatArray:
    """Every second louder than the one before."""
    noise = np.random.default_rng(seed).standard_normal(16_000 * seconds)
    return (noise * np.repeat(np.arange(1, seconds + 1), 16_000) / 100).astype(
        np.float32
    )


def run(
    sources: Sequence[Any],
    encoder: Encoder,
    interpreter: Interpreter,
    strategy: str = "consecutive",
    *,
    ahead: bool = True,
    batch_size: int = 1,
    progress: Any = None,
) -> Iterator[Recording]:
    stages = Stages(encoder, interpreter, PLAN)  # type: ignore[arg-type]
    recordings = (recording_of(source, strategy) for source in sources)
    return transcribe_in_order(
        recordings,
        lambda source: Schedule(
            source, stages, batch_size, progress, encode_ahead=ahead
        ),
    )


def recording_of(
    source: Any,
    strategy: str = "consecutive",
    priority: int = 0,
    kind: type = Recording,
) -> Any:
    long = LongOptions(strategy=strategy, skip_silence=False)
    return kind(source, Context("en"), PLAN, DecodingOptions(), long, priority=priority)


def texts(outcomes: Iterator[Recording]) -> list[list[str]]:
    return [
        [] if outcome.failure else [segment.text for segment in outcome.segments]
        for outcome in outcomes
    ]


@dataclass
class Chip(Encoder, Closing):
    """Works by itself: what it is given is not looked at before the result is asked for."""

    order: list[str] = field(default_factory=list)
    name = "chip"
    n_frames = 200

    def close(self) -> None:
        """Nothing is held."""

    def encode_async(self, mel: FloatArray) -> Any:
        self.order.append("begun")
        return ChipRun(self, mel)


@dataclass
class ChipRun:
    chip: Chip
    mel: FloatArray
    took_ms: float = 31.4

    def result(self) -> FloatArray:
        self.chip.order.append("asked")
        return self.chip.encode(self.mel)


class Growing(WindowSource):
    """Recordings that come when so many windows are transcribed; a live one does not wait."""

    def __init__(
        self, engine: Interpreter, coming: list[tuple[int, Recording]]
    ) -> None:
        self._engine = engine
        self._coming = coming

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        for index, (after, recording) in enumerate(self._coming):
            here = idle or len(self._engine.heard) >= after
            if here and (n_free or recording.priority < 0):
                return self._coming.pop(index)[1]
        return None

    def rows(self, most: int) -> int:
        return most

    def wait(self, coming: Future[Any]) -> bool:
        wait((coming,))
        return True


class AtOnce(WindowSource):
    """Recordings of many clients, whatever room there is."""

    def __init__(self, coming: list[Recording]) -> None:
        self.coming = coming

    def next(self, *, n_free: int, idle: bool) -> Recording | None:
        del n_free, idle
        return self.coming.pop(0) if self.coming else None

    def rows(self, most: int) -> int:
        return most

    def wait(self, coming: Future[Any]) -> bool:
        wait((coming,))
        return True


class RecordingEncoder(Closing):
    """An encoder that notes what it is given."""

    def __init__(self, encoder: object, n_frames: int | None = None) -> None:
        self._encoder = encoder
        self.n_frames = n_frames
        self.shapes: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._encoder, name)

    def encode(self, mel: FloatArray) -> FloatArray:
        self.shapes.append(mel.shape)
        features: FloatArray = self._encoder.encode(mel)  # type: ignore[attr-defined]
        return features
