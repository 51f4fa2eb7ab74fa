"""Outputs that are retried when a disk is full or a reader is gone: of events, and of the audio."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio.flac import FlacBytes
from whisper_hailo.core.errors import OptionError, OutputError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.timing import Backoff
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.events import Event, Partial
from whisper_hailo.live.outputs.files import CaptionFile, EventFile
from whisper_hailo.live.outputs.growing_file import GrowingFile, Rotation
from whisper_hailo.live.sources.source import AudioSource, Block
from whisper_hailo.live.sources.wrappers import SourceAround

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 20_000
"""Events that wait for a sink, partials not among them: those of a day, some 20 MiB."""

MAX_WAITING_S: Final = 600.0
"""Sound that waits until there is room for it: 19 MB."""

_MOST_SILENCE_S: Final = 600.0
"""A source that was away for longer is recorded in a new file."""

_SYNC_S: Final = 5.0
"""So much a power cut may take."""


class EventSink(Protocol):
    """Takes the events of one stream in their order, or raises `OutputError`."""

    def put(self, event: Event) -> None: ...


class _RetriedOutput(Closing):
    """An output whose failures are retried with growing waits, while captions go on.

    A failure on closing never hides an earlier error.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._wait = Backoff(now)

    def _try(self, name: str, step: Callable[[], None]) -> bool:
        """Run a step, unless its back-off has not passed yet; return whether it succeeded."""
        if not self._wait.is_over:
            return False
        try:
            step()
        except OutputError as error:
            if not self._wait.n_failures:
                logger.warning("%s; captions go on, and it is tried again", error)
            self._wait.fail()
            return False
        if self._wait.n_failures:
            logger.warning("%s is written again", name)
            self._wait.succeed()
        return True

    def __exit__(self, *exc_info: object) -> None:
        try:
            self.close()
        except OutputError as error:
            if exc_info[1] is None:
                raise
            logger.warning("%s", error)


class RetriedSink(_RetriedOutput):
    """A file that is opened, closed and retried; meanwhile events wait, except partials."""

    def __init__(
        self, sink: EventFile | CaptionFile, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(now)
        self._sink = sink
        self._waiting: deque[Event] = deque()
        self._n_dropped = 0

    def open(self) -> Self:
        self._sink.open()
        return self

    def put(self, event: Event) -> None:
        """Take an event, even while the sink fails."""
        self._waiting.append(event)
        if self._try(self._sink.name, self._write):
            return
        if isinstance(self._waiting[-1], Partial):
            self._waiting.pop()  # later events replace it
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._n_dropped += 1

    def close(self) -> None:
        """Write what waits, for the last time; raise an error that counts the missing events."""
        why = f"{self._sink.name} could not be written for too long"
        try:
            self._write()
        except OutputError as error:
            why = str(error)
        self._sink.close()
        n_lost = len(self._waiting) + self._n_dropped
        self._waiting.clear()
        self._n_dropped = 0
        if n_lost:
            raise OutputError(f"{why}; {n_lost} events are not in it")

    def _write(self) -> None:
        while self._waiting:
            self._sink.put(self._waiting[0])
            self._waiting.popleft()


class _FlacFile(GrowingFile):
    """A FLAC file; rotation begins another one with a new encoder, not between two records."""

    def __init__(self, path: Path, rotation: Rotation | None) -> None:
        super().__init__(path, "flac", rotation)

    def _is_full(self, n_bytes: int) -> bool:
        del n_bytes
        return False

    def is_due(self) -> bool:
        """Return whether to begin another file."""
        return super()._is_full(0)


class FlacRecording(_RetriedOutput):
    """Writes the audio of a source into a FLAC file, 16 kHz mono, on the captions' timeline.

    It can be read whenever the program is killed; lost audio is silence in it. On a full disk audio
    waits for `MAX_WAITING_S`. Each run has files of its own.
    """

    def __init__(
        self,
        path: Path,
        rotation: Rotation | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if path.suffix.lower() != ".flac":
            raise OptionError(
                f"--record is {display_path(path)}, expected a name that ends in .flac"
            )
        super().__init__(now)
        self.file = _FlacFile(path, rotation)
        self._flac: FlacBytes | None = None
        self._waiting: deque[NDArray[np.int16]] = deque()
        self._n_waiting = 0
        self._n_lost = 0
        self._torn = False  # what waits does not follow what was written
        self._now = now
        self._synced_s = now()

    def open(self) -> Self:
        self.file.open()
        return self

    def put(self, block: Block) -> None:
        """Take a block of the stream, and what is missing behind it."""
        self._add(np.rint(np.clip(block.audio, -1.0, 1.0) * 32767.0).astype(np.int16))
        away = block.interruption.n_samples if block.interruption is not None else 0
        if away > _MOST_SILENCE_S * SAMPLE_RATE_HZ:
            self._try(self.file.name, self._finish_part)
        else:
            self._add(np.zeros(block.n_lost + away, np.int16))

    def close(self) -> None:
        """Write the rest; raise an error that says how much could not be written."""
        try:
            self._write()
            self._finish_part()
        except OutputError as error:
            self._n_lost += self._n_waiting
            raise self._missing(str(error)) from error
        finally:
            self.file.close()
        if self._n_lost:
            raise self._missing(f"{self.file.name} could not be written for too long")

    def _missing(self, why: str) -> OutputError:
        lost_s = self._n_lost / SAMPLE_RATE_HZ
        return OutputError(f"{why}; {lost_s:.1f} s of sound are not in it")

    def _add(self, samples: NDArray[np.int16]) -> None:
        if not samples.size:
            return
        self._waiting.append(samples)
        self._n_waiting += samples.size
        while self._n_waiting > MAX_WAITING_S * SAMPLE_RATE_HZ and len(self._waiting) > 1:
            gone = self._waiting.popleft().size
            self._n_waiting -= gone
            self._n_lost += gone
            self._torn = True
        self._try(self.file.name, self._write)

    def _write(self) -> None:
        """Encode and write what waits; what was not encoded goes on waiting if that fails."""
        if self._torn or self.file.is_due():
            self._finish_part()
            self._torn = False
        while self._waiting:
            self._write_fresh()
            if self._flac is None:
                self._flac = FlacBytes()
            samples = self._waiting.popleft()
            self._n_waiting -= samples.size
            self._flac.add(samples)
        self._write_fresh()

    def _write_fresh(self) -> None:
        flac = self._flac
        if flac is None or not flac.fresh:
            return
        durable = self._now() - self._synced_s >= _SYNC_S
        try:
            self.file.append(bytes(flac.fresh), durable=durable)
        except OutputError:
            if not self.file.has_begun:
                self._flac = None  # the file is gone, and another begins with a header
            raise
        if durable:
            self._synced_s = self._now()
        flac.note_written()

    def _finish_part(self) -> None:
        flac = self._flac
        if flac is None:
            return
        flac.finish()
        self._write_fresh()
        for at, data in flac.patches:
            self.file.patch(at, data)
        self._flac = None
        self.file.begin_anew()


class RecordedSource(SourceAround):
    """A source whose audio is recorded as it is read."""

    def __init__(self, source: AudioSource, recording: FlacRecording) -> None:
        super().__init__(source)
        self._recording = recording

    def blocks(self) -> Iterator[Block]:
        for block in self._source.blocks():
            self._recording.put(block)
            yield block
