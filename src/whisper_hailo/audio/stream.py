"""Audio files of any kind to `(n_samples,)` float32, 16 kHz, mono, in a stream.

libsndfile (through `soundfile`) reads WAV, FLAC, OGG (Vorbis and Opus), MP3, AIFF and AU; the rest
goes to FFmpeg (through PyAV, with the `media` extra) in another process. Channels are averaged,
unless they cancel each other out, then soxr resamples. Memory does not grow with the length of the
file.

Samples beyond [-1, 1] in float files are kept (Whisper does not clip either), and a file that
breaks off gives what could be decoded, with a warning. OGG files that were cut off look like
shorter ones and cannot warn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast

import numpy as np

from whisper_hailo.audio.files import open_file, open_seekable
from whisper_hailo.audio.mixing import ChannelMixer
from whisper_hailo.audio.readers import (
    AudioReader,
    BrokenOffError,
    open_reader,
    open_samples,
)
from whisper_hailo.core.errors import AudioError, OptionError, display_path
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import (
    SAMPLE_RATE_HZ,
    FloatArray,
    SampleArray,
    Timings,
    Transcript,
)

logger = logging.getLogger(__name__)

MIN_RATE_HZ: Final = 1_000
MAX_RATE_HZ: Final = 768_000


class Resampler:
    """Resamples mono audio to 16 kHz piece by piece."""

    def __init__(self, rate_hz: int) -> None:
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise OptionError(
                f"--rate is {rate_hz} Hz, expected {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz"
            )
        self._stream = None
        if rate_hz != SAMPLE_RATE_HZ:
            import soxr

            self._stream = soxr.ResampleStream(
                rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality="HQ"
            )

    def push(self, audio: FloatArray, *, last: bool = False) -> FloatArray:
        """Take `(n,)` samples and return those that are ready."""
        if self._stream is None:
            return audio
        resampled: FloatArray = self._stream.resample_chunk(audio, last=last)
        return resampled

    def finish(self) -> FloatArray:
        """Return the rest at the end."""
        return self.push(np.empty(0, np.float32), last=True)


@dataclass(frozen=True, slots=True)
class ChannelOf:
    """One channel of a file, from 0, in place of the mean of all.

    `name` replaces the file's own.
    """

    file: str | Path | BinaryIO
    channel: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """`(n_samples,)` or `(n_samples, n_channels)` samples of any rate."""

    samples: SampleArray
    sample_rate_hz: int


AudioSource: TypeAlias = str | Path | BinaryIO | SampleArray | Samples | ChannelOf
"""A path, an open binary file, one channel of these, samples of any rate, or samples of 16 kHz."""

_MAX_CHANNELS: Final = 64

_MAX_AMPLITUDE: Final = 2.0**31
"""Float files with samples in integer scale exist; nothing louder does."""

_TRUNCATED_S: Final = 0.5
"""What may be missing without a warning: MP3 lengths without a Xing header are estimates."""


class AudioStream(Closing):
    """An open audio file; made by `open_audio`, read once, closed by `close` or a `with` block.

    `n_channels` and `duration_s`, which is `None` if unknown, are those of the file's header. After
    the last block `warnings` has what is wrong with the file, without its name.
    """

    def __init__(
        self,
        reader: AudioReader,
        name: str,
        resources: ExitStack,
        channel: int | None = None,
    ) -> None:
        self.name = name
        self.n_channels = reader.n_channels
        self.warnings: list[str] = []
        self._label = display_path(name)
        self._rate_hz = reader.sample_rate_hz
        self._file_blocks = reader.blocks
        self._channel = channel
        self._is_started = False
        has_rate = MIN_RATE_HZ <= self._rate_hz <= MAX_RATE_HZ
        if not has_rate or not 1 <= self.n_channels <= _MAX_CHANNELS:
            raise AudioError(
                f"{self._label} has {self.n_channels} channel(s) of {self._rate_hz} Hz, expected "
                f"1 to {_MAX_CHANNELS} of {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz; its header may be "
                "broken: export it again, or mix it down"
            )
        if channel is not None and channel >= self.n_channels:
            raise AudioError(
                f"{self._label} has {self.n_channels} channel(s), channel {channel + 1} was "
                "requested; "
                "leave out --channels split"
            )
        n_frames = reader.n_frames
        self.duration_s = None if n_frames is None else n_frames / self._rate_hz
        # Last: if this constructor raises, the caller's block closes the resources.
        self._resources = resources.pop_all()

    def blocks(self, n_samples: int) -> Iterator[FloatArray]:
        """Yield `(n_samples,)` float32 mono at 16 kHz once, in order; the last one may be shorter.

        Raises:
            AudioError: no samples, a sample that is not a number or absurdly large, or read before.
        """
        if self._is_started:
            raise AudioError(f"{self._label} has already been read; open it again")
        self._is_started = True
        block = np.empty(n_samples, dtype=np.float32)
        n_filled = 0
        for piece in self._resampled():
            n_used = 0
            while n_used < piece.size:
                n_new = min(n_samples - n_filled, piece.size - n_used)
                block[n_filled : n_filled + n_new] = piece[n_used : n_used + n_new]
                n_filled += n_new
                n_used += n_new
                if n_filled == n_samples:
                    yield block
                    # The reader keeps the last one.
                    block = np.empty(n_samples, dtype=np.float32)
                    n_filled = 0
        if n_filled:
            yield block[:n_filled]

    def _resampled(self) -> Iterator[FloatArray]:
        """Yield mono pieces of any size at 16 kHz."""
        resampler = Resampler(self._rate_hz)
        is_empty = True
        piece = np.empty(0, dtype=np.float32)
        for piece in self._mono():
            resampled = resampler.push(piece)
            if resampled.size:
                is_empty = False
            yield resampled
        tail = resampler.finish()
        if is_empty and not tail.size:
            tail = piece[:1]  # the recording is shorter than one sample of 16 kHz
        yield tail

    def _mono(self) -> Iterator[FloatArray]:
        """Yield checked mono pieces at the file's own rate."""
        mixer = ChannelMixer(self._label)
        n_frames = 0
        fault = ""
        try:
            for block in self._file_blocks:
                self._check_samples(block, n_frames)
                n_frames += block.shape[0]
                if self._channel is None:
                    yield mixer.mix(block)
                else:
                    yield np.ascontiguousarray(block[:, self._channel])
        except BrokenOffError as error:
            fault = str(error)
        if n_frames == 0:
            reason = f"cannot be decoded ({fault})" if fault else "holds no samples"
            raise AudioError(
                f"{self._label} {reason}, expected sound; record or export the file again"
            )
        self._warn_if_truncated(n_frames / self._rate_hz, fault)

    def _warn_if_truncated(self, read_s: float, fault: str) -> None:
        """Warn if reading ended in a fault, or before the duration of the header."""
        expected = ""
        if self.duration_s is not None:
            expected = f" of {self.duration_s:.1f} s"
            if read_s < self.duration_s - _TRUNCATED_S:
                fault = fault or "truncated"
        if fault:
            warning = f"breaks off after {read_s:.1f} s{expected} ({fault})"
            self.warnings.append(warning)
            logger.warning(
                "%s %s; only the audio before that is used", self._label, warning
            )

    def _check_samples(self, block: FloatArray, n_before: int) -> None:
        # So NaN is bad too: no comparison holds.
        is_bad = ~(np.abs(block) <= _MAX_AMPLITUDE)
        if not is_bad.any():
            return
        frame, channel = np.argwhere(is_bad)[0]
        time_s = (n_before + frame) / self._rate_hz
        raise AudioError(
            f"{self._label} has a sample of value {block[frame, channel]} at "
            f"{time_s:.3f} s (channel {channel + 1}), "
            "expected numbers around [-1, 1]; fix the program that wrote it, "
            "or set such samples to zero"
        )

    def close(self) -> None:
        self._resources.close()


def audio_name(file: str | Path | BinaryIO) -> str:
    """Return the name of a file; standard input's is in brackets."""
    if isinstance(file, str | Path):
        return str(file)
    name = getattr(file, "name", None)
    return name.strip("<>") if isinstance(name, str) else "audio"


def open_audio(source: AudioSource, name: str | None = None) -> AudioStream:
    """Open an audio file and read its header.

    A binary file stays the caller's and is read from its start; a pipe is copied to a temporary
    file. The name is for messages, by default the path or the file's own.

    Raises:
        AudioError: missing, not permitted, empty, broken, of absurd rates or other shapes.
    """
    channel = None
    if isinstance(source, ChannelOf):
        channel = source.channel
        name = name or source.name
        source = source.file
    if isinstance(source, np.ndarray):
        source = Samples(source, SAMPLE_RATE_HZ)
    with ExitStack() as resources:
        if isinstance(source, Samples):
            name = name or "array"
            reader = open_samples(
                source.samples, display_path(name), source.sample_rate_hz
            )
        elif isinstance(source, str | Path) or hasattr(source, "read"):
            name = name or audio_name(source)
            label = display_path(name)
            reader = open_reader(open_file(source, label, resources), label, resources)
        else:
            raise AudioError(
                f"audio is a {type(source).__name__}, expected a path, an open binary file or an "
                "array; several recordings go to transcribe_many"
            )
        return AudioStream(reader, name, resources, channel)


def load_audio(source: AudioSource) -> FloatArray:
    """Read a whole audio file as `(n_samples,)` float32 mono at 16 kHz, at least one sample."""
    with open_audio(source) as stream:
        return np.concatenate(list(stream.blocks(SAMPLE_RATE_HZ)))


@contextmanager
def open_repeatedly(source: AudioSource) -> Iterator[Callable[[], AudioStream]]:
    """Yield what opens a source, any number of times in the block: a pipe is copied once."""
    with ExitStack() as resources:
        if isinstance(source, ChannelOf):
            name = source.name or audio_name(source.file)
            seekable = open_seekable(source.file, display_path(name), resources)
            yield partial(open_audio, replace(source, file=seekable), name)
        elif isinstance(source, str | Path) or hasattr(source, "read"):
            file = cast(str | Path | BinaryIO, source)
            name = audio_name(file)
            seekable = open_seekable(file, display_path(name), resources)
            yield partial(open_audio, seekable, name)
        else:
            yield partial(open_audio, source)


@contextmanager
def split_channels(file: str | Path | BinaryIO) -> Iterator[list[ChannelOf]]:
    """Yield the channels of a file, two or more, which is open in the block."""
    name = audio_name(file)
    with ExitStack() as resources:
        seekable = open_seekable(file, display_path(name), resources)
        with open_audio(seekable, name) as stream:
            n_channels = stream.n_channels
        if n_channels < 2:
            raise AudioError(
                f"{display_path(name)} has 1 channel, --channels split takes 2 or more; use mix"
            )
        yield [ChannelOf(seekable, channel, name) for channel in range(n_channels)]


def merge_channels(transcripts: Sequence[Transcript]) -> Transcript:
    """Merge the transcripts of channels, in order of time, as speakers."""
    first = transcripts[0]
    segments = [
        replace(segment, speaker=channel)
        for channel, transcript in enumerate(transcripts)
        for segment in transcript.segments
    ]
    segments.sort(key=lambda segment: (segment.start_s, segment.end_s))
    timings = {
        field.name: sum(
            getattr(transcript.timings, field.name) for transcript in transcripts
        )
        for field in fields(Timings)
    }
    # The model was loaded once for all channels.
    timings["load_ms"] = first.timings.load_ms
    return replace(
        first,
        duration_s=max(transcript.duration_s for transcript in transcripts),
        segments=tuple(segments),
        timings=Timings(**timings),
    )
