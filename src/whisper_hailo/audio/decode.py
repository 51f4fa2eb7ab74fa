"""A program that decodes one recording, by FFmpeg or libsndfile, which bad files may crash.

`ForeignReader` runs it. The argument is the processor time in seconds after which a decoder without
output is ended. Standard input is the recording, standard output messages: a letter, the size of
the payload in 4 bytes (little-endian) and the payload.

- `HEADER`: JSON, `[sample_rate_hz, n_channels, n_frames or null]`
- `AUDIO`: float32 samples, interleaved
- `END`: why the decoder cannot go on, in UTF-8; empty when all is decoded
- `REFUSED`, instead of all these: JSON, `{"why": ..., "lacks_ffmpeg": ...}`

NumPy is not imported, as FFmpeg does not need it: half the start-up time.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from typing import IO, Final

from whisper_hailo.audio.media import Blocks, Header, open_media

HEADER, AUDIO, END, REFUSED = b"H", b"A", b"E", b"R"

_MOST_MEMORY: Final = 1 << 30
READ_FRAMES: Final = 8192
"""Of libsndfile at a time."""

_MESSAGE_BYTES: Final = 1 << 15
"""Least size; frames of FFmpeg are smaller. This much is lost when the decoder crashes."""

UNKNOWN_LENGTH: Final = 2**62
"""libsndfile gives more for unknown lengths; any real one is less."""


class SharedFile(io.RawIOBase):
    """A view of a file with its own read position; seeking cannot fail."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; positions before the start, as broken headers ask for, are the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = max(0, offset + (self._end() if base is None else base))
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # so it is called
        n_read = self._read(buffer)
        self._at += n_read
        return n_read

    def _end(self) -> int:
        return os.fstat(self.fileno()).st_size

    def _read(self, buffer: memoryview) -> int:
        return os.preadv(self.fileno(), [buffer], self._at)


def _by_libsndfile(file: SharedFile) -> tuple[Header, Blocks]:
    """Open what FFmpeg does not, or everything where it is not installed."""
    import soundfile

    opened = soundfile.SoundFile(file)
    # Else soundfile seeks after every read, which in broken files lands elsewhere.
    opened.seekable = lambda: False
    n_frames = opened.frames if opened.frames < UNKNOWN_LENGTH else None

    def blocks() -> Blocks:
        frame_bytes = 4 * opened.channels
        buffer = bytearray(READ_FRAMES * frame_bytes)
        # `buffer_read` takes a last block that is shorter for an error.
        while n_read := opened.buffer_read_into(buffer, "float32"):
            yield memoryview(buffer)[: n_read * frame_bytes]

    return (opened.samplerate, opened.channels, n_frames), blocks()


def _reason(error: Exception) -> str:
    """Return the decoder's own message, as short as it has it."""
    said = getattr(error, "strerror", None) or getattr(error, "error_string", None) or str(error)
    return str(said).strip().rstrip(".") or type(error).__name__


class _Sender:
    """Sends messages, and ends the program when there is none for too long."""

    def __init__(self, out: IO[bytes], patience_s: float) -> None:
        self._out = out
        self._patience_s = patience_s
        self._wait()

    def __call__(self, kind: bytes, payload: bytes | memoryview) -> None:
        self._out.write(kind + len(payload).to_bytes(4, "little"))
        self._out.write(payload)
        self._out.flush()  # what was decoded is not lost with the decoder
        self._wait()

    def _wait(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._patience_s)  # SIGPROF, which has no handler


def _decode(file: SharedFile, send: _Sender) -> None:
    """Open the file with the first library that can, and send its samples.

    Any error that these libraries raise is about the file.
    """
    whys, lacks_ffmpeg = [], False
    for name, reader in (("FFmpeg", open_media), ("libsndfile", _by_libsndfile)):
        try:
            header, blocks = reader(file)
        except ImportError:
            lacks_ffmpeg |= name == "FFmpeg"
        except Exception as error:
            whys.append(f"{name}: {_reason(error)}")
            file.seek(0)
        else:
            send(HEADER, json.dumps(header).encode())
            send(END, _send_all(blocks, send).encode(errors="replace"))
            return
    refusal = {"why": "; ".join(whys), "lacks_ffmpeg": lacks_ffmpeg}
    send(REFUSED, json.dumps(refusal).encode())


def _send_all(blocks: Blocks, send: _Sender) -> str:
    """Send the samples; return why not all of them, or an empty text."""
    pieces: list[bytes] = []
    size, why = 0, ""
    try:
        for block in blocks:
            pieces.append(bytes(block))
            size += len(block)
            if size >= _MESSAGE_BYTES:
                send(AUDIO, b"".join(pieces))
                pieces, size = [], 0
    except Exception as error:
        why = _reason(error)
    if size:
        send(AUDIO, b"".join(pieces))
    return why


def _limit(kind: int, most: int) -> None:
    """Lower a resource limit."""
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def main() -> None:
    """Decode standard input to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader decides when it is over
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader went away
    _limit(resource.RLIMIT_DATA, _MOST_MEMORY)
    _limit(resource.RLIMIT_CORE, 0)
    with open(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libsndfile prints there
        _decode(SharedFile(sys.stdin.buffer), _Sender(out, float(sys.argv[1])))


if __name__ == "__main__":
    main()
