"""Where live audio comes from: files, raw PCM, microphones, network streams."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import numpy as np

from whisper_hailo.audio import AudioStream, open_audio
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.flac import recorded_s
from whisper_hailo.live.reopened import ADDRESS_PATIENCE_S, ReopenedSource
from whisper_hailo.live.source import BLOCK_S, AudioSource, Block, Pace, Resampler
from whisper_hailo.live.voices import SplitStream

_FILES: Final = {
    "a WAV file": re.compile(rb"RIFF|RF64"),
    "a FLAC file": re.compile(rb"fLaC"),
    "an OGG file": re.compile(rb"OggS"),
    "an MP3 file": re.compile(rb"ID3[\x02-\x04]|\xff[\xfb\xf3\xf2][\x10-\xeb]"),
    "an MP4 or M4A file": re.compile(rb"....ftyp", re.DOTALL),
    "a Matroska or WebM file": re.compile(rb"\x1aE\xdf\xa3"),
    "an AIFF file": re.compile(rb"FORM....AIF", re.DOTALL),
    "a CAF file": re.compile(rb"caff\x00"),
}
"""How files of sound begin."""

_LOOK_MS: Final = 100
"""So often a pipe that nothing comes from is left, to see whether it is still wanted."""


class FileSource(Closing):
    """A recording, as fast as it can be heard or at the speed at which it was spoken.

    Args:
        path: an audio file of any format and rate.
        real_time: play it in real time.
        loops: how often it is played.
        split: each channel is a speaker.
        block_s: length of its pieces.
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
        block_s: float = BLOCK_S,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = str(path)
        self.pace = Pace.AHEAD if real_time else Pace.ASKED
        self._real_time = real_time
        self._path = path
        self._loops = loops
        self._split = split
        self._block = max(1, round(block_s * SAMPLE_RATE_HZ))
        self._now = now
        self._sleep = sleep
        self._closed = False
        self._recorded_s: float | None = None
        self._ready: list[AudioStream | SplitStream] = []  # whoever takes it out closes it

    def open(self) -> Self:
        """Open the file, once: a pipe comes but once.

        Raises:
            AudioError: it is none that can be heard, or has one channel that is to be split.
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
        """Its sound, and who is heard in it where that is asked for."""
        if isinstance(stream, SplitStream):
            yield from (Block(audio, voices=voices) for audio, voices in stream.blocks(self._block))
        else:
            yield from map(Block, stream.blocks(self._block))

    def blocks(self) -> Iterator[Block]:
        """Pieces of the file; in real time, each when its last sample would have been spoken."""
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
        """End at the next piece."""
        self._closed = True
        with suppress(IndexError):
            self._ready.pop().close()


class PcmSource(Closing):
    """Raw 16-bit little-endian mono samples, such as `arecord` or `ffmpeg` write to a pipe.

    Args:
        descriptor: file descriptor to read; 0 is standard input.
        rate_hz: rate of the samples.
        name: for messages.
    """

    pace = Pace.AHEAD
    endless = True

    def __init__(
        self, descriptor: int = 0, rate_hz: int = SAMPLE_RATE_HZ, name: str = "standard input"
    ) -> None:
        self.name = name
        self._descriptor = descriptor
        self._resampler = Resampler(rate_hz)
        self._closed = False

    def open(self) -> Self:
        return self

    def blocks(self) -> Iterator[Block]:
        """What comes, as soon as it comes."""
        odd, begun = b"", False
        coming = select.poll()
        coming.register(self._descriptor, select.POLLIN)
        while not self._closed:
            if not coming.poll(_LOOK_MS):
                continue
            try:
                raw = os.read(self._descriptor, 1 << 16)
            except OSError as error:
                raise AudioError(
                    f"{self.name} cannot be read ({error.strerror}); pipe raw 16-bit samples in"
                ) from error
            if not raw:
                break
            captured_s = time.perf_counter()
            if not begun:
                begun = True
                _expect_samples(raw, self.name)
            data = odd + raw
            odd = data[len(data) & ~1 :]
            samples = np.frombuffer(data[: len(data) & ~1], dtype="<i2")
            audio = self._resampler.push(samples.astype(np.float32) / 32768.0)
            if audio.size:
                yield Block(audio, captured_s)
        rest = self._resampler.finish()
        if rest.size:
            yield Block(rest)

    def close(self) -> None:
        """End soon, whether something comes or not."""
        self._closed = True


def _expect_samples(begin: bytes, name: str) -> None:
    """Refuse a file where samples are expected: it would be heard as noise, or as silence.

    Raises:
        AudioError: so it begins.
    """
    kind = next((kind for kind, first in _FILES.items() if first.match(begin)), None)
    if kind is not None:
        raise AudioError(
            f"{name} begins as {kind}, expected raw 16-bit mono samples; name the file, or pipe it "
            "through ffmpeg -i - -f s16le -ac 1 -ar 16000 -"
        )


def open_source(
    what: str | None,
    *,
    microphone: str | None = None,
    real_time: bool = False,
    rate_hz: int = SAMPLE_RATE_HZ,
    loops: int = 1,
    patience_s: float | None = None,
    split: bool = False,
) -> AudioSource:
    """The source that a command line names.

    Args:
        what: a file, `-` for raw PCM on standard input, or an address such as `rtsp://...`.
        microphone: number or part of the name of an input device; empty is the default one.
        real_time: play a recording at the speed at which it was spoken.
        rate_hz: of raw PCM.
        loops: how often a file is played.
        patience_s: how long a microphone or an endless stream may be away before it has failed;
            `None`: a microphone for ever, a stream for `ADDRESS_PATIENCE_S`.
        split: each channel of a file or a microphone is a speaker.

    Raises:
        OptionError: none of them, or several.
    """
    if (what is None) == (microphone is None):
        raise OptionError("give one of: a FILE, - for raw PCM, an address, or --mic DEVICE")
    if what is None:
        from whisper_hailo.live.microphone import MicrophoneSource

        return ReopenedSource(MicrophoneSource(microphone or "", split=split), patience_s)
    if what == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise OptionError("standard input is a terminal; pipe raw 16-bit mono samples in")
        return PcmSource(sys.stdin.fileno(), rate_hz)
    if "://" in what:
        from whisper_hailo.live.network import NetworkSource

        patience_s = ADDRESS_PATIENCE_S if patience_s is None else patience_s
        return ReopenedSource(NetworkSource(what), patience_s)
    return FileSource(what, real_time=real_time, loops=loops, split=split)
