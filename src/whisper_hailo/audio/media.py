"""Reads containers with FFmpeg, through PyAV, on their timeline.

A container starts with its earliest track, as in players. A track that starts later has silence
before it, and a gap in its timestamps is silence: times of the text match the picture.
"""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Header: TypeAlias = tuple[int, int, int | None]
Blocks: TypeAlias = Iterator[memoryview]

# Containers only: playlists and concatenation scripts would make FFmpeg open other files.
_FORMATS: Final = (
    "3dostr,aac,ac3,aiff,amr,ape,asf,asf_o,au,avi,caf,dsf,dts,eac3,flac,flv,matroska,webm,"
    "mov,mp4,m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,oga,ogg,tta,w64,wav,wv"
)

_PROBED_BYTES: Final = 50_000_000
_PROBED_S: Final = 60
"""Enough to find the rate of a track that starts late; FFmpeg's default is 5 s."""

_MATROSKA: Final = "matroska,webm"
_OWN_LENGTH: Final = ("mov,mp4,m4a,3gp,3g2,mj2", "mpegts")
"""Formats whose tracks have their own length; others give that of the container."""

_TAG: Final = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")
"""Matroska's `DURATION` of a track: where it ends."""

_LEAST_GAP_S: Final = 0.1
"""Smaller gaps are jitter, as in FFmpeg's `aresample=async=1`."""

_MOST_GAP_S: Final = 86_400.0
_MOST_GAP_OF_UNKNOWN_S: Final = 3600.0
"""Larger gaps are broken timestamps, in containers of known and unknown length."""

_BROADCAST: Final = ("mpegts", "mpeg")
_MOST_BROADCAST_GAP_S: Final = 10.0
"""A larger gap is another clock in these formats, as in FFmpeg's program."""

_TRUNCATED_S: Final = 0.5
_SILENT_FRAMES: Final = 8192


def open_media(file: io.RawIOBase) -> tuple[Header, Blocks]:
    """Open any container with sound.

    Returns:
        rate, channels and frames (`None` if unknown) of the first readable track, and its float32
        samples.

    Raises:
        ValueError: no readable track; PyAV has more kinds of errors.
    """
    import av

    # Tags may be in any encoding, or broken; all but one are unused.
    options = {
        "format_whitelist": _FORMATS,
        "probesize": str(_PROBED_BYTES),
        "analyzeduration": str(_PROBED_S * 1_000_000),
    }
    container = av.open(file, "r", metadata_errors="replace", options=options)
    # A track of an unknown codec has no context, and so no rate.
    tracks = [track for track in container.streams.audio if track.codec_context is not None]
    track = next((track for track in tracks if track.rate), None)
    if track is None:
        raise ValueError("no readable audio track")
    seconds = _length_s(container, track)
    n_frames = None if seconds is None else round(seconds * track.rate)
    return (track.rate, track.channels, n_frames), _samples(container, track)


def _length_s(container: Any, track: Any) -> float | None:  # noqa: ANN401 - classes without types
    """Return seconds from the start of the container to the end of the track, by headers."""
    start_s, name = _seconds(container.start_time, 0.0), container.format.name
    whole_s, end_s = _seconds(container.duration, math.inf), math.inf
    is_alone = len(container.streams) == 1
    if name == _MATROSKA:  # its times count from 0, whatever the first timestamp is
        tag = _TAG.fullmatch(track.metadata.get("DURATION", ""))
        if tag:
            end_s = min(whole_s, 3600 * int(tag[1]) + 60 * int(tag[2]) + float(tag[3]))
        elif is_alone:
            end_s = whole_s
    elif track.duration is not None and track.time_base and (is_alone or name in _OWN_LENGTH):
        end_s = float(((track.start_time or 0) + track.duration) * track.time_base)
    elif is_alone:
        end_s = start_s + whole_s
    return None if math.isinf(end_s) else max(0.0, end_s - start_s)


def _seconds(microseconds: int | None, unknown_s: float) -> float:
    return unknown_s if microseconds is None else microseconds / 1e6


def _samples(container: Any, track: Any) -> Blocks:  # noqa: ANN401 - classes without types
    """Yield samples in the track's rate and channels, whatever those of a frame are.

    Packed, not planar: PyAV finds the end of a frame's planes by a null pointer, which is missing
    after eight of them.
    """
    import av

    rate_hz, layout, n_channels = track.rate, track.layout, track.channels
    timeline, before_s = _Timeline(container), 0.0
    for (silence_s, _), alike in itertools.groupby(_decoded(container, track), timeline.place):
        yield from _silence(round((silence_s - before_s) * rate_hz), n_channels)
        before_s = silence_s
        resampler = av.AudioResampler(format="flt", layout=layout, rate=rate_hz)
        for frame in itertools.chain(alike, [None]):  # at last, what it holds back
            for packed in resampler.resample(frame):
                if packed is not None:  # it has nothing to do, and gives back what it gets
                    n_bytes = 4 * n_channels * packed.samples  # padding comes behind
                    yield memoryview(packed.planes[0])[:n_bytes]


def _decoded(container: Any, track: Any) -> Iterator[Any]:  # noqa: ANN401 - classes without types
    if container.format.name != _MATROSKA or _length_s(container, track) is not None:
        yield from container.decode(track)
        return
    end_s = 0.0
    for packet in container.demux():
        if packet.stream.index == track.index:
            yield from packet.decode()
        if packet.pts is not None:
            end_s = max(end_s, float((packet.pts + (packet.duration or 0)) * packet.time_base))
    if end_s < _seconds(container.duration, 0.0) - _TRUNCATED_S:
        raise ValueError("truncated")


def _silence(n_frames: int, n_channels: int) -> Blocks:
    block = memoryview(bytes(4 * n_channels * _SILENT_FRAMES))
    while n_frames > 0:
        yield block[: 4 * n_channels * n_frames]
        n_frames -= _SILENT_FRAMES


class _Timeline:
    """Places frames by their timestamps."""

    def __init__(self, container: Any) -> None:  # noqa: ANN401 - a class without types
        start, whole_s = container.start_time, _seconds(container.duration, _MOST_GAP_OF_UNKNOWN_S)
        self._end_s = None if start is None else start / 1e6
        self._most_s = min(whole_s, _MOST_GAP_S)
        self._is_broadcast = container.format.name in _BROADCAST
        self._silence_s = 0.0

    def place(self, frame: Any) -> tuple[float, tuple[str, str, int]]:  # noqa: ANN401
        """Take the next frame.

        Returns:
            seconds of silence up to it, of all gaps together, and the resampler's key: joined
            streams change it in the middle.
        """
        if self._end_s is not None:
            start_s = self._end_s if frame.time is None else frame.time
            gap_s = start_s - self._end_s
            if abs(gap_s) > self._most_s:
                self._end_s = start_s
            elif gap_s > _LEAST_GAP_S:
                self._end_s, self._silence_s = start_s, self._silence_s + gap_s
            self._end_s += frame.samples / frame.sample_rate
        if self._is_broadcast:  # only the first may be later
            self._most_s = _MOST_BROADCAST_GAP_S
        return self._silence_s, (frame.format.name, frame.layout.name, frame.sample_rate)
