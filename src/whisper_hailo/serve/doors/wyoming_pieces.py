"""A recording that comes over Wyoming in chunks."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import InitVar, dataclass, field
from typing import BinaryIO, Final, cast

import numpy as np
from wyoming.event import Event

from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.serve.audio import AudioLimits, Decoders, PcmForm, expect_seconds
from whisper_hailo.serve.doors.wyoming_wire import MalformedError
from whisper_hailo.serve.errors import TooLargeError, translate_full_storage
from whisper_hailo.serve.room import Lot, Room

_IN_MEMORY_BYTES: Final = 4 << 20
_MOST_FORMS: Final = 64
"""Nobody changes the form of the samples so often in one recording."""


@dataclass(slots=True)
class Pieces:
    """A recording that comes in chunks, each of any size and form.

    Attributes:
        limits: of the whole.
        room: for those of all connections.
        runs: chunks of one form that came on end, with that form.
        stack: holds their files.
        lot: of the room.
    """

    limits: AudioLimits
    room: InitVar[Room]
    runs: list[tuple[PcmForm, BinaryIO]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)
    n_bytes: int = 0
    seconds: float = 0.0
    lot: Lot = field(init=False)

    def __post_init__(self, room: Room) -> None:
        self.lot = self.stack.enter_context(room.lot())

    def add(self, event: Event) -> None:
        """Keep a chunk.

        Raises:
            MalformedError: it does not say what it is.
            TooLargeError: it is too much.
            BusyError: there is no room for it.
        """
        form, data = _form(event), event.payload or b""
        frame_rate = form.rate_hz * form.width * form.n_channels
        self.n_bytes += len(data)
        self.seconds += len(data) / frame_rate
        expect_seconds(self.seconds, self.limits.seconds)
        if self.n_bytes > self.limits.bytes:
            raise TooLargeError(f"more than {self.limits.bytes} bytes came; send less at once")
        self.lot.take(len(data))
        if not self.runs or self.runs[-1][0] != form:
            if len(self.runs) == _MOST_FORMS:
                raise MalformedError(f"the form of the samples changed {_MOST_FORMS} times")
            spool = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - the stack is one
            self.stack.enter_context(spool)
            self.runs.append((form, cast(BinaryIO, spool)))
        with translate_full_storage():
            self.runs[-1][1].write(data)

    async def audio(self, decoders: Decoders) -> FloatArray:
        """All of it.

        Raises:
            AudioError: nothing came, or its form is none.
        """
        if not self.n_bytes:
            raise AudioError("no sound came between audio-start and audio-stop; send some")
        parts = [await decoders.decode_pcm(data, form, self.lot) for form, data in self.runs]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _form(event: Event) -> PcmForm:
    values = [event.data.get(name) for name in ("rate", "width", "channels")]
    if not all(isinstance(value, int) and 0 < value < 1 << 20 for value in values):
        raise MalformedError("a chunk has no rate, width and channels that are whole numbers")
    return PcmForm(*cast("list[int]", values))
