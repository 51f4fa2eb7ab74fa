"""A program that decodes one recording, by FFmpeg or libsndfile, which bad files may crash.

`readers` runs it. The argument is the processor time in seconds after which a decoder without
output is ended. Standard input is the recording, standard output messages: a letter, the size of
the payload in 4 bytes (little-endian) and the payload.

- `HEADER`: JSON, `[sample_rate_hz, n_channels, n_frames or null]`
- `AUDIO`: float32 samples, interleaved
- `END`: why the decoder cannot go on, in UTF-8; empty when all is decoded
- `REFUSED`, instead of all these: JSON, `{"why": ..., "lacks_ffmpeg": ...}`

NumPy is not imported, as FFmpeg does not need it: half the start-up time.

FFmpeg, through PyAV, reads containers on their timeline, which starts with the earliest track, as
in players. A track that starts later has silence before it, and a gap in its timestamps is silence:
times of the text match the picture.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import IO, Any, Final, TypeAlias

Header: TypeAlias = tuple[int, int, int | None]
Blocks: TypeAlias = Iterator[memoryview]

# Containers only: playlists and concatenation scripts would make FFmpeg open other files.
_FORMATS: Final = (
    "3dostr,aac,ac3,aiff,amr,ape,asf,asf_o,au,avi,caf,dsf,dts,eac3,flac,flv,matroska,webm,"
    "mov,mp4,m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,oga,ogg,tta,w64,wav,wv"
)

_DURATION_TAG: Final = r"(\d+):(\d+):(\d+(?:\.\d+)?)"
"""Hours, minutes and seconds."""

_OWN_LENGTH: Final = ("mov,mp4,m4a,3gp,3g2,mj2", "mpegts")
"""Formats whose tracks have their own length; others give that of the container."""

_LEAST_GAP_S: Final = 0.1
"""Smaller gaps are jitter, as in FFmpeg's `aresample=async=1`."""

_MOST_GAP_S: Final = 86_400.0
_MOST_GAP_OF_UNKNOWN_S: Final = 3600.0
"""Larger gaps are broken timestamps, in containers of known and unknown length."""

_BROADCAST: Final = ("mpegts", "mpeg")
_MOST_BROADCAST_GAP_S: Final = 10.0
"""A larger gap is another clock in these formats, as in FFmpeg's program."""


def open_media(file: io.RawIOBase) -> tuple[Header, Blocks]:
    """Open any container with sound.

    Returns rate, channels and frames (`None` if unknown) of the first readable track, and its
    float32 samples. Errors are `ValueError`, and PyAV's many kinds.
    """
    import av

    # A track may start late: its rate is looked for in 60 s and 50 MB, by default in 5 s.
    probed = {"probesize": "50000000", "analyzeduration": "60000000"}
    options = {"format_whitelist": _FORMATS, **probed}
    container = av.open(file, "r", options=options, **_tag_options(av.__version__))
    # A track of an unknown codec has no context, and so no rate.
    tracks = [
        track for track in container.streams.audio if track.codec_context is not None
    ]
    track = next((track for track in tracks if track.rate), None)
    if track is None:
        raise ValueError("no readable audio track")
    length_s = _length_s(container, track)
    n_frames = None if length_s is None else round(length_s * track.rate)
    header = (track.rate, track.channels, n_frames)
    return header, _read_samples(container, track)


def _tag_options(pyav_version: str) -> dict[str, Any]:
    """Return the arguments of `av.open` with which a tag in any encoding, or broken, is no error.

    All tags but one are unused. From version 19 on PyAV keeps undecodable bytes by itself, and its
    `open` has no such argument any more.
    """
    if int(pyav_version.partition(".")[0]) >= 19:
        return {}
    return {"metadata_errors": "replace"}


def _length_s(container: Any, track: Any) -> float | None:  # noqa: ANN401 - classes without types
    """Return seconds from the start of the container to the end of the track, by headers."""
    name = container.format.name
    start_s = _to_seconds(container.start_time, 0.0)
    whole_s = _to_seconds(container.duration, math.inf)
    end_s = math.inf
    is_alone = len(container.streams) == 1
    has_length = track.duration is not None and track.time_base
    if name == "matroska,webm":
        # The tag says where the track ends. Like the container's length it counts from 0, whatever
        # the first timestamp is.
        tag = re.fullmatch(_DURATION_TAG, track.metadata.get("DURATION", ""))
        if tag:
            hours, minutes, seconds = tag.groups()
            tag_s = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
            end_s = min(whole_s, tag_s)
        elif is_alone:
            end_s = whole_s
    elif has_length and (is_alone or name in _OWN_LENGTH):
        end = (track.start_time or 0) + track.duration
        end_s = float(end * track.time_base)
    elif is_alone:
        end_s = start_s + whole_s
    if math.isinf(end_s):
        return None
    return max(0.0, end_s - start_s)


def _to_seconds(microseconds: int | None, unknown_s: float) -> float:
    return unknown_s if microseconds is None else microseconds / 1e6


def _read_samples(container: Any, track: Any) -> Blocks:  # noqa: ANN401 - classes without types
    """Yield samples in the track's rate and channels, whatever those of a frame are.

    Packed, not planar: PyAV finds the end of a frame's planes by a null pointer, which is missing
    after eight of them.
    """
    import av

    # A frame may have another rate and layout, which the resampler converts.
    rate_hz = track.rate
    layout = track.layout
    frame_bytes = 4 * track.channels
    silence = memoryview(bytes(frame_bytes * READ_FRAMES))
    before_s = 0.0
    placed = _place_frames(container, track)
    for (silence_s, *_), group in itertools.groupby(placed, itemgetter(0)):
        n_missing = round((silence_s - before_s) * rate_hz)
        for n_left in range(n_missing, 0, -READ_FRAMES):
            yield silence[: frame_bytes * n_left]
        before_s = silence_s
        resampler = av.AudioResampler(format="flt", layout=layout, rate=rate_hz)
        for _, frame in group:
            yield from _sample_blocks(resampler.resample(frame), frame_bytes)
        # What it held back.
        yield from _sample_blocks(resampler.resample(None), frame_bytes)


def _sample_blocks(frames: Any, frame_bytes: int) -> Blocks:  # noqa: ANN401 - classes without types
    """Yield the samples of packed frames, without the padding that follows them."""
    for frame in frames:
        # A resampler without anything to do returns what it gets, at the end `None`.
        if frame is not None:
            n_bytes = frame_bytes * frame.samples
            yield memoryview(frame.planes[0])[:n_bytes]


def _place_frames(container: Any, track: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    """Place frames by their timestamps.

    Yields a key and a frame. Frames of one key follow each other without a gap and fit the same
    resampler: the seconds of silence in all gaps so far, and the frame's format, layout and rate,
    which change where streams were joined.
    """
    whole_s = _to_seconds(container.duration, _MOST_GAP_OF_UNKNOWN_S)
    most_s = min(whole_s, _MOST_GAP_S)
    gaps_s = 0.0
    end_s = None  # of the frame before; `None` if the container has no timeline
    if container.start_time is not None:
        end_s = container.start_time / 1e6
    for frame in container.decode(track):
        if end_s is not None:
            start_s = end_s if frame.time is None else frame.time
            gap_s = start_s - end_s
            if abs(gap_s) > most_s:
                end_s = start_s
            elif gap_s > _LEAST_GAP_S:
                end_s = start_s
                gaps_s += gap_s
            end_s += frame.samples / frame.sample_rate
        if container.format.name in _BROADCAST:
            most_s = _MOST_BROADCAST_GAP_S  # from the second frame on: a track may start late
        key = (gaps_s, frame.format.name, frame.layout.name, frame.sample_rate)
        yield key, frame


HEADER: Final = b"H"
AUDIO: Final = b"A"
END: Final = b"E"
REFUSED: Final = b"R"

READ_FRAMES: Final = 8192
"""Sample frames that are read from libsndfile, or sent as silence, at a time."""

_MESSAGE_BYTES: Final = 1 << 15
"""Least size; frames of FFmpeg are smaller. This much is lost when the decoder crashes."""

UNKNOWN_LENGTH: Final = 2**62
"""libsndfile gives more for unknown lengths; any real one is less."""


class SharedFile(io.RawIOBase):
    """A view of a file of the system with its own read position; seeking cannot fail."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    seekable = readable

    def fileno(self) -> int:
        return self._file.fileno()

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; positions before the start, as broken headers ask for, are the start."""
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += os.fstat(self.fileno()).st_size
        self._position = max(0, offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # so it is called
        n_read = os.preadv(self.fileno(), [buffer], self._position)
        self._position += n_read
        return n_read


def _open_with_libsndfile(file: SharedFile) -> tuple[Header, Blocks]:
    """Open what FFmpeg does not, or everything where it is not installed."""
    import soundfile

    sound = soundfile.SoundFile(file)
    # Otherwise soundfile seeks after every read, which in broken files goes astray.
    sound.seekable = lambda: False
    n_frames = sound.frames if sound.frames < UNKNOWN_LENGTH else None

    def blocks() -> Blocks:
        frame_bytes = 4 * sound.channels
        buffer = bytearray(READ_FRAMES * frame_bytes)
        # `buffer_read` would take a shorter last block for an error.
        while n_read := sound.buffer_read_into(buffer, "float32"):
            yield memoryview(buffer)[: n_read * frame_bytes]

    return (sound.samplerate, sound.channels, n_frames), blocks()


def _find_reason(error: Exception) -> str:
    """Return the shortest message that the decoder gives."""
    message: object = error
    for name in ("error_string", "strerror"):  # libsndfile's, FFmpeg's
        message = getattr(error, name, None) or message
    text = str(message).strip().rstrip(".")
    return text or type(error).__name__


def _decode_file(file: SharedFile, send: Callable[[bytes, bytes], None]) -> None:
    """Open the file with the first library that can, and send its samples."""
    reasons = []
    lacks_ffmpeg = False
    for name, open_with in (
        ("FFmpeg", open_media),
        ("libsndfile", _open_with_libsndfile),
    ):
        try:
            header, blocks = open_with(file)
        except ImportError:
            if name == "FFmpeg":
                lacks_ffmpeg = True
        except (
            Exception
        ) as error:  # these libraries raise many kinds, all about the file
            reasons.append(f"{name}: {_find_reason(error)}")
            file.seek(0)
        else:
            send(HEADER, json.dumps(header).encode())
            _send_all(blocks, send)
            return
    refusal = {"why": "; ".join(reasons), "lacks_ffmpeg": lacks_ffmpeg}
    send(REFUSED, json.dumps(refusal).encode())


def _send_all(blocks: Blocks, send: Callable[[bytes, bytes], None]) -> None:
    """Send the samples, then why they are not all, or an empty text if they are."""
    message = b""
    reason = ""
    try:
        for block in blocks:
            message += block
            if len(message) >= _MESSAGE_BYTES:
                send(AUDIO, message)
                message = b""
    except Exception as error:  # as in `_decode_file`
        reason = _find_reason(error)
    if message:
        send(AUDIO, message)
    send(END, reason.encode(errors="replace"))


_MOST_MEMORY: Final = 1 << 30
"""Bytes; broken headers make decoders ask for more."""


def _lower_limit(kind: int, most: int) -> None:
    """Set a resource limit of this process, or keep its hard limit if that is lower."""
    hard = resource.getrlimit(kind)[1]
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (limit, limit))


def main() -> None:
    """Decode standard input to standard output."""
    # Ctrl-C is the parent's, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # End quietly when the parent has gone.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _lower_limit(resource.RLIMIT_DATA, _MOST_MEMORY)
    _lower_limit(resource.RLIMIT_CORE, 0)  # a crash is expected, and leaves no file
    patience_s = float(sys.argv[1])
    stdout = sys.stdout.fileno()
    with open(os.dup(stdout), "wb") as out:
        os.dup2(sys.stderr.fileno(), stdout)  # libsndfile prints to standard output

        def send(kind: bytes, payload: bytes) -> None:
            size = len(payload).to_bytes(4, "little")
            out.write(kind + size + payload)
            out.flush()  # so that a crash loses nothing that was decoded
            signal.setitimer(signal.ITIMER_PROF, patience_s)

        # Without a message for too long the timer ends the program: SIGPROF has no handler.
        signal.setitimer(signal.ITIMER_PROF, patience_s)
        _decode_file(SharedFile(sys.stdin.buffer), send)


if __name__ == "__main__":
    main()
