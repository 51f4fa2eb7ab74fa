"""Readers of one audio file each: libsndfile, or FFmpeg in another process, which may crash.

They keep the file's own rate and channels; `stream` makes 16 kHz mono of it.
"""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import numpy as np

from whisper_hailo.audio import decode
from whisper_hailo.audio.decode import READ_FRAMES, UNKNOWN_LENGTH
from whisper_hailo.audio.mpeg_header import complete_length
from whisper_hailo.audio.wav_header import complete_header
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import FloatArray, SampleArray

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""Processor time after which a decoder without output is ended."""

_PLAIN: Final = (b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b".snd")
"""First bytes of WAV, Wave64, FLAC, OGG and AU files."""

_ID3: Final = b"ID3"
"""First bytes of the tags that most MP3 files begin with; others begin with a frame."""


class BrokenOffError(Exception):
    """The decoder cannot go on; what came before is good."""


@dataclass(frozen=True, slots=True)
class AudioReader:
    """The audio of one file, to be read once.

    Attributes:
        n_frames: as the header has it; `None` if it does not say.
        blocks: `(n, n_channels)` float32; raises `BrokenOffError` where the file breaks off.
    """

    sample_rate_hz: int
    n_channels: int
    n_frames: int | None
    blocks: Iterator[FloatArray]


def open_reader(file: BinaryIO, label: str, resources: ExitStack) -> AudioReader:
    """Decode plain formats with libsndfile here, and all others in another process.

    Broken files of plain formats cannot crash libsndfile (`docs/errors.md`). For some others it
    prints on standard output, and FFmpeg knows so many that one will crash it. `resources` close
    the decoder; the file stays the caller's.
    """
    import soundfile

    head = file.read(12)
    file.seek(0)
    is_mpeg = head.startswith(_ID3) or _begins_with_mpeg_frame(head)
    is_aiff = head[:4] == b"FORM" and head[8:] in {b"AIFF", b"AIFC"}
    promised_s = None
    if head.startswith((b"RIFF", b"RF64")):
        wav = complete_header(file)
        file = wav.file
        promised_s = wav.promised_s
        if wav.unfinished_s is not None:
            logger.warning(
                "%s: its header gives %.1f s but more audio follows, as after a crash of the "
                "recorder; reading to the end of the file",
                label,
                wav.unfinished_s,
            )
    if is_mpeg:
        file = complete_length(file)
    if is_mpeg or is_aiff or head.startswith(_PLAIN):
        # FFmpeg reads some files that libsndfile refuses, such as WAV files of rare codecs.
        with suppress(soundfile.SoundFileError):
            return _open_plain(file, resources, is_mpeg=is_mpeg, promised_s=promised_s)
    return open_foreign(file, label, resources)


def _begins_with_mpeg_frame(head: bytes) -> bool:
    """Return whether the first eleven bits are ones, as those of an MPEG audio frame."""
    return head[:2] >= b"\xff\xe0"


def _open_plain(
    file: BinaryIO, resources: ExitStack, *, is_mpeg: bool, promised_s: float | None
) -> AudioReader:
    """Open a file with libsndfile, through its descriptor or Python's file methods."""
    import soundfile

    quiet = mute_mpg123 if is_mpeg else nullcontext
    # A descriptor keeps soundfile from judging by the extension, and is faster.
    target = file.fileno() if isinstance(file, io.FileIO) else file
    with quiet():
        sound = resources.enter_context(soundfile.SoundFile(target, closefd=False))
    # Otherwise soundfile seeks after every read, which in MP3 and broken FLAC files goes astray.
    sound.seekable = lambda: False

    def blocks() -> Iterator[FloatArray]:
        while True:
            try:
                with quiet():
                    block = sound.read(READ_FRAMES, dtype="float32", always_2d=True)
            except soundfile.SoundFileError as error:
                raise BrokenOffError(
                    getattr(error, "error_string", str(error))
                ) from error
            if block.shape[0] == 0:
                return
            yield block

    n_frames = sound.frames if sound.frames < UNKNOWN_LENGTH else None
    if promised_s is not None:
        n_frames = round(promised_s * sound.samplerate)
    return AudioReader(sound.samplerate, sound.channels, n_frames, blocks())


def open_samples(samples: SampleArray, label: str, sample_rate_hz: int) -> AudioReader:
    """Return a reader of `(n,)` or `(n, n_channels)` samples in memory, which pass the same checks.

    Whole numbers are scaled by their type. Blocks are converted one by one; no whole copy is made.
    """
    is_signed = np.issubdtype(samples.dtype, np.signedinteger)
    is_known = is_signed or np.issubdtype(samples.dtype, np.floating)
    if samples.ndim not in (1, 2) or not is_known:
        raise AudioError(
            f"{label} has shape {samples.shape} and dtype {samples.dtype}, expected (n,) or "
            "(n, channels) of floats in [-1, 1] or of signed whole numbers such as int16"
        )
    columns = samples[:, np.newaxis] if samples.ndim == 1 else samples
    n_frames, n_channels = columns.shape
    if n_channels > max(n_frames, 1):
        raise AudioError(
            f"{label} has shape {samples.shape}, expected (n, channels); transpose it: audio.T"
        )
    scale = 1.0
    if is_signed:
        scale = 1.0 / -float(np.iinfo(samples.dtype.name).min)
    starts = range(0, n_frames, READ_FRAMES)
    blocks = (
        _scale_samples(columns[start : start + READ_FRAMES], scale) for start in starts
    )
    return AudioReader(sample_rate_hz, n_channels, n_frames, blocks)


def _scale_samples(block: SampleArray, scale: float) -> FloatArray:
    """Return samples as float32; floats have the scale 1 and are not copied if they need not be."""
    if scale == 1.0:
        return block.astype(np.float32, copy=False)
    return np.multiply(block, scale, dtype=np.float32)


def open_foreign(file: BinaryIO, label: str, resources: ExitStack) -> AudioReader:
    """Read formats that are not safe in this process, or need FFmpeg, through `decode`.

    That process has limits of memory, and of processor time without a sample. If it crashes, the
    file breaks off. It ends with the resources.
    """
    # The file of the program, not its name: importing our packages would import NumPy.
    command = [sys.executable, "-P", decode.__file__, str(PATIENCE_S)]
    # An empty entry of the path is the current folder, whose modules are not to be imported.
    folders = [folder for folder in sys.path if folder]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    with ExitStack() as cleanup:
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
                f"{label} is decoded in a process of its own, which cannot be started "
                f"({error.strerror}); free some memory, or close other programs"
            ) from error
        cleanup.enter_context(process)  # closes the pipe and waits
        cleanup.callback(process.kill)
        try:
            kind, payload = _read_message(process)
        except BrokenOffError as error:
            raise AudioError(
                f"{label} cannot be opened ({error}), expected sound; export the file again"
            ) from error
        if kind == decode.REFUSED:
            raise _refusal_error(json.loads(payload), label)
        resources.push(cleanup.pop_all())
    rate_hz, n_channels, n_frames = json.loads(payload)
    return AudioReader(
        rate_hz, n_channels, n_frames, _foreign_blocks(process, n_channels)
    )


def _refusal_error(refusal: Mapping[str, Any], label: str) -> AudioError:
    """Return the error of a file that no library reads."""
    expected = "a whole audio or video file; try it in a player, or export it again"
    if refusal["lacks_ffmpeg"]:
        install = install_command("media")
        expected = f"a whole WAV, FLAC, OGG or MP3 file; for m4a, mp4, webm and the like: {install}"
    return AudioError(
        f"{label} is not readable audio ({refusal['why']}), expected {expected}"
    )


def _foreign_blocks(
    process: subprocess.Popen[bytes], n_channels: int
) -> Iterator[FloatArray]:
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
    # The pipe was closed within a message: the process has ended.
    code = process.wait()
    if code == -signal.SIGPROF:
        raise BrokenOffError(f"the decoder produced no output for {PATIENCE_S:g} s")
    if code < 0:
        name = signal.Signals(-code).name
        raise BrokenOffError(f"the decoder crashed, {name}")
    raise BrokenOffError(f"the decoder crashed, exit code {code}")


_mpg123_lock = threading.Lock()

_MPG123_LINES: Final = (b"[src/libmpg123", b"Note: ", b"Warning: ")
"""Beginnings of what mpg123 prints."""


@contextmanager
def mute_mpg123() -> Iterator[None]:
    """Drop what mpg123 writes to file descriptor 2, even for good files.

    libsndfile has no option for it. Lines of other threads are passed on.
    """
    # Two threads that exchange the descriptor at once would restore each other's.
    with _mpg123_lock, open(os.memfd_create("mpg123"), "w+b") as output:
        try:
            stderr = os.dup(2)
        except OSError:  # standard error is closed
            yield
            return
        try:
            os.dup2(output.fileno(), 2)
            yield
        finally:
            os.dup2(stderr, 2)
            output.seek(0)
            for line in output:
                if line.strip() and not line.startswith(_MPG123_LINES):
                    with suppress(OSError):  # standard error may be full or gone
                        os.write(stderr, line)
            os.close(stderr)
