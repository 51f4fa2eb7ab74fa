"""What clients send as audio, decoded before it waits for its turn, and no longer than allowed."""

from __future__ import annotations

import asyncio
import io
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from typing import Any, BinaryIO, Final, cast

import numpy as np

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.copies import append, new_copy, pieces
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.errors import (
    ClientDisconnectedError,
    TooLargeError,
    translate_full_storage,
)
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.serve.threads import on_thread

_BLOCK_S: Final = 30
_MOST: Final = 2**32 - 1
"""A WAV file of more says no length that is true."""

_SMALL_BYTES: Final = 4 << 20
_DECODERS: Final = 2
"""Recordings decoded at once; each may need a process."""


@dataclass(frozen=True, slots=True)
class AudioLimits:
    """How much audio one request may have.

    Attributes:
        bytes: as it is sent.
        seconds: as it is heard.
    """

    bytes: int = 512 << 20
    seconds: float = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class PcmForm:
    """What bare samples are.

    Attributes:
        rate_hz: frames per second.
        width: bytes of a sample; those of one byte have no sign.
        n_channels: samples of a frame.
    """

    rate_hz: int = SAMPLE_RATE_HZ
    width: int = 2
    n_channels: int = 1


class Decoders:
    """Decodes uploads, a few at a time, off the event loop.

    Args:
        limits: of each.
    """

    def __init__(self, limits: AudioLimits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(_DECODERS)

    async def decode(
        self, file: BinaryIO, name: str | None, stored: Reservation, heard_s: float | None = None
    ) -> FloatArray:
        """Audio of any format, as the command reads it.

        Args:
            file: from its start.
            name: what the client calls it, for messages.
            stored: has room for the samples; they are needed no longer than it is held.
            heard_s: only its beginning.

        Returns:
            `(n_samples,)` float32 at 16 kHz mono; on the disk where it is long.
        """
        label = PurePath(name or "").name or "the file"
        return await self._run(stored, _decoded, file, label, heard_s)

    async def decode_pcm(
        self, data: BinaryIO, form: PcmForm, stored: Reservation, heard_s: float | None = None
    ) -> FloatArray:
        """Bare samples, as the command reads them in a WAV file; see `decode` and `pcm_file`."""
        return await self._run(stored, _decoded_pcm, data, form, heard_s)

    async def _run(
        self,
        stored: Reservation,
        how: Callable[..., FloatArray],
        *what: Any,  # noqa: ANN401 - the function's own
    ) -> FloatArray:
        bounds = _Bounds(self._limits.seconds, stored)
        async with self._free:
            with translate_full_storage():
                return await on_thread(how, *what, bounds, on_cancel=bounds.give_up)


@dataclass(slots=True)
class _Bounds:
    """How far a recording is decoded.

    Attributes:
        most_s: seconds; more is refused.
        stored: has room for what is decoded.
        is_wanted: somebody waits for it.
    """

    most_s: float
    stored: Reservation
    is_wanted: bool = True

    def give_up(self) -> None:
        """Stop decoding at the next block. From any thread."""
        self.is_wanted = False

    def kept(self, blocks: Iterator[FloatArray]) -> Iterator[FloatArray]:
        """The same blocks, as far as they may go."""
        seconds = 0.0
        for block in blocks:
            seconds += block.size / SAMPLE_RATE_HZ
            expect_seconds(seconds, self.most_s)
            if not self.is_wanted:
                raise ClientDisconnectedError("the client left")
            self.stored.take(block.nbytes)
            yield block


def _decoded_pcm(
    data: BinaryIO, form: PcmForm, heard_s: float | None, bounds: _Bounds
) -> FloatArray:
    with ExitStack() as resources:
        return _decoded(pcm_file(data, form, resources), "the samples", heard_s, bounds)


def _decoded(file: BinaryIO, name: str, heard_s: float | None, bounds: _Bounds) -> FloatArray:
    """`Decoders.decode` within its bounds, on a thread."""
    with ExitStack() as resources:
        stream = resources.enter_context(open_audio(file, name))
        if stream.duration_s is not None:
            expect_seconds(stream.duration_s, bounds.most_s)
        blocks = bounds.kept(stream.blocks(_BLOCK_S * SAMPLE_RATE_HZ))
        first = next(blocks)
        if heard_s is not None:
            return first[: round(heard_s * SAMPLE_RATE_HZ)]
        if first.size < _BLOCK_S * SAMPLE_RATE_HZ:
            return first
        copy = new_copy(name, resources)
        append(copy, (block.tobytes() for block in chain([first], blocks)), name)
        return np.memmap(copy, np.float32, "r")


def expect_seconds(seconds: float, most_s: float) -> None:
    """Refuse what is too long.

    Raises:
        TooLargeError: so it is.
    """
    if seconds > most_s:
        raise TooLargeError(
            f"the recording lasts {seconds:.0f} s or more, expected {most_s:g} s at most; split it"
        )


def pcm_file(data: BinaryIO, form: PcmForm, resources: ExitStack) -> BinaryIO:
    """Bare samples as a file that says what they are.

    Args:
        data: samples, little-endian, those of all channels side by side.
        form: of them.
        resources: keeps the file.

    Returns:
        a WAV file, which is read as the command reads one.

    Raises:
        AudioError: no sound has this form, or the temporary folder is full.
    """
    frame = form.width * form.n_channels
    fits = form.width in (1, 2, 3, 4) and 1 <= form.n_channels <= 64 and 0 < form.rate_hz < 2**20
    if not fits:
        raise AudioError(
            f"samples of {form.width} bytes, {form.n_channels} channels at {form.rate_hz} Hz, "
            "expected 1 to 4 bytes, some channels and a rate; send 16000 Hz, 2 bytes, mono"
        )
    n_bytes = data.seek(0, os.SEEK_END) // frame * frame
    data.seek(0)
    rate = form.rate_hz * frame
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", min(36 + n_bytes, _MOST), b"WAVE", b"fmt ",
                       16, 1, form.n_channels, form.rate_hz, rate, frame, 8 * form.width, b"data",
                       min(n_bytes, _MOST))  # fmt: skip
    if n_bytes <= _SMALL_BYTES:  # needs no disk, which may be full
        return io.BytesIO(head + data.read(n_bytes))
    copy = new_copy("the samples", resources)
    append(copy, chain([head], pieces(data)), "the samples")
    copy.seek(0)
    return cast(BinaryIO, copy)
