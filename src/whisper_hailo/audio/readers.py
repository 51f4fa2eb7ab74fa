"""Decoders of one audio file each: libsndfile, or FFmpeg in another process, which may crash.

They give the file's own rate and channels; `stream` makes 16 kHz mono of it.
"""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import numpy as np

from whisper_hailo.audio import decode
from whisper_hailo.audio.decode import READ_FRAMES, UNKNOWN_LENGTH, SharedFile
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import FloatArray

PATIENCE_S: Final = 10.0
"""Processor time after which a decoder without output is ended."""

_PLAIN: Final = (b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b".snd")
"""First bytes of WAV, Wave64, FLAC, OGG and AU files."""

_MPEG: Final = (b"ID3", *(bytes([0xFF, second]) for second in range(0xE0, 0x100)))
"""First bytes of MP3 files: of tags, or of a frame, whose first eleven bits are ones."""


class BrokenOffError(Exception):
    """The decoder cannot go on; what came before is good."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Audio as its file has it, read once; the header may leave `n_frames` unknown.

    `blocks` are `(n, n_channels)` float32, and raise `BrokenOffError` where the file breaks off.
    """

    sample_rate_hz: int
    n_channels: int
    n_frames: int | None
    blocks: Iterator[FloatArray]


def open_reader(file: BinaryIO, label: str, resources: ExitStack) -> Decoded:
    """Decode plain formats by libsndfile here, and all others in another process.

    Broken files of these formats do libsndfile no harm (`docs/errors.md`). For some others it
    prints on standard output, and FFmpeg knows so many that one will crash it. `resources` close
    the decoder; the file stays the caller's.
    """
    import soundfile

    head = file.read(12)
    file.seek(0)
    mpeg, promised_s = head.startswith(_MPEG), None
    aiff = head[:4] == b"FORM" and head[8:] in {b"AIFF", b"AIFC"}
    if head.startswith((b"RIFF", b"RF64")):
        file, promised_s = complete_header(file)
    if mpeg or aiff or head.startswith(_PLAIN):
        with suppress(soundfile.SoundFileError):
            return _open_plain(file, resources, mpeg=mpeg, promised_s=promised_s)
    return open_foreign(file, label, resources)


_CHUNK: Final = struct.Struct("<4sI")
_MOST_HEADER: Final = 1 << 16
"""Limit of chunks before the samples; broken files have endless ones."""

_UNKNOWN_SIZE: Final = b"\xff" * 4
"""Length of streamed files, which libsndfile reads to the end, and of RF64, where `ds64` has it."""

_STREAMED_BYTES: Final = 0x7F000000
"""Programs that write to a pipe promise this or more: 0x7FFFF000, 0x80000000, 0xFFFFFFFF."""

_RATE_AT, _SIZE_AT = slice(8, 12), slice(8, 16)
"""Place of the bytes per second in the chunk `fmt `, and of the true length in RF64's `ds64`."""


def complete_header(file: BinaryIO) -> tuple[BinaryIO, float | None]:
    """Return a WAV file at its start, corrected if its header was never completed.

    Also return the seconds that a truncated file's header promises: `None` for a complete file, or
    where the header of a stream promises nothing.
    """
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(_MOST_HEADER + 2 * _CHUNK.size)
    file.seek(0)
    chunks: dict[bytes, tuple[int, int]] = {}
    at = 12
    while at < min(_MOST_HEADER, len(head) - _CHUNK.size + 1) and b"data" not in chunks:
        kind, size = _CHUNK.unpack_from(head, at)
        at += _CHUNK.size
        chunks[kind] = (at, size)
        at += size + size % 2
    if b"data" not in chunks:
        return file, None
    at, size = chunks[b"data"]
    if size == 0 and head.startswith(b"RIFF"):
        behind = head[at : at + _CHUNK.size]
        tags = int.from_bytes(behind[4:], "little") if len(behind) == _CHUNK.size else end
        if at + _CHUNK.size + tags not in (end, end - 1):  # more than a last chunk of tags follows
            return cast(BinaryIO, _Closed(file, at - len(_UNKNOWN_SIZE))), None
    if size == int.from_bytes(_UNKNOWN_SIZE, "little") and b"ds64" in chunks:
        size = int.from_bytes(head[chunks[b"ds64"][0] :][_SIZE_AT], "little")
    elif size >= _STREAMED_BYTES:
        size = 0
    fmt = head[chunks[b"fmt "][0] :] if b"fmt " in chunks else b""
    rate = int.from_bytes(fmt[_RATE_AT], "little")
    return file, size / rate if size > end - at and rate else None


class _Closed(SharedFile):
    """A file with another length in its header."""

    def __init__(self, file: BinaryIO, place: int) -> None:
        super().__init__(file)
        self._place = place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # so it is called
        begin = self.tell()
        n_read = super().readinto(buffer)
        read = memoryview(buffer).cast("B")  # soundfile's own kind takes no numbers
        for at in range(max(self._place, begin), min(self._place + 4, begin + n_read)):
            read[at - begin] = _UNKNOWN_SIZE[0]
        return n_read


def _open_plain(
    file: BinaryIO, resources: ExitStack, *, mpeg: bool, promised_s: float | None
) -> Decoded:
    """Open a file by libsndfile, through its descriptor or Python's file methods."""
    import soundfile

    quiet = mute_mpg123 if mpeg else nullcontext
    # A descriptor keeps soundfile from judging by the extension, and is faster.
    target = file.fileno() if isinstance(file, io.FileIO) else file
    with quiet():
        opened = resources.enter_context(soundfile.SoundFile(target, closefd=False))
    # Else soundfile seeks after every read, which in MP3 and broken FLAC files lands elsewhere.
    opened.seekable = lambda: False

    def blocks() -> Iterator[FloatArray]:
        while True:
            try:
                with quiet():
                    block = opened.read(READ_FRAMES, dtype="float32", always_2d=True)
            except soundfile.SoundFileError as error:
                raise BrokenOffError(getattr(error, "error_string", str(error))) from error
            if block.shape[0] == 0:
                return
            yield block

    n_frames = opened.frames if opened.frames < UNKNOWN_LENGTH else None
    if promised_s is not None:
        n_frames = round(promised_s * opened.samplerate)
    return Decoded(opened.samplerate, opened.channels, n_frames, blocks())


def read_samples(samples: FloatArray, label: str, sample_rate_hz: int) -> Decoded:
    """Take samples `(n,)` in memory, so that they pass the same checks; they are not copied."""
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise AudioError(
            f"{label} has shape {samples.shape} and dtype {samples.dtype}, expected (n,) "
            "float32 in [-1, 1]; average the channels, divide 16-bit by 32768"
        )
    columns = samples.astype(np.float32, copy=False)[:, np.newaxis]
    starts = range(0, samples.size, READ_FRAMES)
    blocks = (columns[start : start + READ_FRAMES] for start in starts)
    return Decoded(sample_rate_hz, 1, samples.size, blocks)


def open_foreign(file: BinaryIO, label: str, resources: ExitStack) -> Decoded:
    """Read formats that are not safe in this process, or need FFmpeg, through `decode`.

    That process has limits of memory, and of processor time without a sample. If it crashes, the
    file breaks off. It ends with the resources.
    """
    # The file of the program, not its name: importing our packages would import NumPy.
    command = [sys.executable, "-P", decode.__file__, str(PATIENCE_S)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with ExitStack() as opened:
        try:
            process = subprocess.Popen(
                command,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise AudioError(
                f"{label} needs a process to be decoded in, and none can be had "
                f"({error.strerror}); free some memory, or end other programs"
            ) from error
        opened.enter_context(process)  # closes the pipe and waits
        opened.callback(process.kill)
        try:
            kind, payload = _read_message(process)
        except BrokenOffError as error:
            raise AudioError(
                f"{label} cannot be opened ({error}), expected sound; export the file again"
            ) from error
        if kind == decode.REFUSED:
            refusal = json.loads(payload)
            expected = "a whole audio or video file; try it in a player, or export it again"
            if refusal["lacks_ffmpeg"]:
                expected = (
                    "a whole WAV, FLAC, OGG or MP3 file; for m4a, mp4, webm and the like: "
                    + install_command("media")
                )
            why = refusal["why"]
            raise AudioError(f"{label} is not readable audio ({why}), expected {expected}")
        resources.push(opened.pop_all())
    rate_hz, n_channels, n_frames = json.loads(payload)
    return Decoded(rate_hz, n_channels, n_frames, _foreign_blocks(process, n_channels))


def _foreign_blocks(process: subprocess.Popen[bytes], n_channels: int) -> Iterator[FloatArray]:
    while True:
        kind, payload = _read_message(process)
        if kind == decode.AUDIO:
            yield np.frombuffer(payload, "<f4").reshape(-1, n_channels)
        elif payload:
            raise BrokenOffError(payload.decode(errors="replace"))
        else:
            return


def _read_message(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Read the kind and payload of the next message."""
    pipe = cast(BinaryIO, process.stdout)
    head = pipe.read(5)
    size = int.from_bytes(head[1:], "little")
    payload = pipe.read(size)
    if len(head) == 5 and len(payload) == size:
        return head[:1], payload
    code = process.wait()
    if code == -signal.SIGPROF:
        raise BrokenOffError(f"the decoder gave nothing for {PATIENCE_S:g} s")
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    raise BrokenOffError(f"the decoder crashed, {how}")


_mpg123_lock = threading.Lock()


@contextmanager
def mute_mpg123() -> Iterator[None]:
    """Drop what mpg123 writes to file descriptor 2, even for good files.

    libsndfile has no option for it. Lines of other threads are passed on.
    """
    with _mpg123_lock, open(os.memfd_create("mpg123"), "w+b") as caught:
        try:
            stderr = os.dup(2)
        except OSError:  # There is no standard error.
            yield
            return
        try:
            os.dup2(caught.fileno(), 2)
            yield
        finally:
            os.dup2(stderr, 2)
            caught.seek(0)
            noise = (b"[src/libmpg123", b"Note: ", b"Warning: ")
            for line in caught:
                if line.strip() and not line.startswith(noise):
                    with suppress(OSError):  # it is full
                        os.write(stderr, line)
            os.close(stderr)
