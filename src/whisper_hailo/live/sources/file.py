"""A recording as a source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import numpy as np

from whisper_hailo.audio import AudioStream, open_audio
from whisper_hailo.audio.flac import recorded_s
from whisper_hailo.audio.stream import split_channels
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.sources.source import BLOCK_S, Block, LoudestChannel, Pace, Voices, voices

_BLOCK: Final = round(BLOCK_S * SAMPLE_RATE_HZ)


class FileSource(Closing):
    """A recording, as fast as possible or at the speed of speech.

    Args:
        path: an audio file of any format and rate.
        real_time: play it in real time.
        loops: how often it is played.
        split: each channel is a speaker.
        now: clock; `sleep` waits on it.
    """

    endless = False

    def __init__(
        self,
        path: str | Path,
        *,
        real_time: bool = False,
        loops: int = 1,
        split: bool = False,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = str(path)
        self.pace = Pace.BUFFERED if real_time else Pace.PULL
        self._real_time = real_time
        self._path = path
        self._loops = loops
        self._split = split
        self._now = now
        self._sleep = sleep
        self._closed = False
        self._recorded_s: float | None = None
        self._ready: list[AudioStream | SplitStream] = []  # the consumer closes it

    def open(self) -> Self:
        """Open the file, once: a pipe can only be read once.

        Raises:
            AudioError: it cannot be decoded, or has one channel that is to be split.
        """
        self._ready.append(self._opened())
        if Path(self._path).is_file():
            self._recorded_s = recorded_s(Path(self._path))
        return self

    def _stream(self) -> AudioStream | SplitStream:
        try:
            return self._ready.pop()
        except IndexError:
            return self._opened()

    def _opened(self) -> AudioStream | SplitStream:
        return SplitStream(self._path).open() if self._split else open_audio(self._path)

    def _pieces(self, stream: AudioStream | SplitStream) -> Iterator[Block]:
        """Yield its audio, with speakers where they are wanted."""
        if isinstance(stream, SplitStream):
            yield from (Block(audio, voices=heard) for audio, heard in stream.blocks(_BLOCK))
        else:
            yield from map(Block, stream.blocks(_BLOCK))

    def blocks(self) -> Iterator[Block]:
        """Yield blocks; in real time, each when its last sample would have been said."""
        begin_s, n_samples = self._now(), 0
        for _ in range(self._loops):
            if self._closed:
                return
            with self._stream() as stream:
                for heard in self._pieces(stream):
                    if self._closed:
                        return
                    n_samples += heard.audio.size
                    piece = replace(heard, recorded_s=self._recorded_s)
                    self._recorded_s = None
                    if not self._real_time:
                        yield piece
                        continue
                    due_s = begin_s + n_samples / SAMPLE_RATE_HZ
                    wait_s = due_s - self._now()
                    if wait_s > 0:
                        self._sleep(wait_s)
                    yield replace(piece, captured_s=due_s)

    def close(self) -> None:
        """End at the next block."""
        self._closed = True
        with suppress(IndexError):
            self._ready.pop().close()


class SplitStream(Closing):
    """A recording, mixed down, with the loudest channel of each block."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._stack = ExitStack()
        self._streams: list[AudioStream] = []

    def open(self) -> Self:
        """Open the recording, once for each channel.

        Raises:
            AudioError: it cannot be decoded, or has one channel only.
        """
        channels = self._stack.enter_context(split_channels(self._path))
        self._streams = [self._stack.enter_context(open_audio(channel)) for channel in channels]
        return self

    def close(self) -> None:
        self._stack.close()

    def blocks(self, n_samples: int) -> Iterator[tuple[FloatArray, Voices]]:
        """Yield blocks of the mean of all channels, and their speakers."""
        loudest = LoudestChannel()
        for channels in zip(*(stream.blocks(n_samples) for stream in self._streams), strict=True):
            piece = np.stack(channels, axis=1)
            yield piece.mean(axis=1, dtype=np.float32), voices(loudest.of(piece), piece.shape[0])
