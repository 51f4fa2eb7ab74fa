"""Wyoming events: read with bounds, and the chunks of a recording that they bring."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from dataclasses import InitVar, dataclass, field
from typing import Any, BinaryIO, Final, cast

import numpy as np
from wyoming.event import Event

from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.strict_json import MismatchError, parse_json_object
from whisper_hailo.core.types import FloatArray
from whisper_hailo.serve.audio import Decoders, PcmForm, expect_seconds
from whisper_hailo.serve.errors import RejectedError, TooLargeError, translate_full_storage
from whisper_hailo.serve.options import AudioLimits
from whisper_hailo.serve.quota import Quota, Reservation

LINE_BYTES: Final = 64 << 10
_DATA_BYTES: Final = 1 << 20
_PAYLOAD_BYTES: Final = 4 << 20
"""Two minutes of sound; clients send fractions of a second."""

_PIECE_BYTES: Final = 64 << 10


class MalformedError(RejectedError):
    """What came is no event."""

    kind, status = "malformed", 400


async def read_event(reader: asyncio.StreamReader, stored: Reservation) -> Event | None:
    """The next event; `None` at the end of the connection.

    Wyoming's own function takes as many bytes as a client says, and ends at a line that is none as
    if the connection had.

    Raises:
        MalformedError: what came is no event.
        BusyError: there is no room for it.
    """
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    except ValueError as error:
        raise MalformedError(f"a header has more than {LINE_BYTES} bytes") from error
    if not line.endswith(b"\n"):
        return None
    head = _object(line)
    kind = head.get("type")
    if not isinstance(kind, str):
        raise MalformedError("a header has no type")
    data = head.get("data") or {}
    if not isinstance(data, dict):
        raise MalformedError("the data of an event is no object")
    try:
        length = _length(head, "data_length", _DATA_BYTES)
        data |= _object(await reader.readexactly(length) or b"{}")
        payload = bytearray()
        left = _length(head, "payload_length", _PAYLOAD_BYTES)
        while left:
            payload += await reader.readexactly(min(left, _PIECE_BYTES))
            stored.take(min(left, _PIECE_BYTES))
            left -= min(left, _PIECE_BYTES)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Event(kind, data, bytes(payload) or None)


def _length(head: dict[str, Any], name: str, most: int) -> int:
    length = head.get(name) or 0
    if not isinstance(length, int) or not 0 <= length <= most:
        raise MalformedError(f"{name} is {str(length)[:40]}, expected 0 to {most}")
    return length


def _object(text: bytes) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except MismatchError as error:
        raise MalformedError(f"what came is {error}; this server speaks Wyoming") from error


_IN_MEMORY_BYTES: Final = 4 << 20
_MOST_FORMS: Final = 64
"""More changes of the sample format in one recording are an attack."""


@dataclass(slots=True)
class RecordingChunks:
    """A recording that comes in chunks, each of any size and form.

    Attributes:
        limits: of the whole.
        quota: of all connections.
        runs: chunks of one form that came on end, with that form.
        stack: holds their files.
        stored: bytes of the quota.
    """

    limits: AudioLimits
    quota: InitVar[Quota]
    runs: list[tuple[PcmForm, BinaryIO]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)
    n_bytes: int = 0
    seconds: float = 0.0
    stored: Reservation = field(init=False)

    def __post_init__(self, quota: Quota) -> None:
        self.stored = self.stack.enter_context(quota.reserve())

    def add(self, event: Event) -> PcmForm:
        """Keep a chunk; return its form.

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
        self.stored.take(len(data))
        if not self.runs or self.runs[-1][0] != form:
            if len(self.runs) == _MOST_FORMS:
                raise MalformedError(f"the form of the samples changed {_MOST_FORMS} times")
            spool = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - the stack is one
            self.stack.enter_context(spool)
            self.runs.append((form, cast(BinaryIO, spool)))
        with translate_full_storage():
            self.runs[-1][1].write(data)
        return form

    async def audio(self, decoders: Decoders) -> FloatArray:
        """All of it.

        Raises:
            AudioError: nothing came, or its form is none.
        """
        if not self.n_bytes:
            raise AudioError("no sound came between audio-start and audio-stop; send some")
        parts = [await decoders.decode_pcm(data, form, self.stored) for form, data in self.runs]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _form(event: Event) -> PcmForm:
    values = [event.data.get(name) for name in ("rate", "width", "channels")]
    if not all(isinstance(value, int) and 0 < value < 1 << 20 for value in values):
        raise MalformedError("a chunk has no rate, width and channels that are whole numbers")
    return PcmForm(*cast("list[int]", values))
