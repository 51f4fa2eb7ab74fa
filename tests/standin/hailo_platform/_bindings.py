"""Streams of a network, and the buffers of one run."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from hailo_platform._graph import Graph
from hailo_platform._machine import MACHINE
from hailo_platform.pyhailort.pyhailort import HailoRTException, failure

if TYPE_CHECKING:
    from hailo_platform._infer import InferModel


class FormatType:
    AUTO = 0
    UINT8 = 1
    UINT16 = 2
    FLOAT32 = 3


_BYTES = {
    FormatType.AUTO: 1,
    FormatType.UINT8: 1,
    FormatType.UINT16: 2,
    FormatType.FLOAT32: 4,
}


class Stream:
    def __init__(self, model: InferModel, name: str, shape: tuple[int, ...]) -> None:
        self._model = model
        self.name = name
        self.shape = list(shape)
        self.type = FormatType.AUTO

    def set_format_type(self, kind: int) -> None:
        if self._model.configured:
            MACHINE.violated("a format is set after configure()")
        self.type = kind

    @property
    def frame_bytes(self) -> int:
        return int(np.prod(self.shape)) * _BYTES[self.type]


class _Bound:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.buffer: Any = None
        self.in_flight = False

    def set_buffer(self, buffer: Any) -> None:
        if self.in_flight:
            MACHINE.violated(f"{self.stream.name} gets another buffer during a run")
        if not buffer.flags.c_contiguous:
            raise HailoRTException("Buffer must be C_CONTIGUOUS")
        if not buffer.flags.writeable:
            raise ValueError("array is not writeable")
        self.buffer = buffer

    def get_buffer(self) -> Any:
        return self.buffer

    def check(self) -> None:
        seen = self.buffer is not None and MACHINE.facts["knows_numpy_2"]
        if not seen or self.buffer.nbytes != self.stream.frame_bytes:
            raise failure("HAILO_INVALID_OPERATION")


class Bindings:
    """Buffers of one run. From hand-over to callback they are the chip's alone."""

    def __init__(self, model: InferModel) -> None:
        self._given: dict[str, int] = {}
        self._inputs = {stream.name: _Bound(stream) for stream in model.inputs}
        self._outputs = {stream.name: _Bound(stream) for stream in model.outputs}

    def input(self, name: str = "") -> _Bound:
        return named(self._inputs, name)

    def output(self, name: str = "") -> _Bound:
        return named(self._outputs, name)

    def check(self) -> None:
        """Bytes, not shapes, are looked at, and types are believed."""
        for bound in (*self._inputs.values(), *self._outputs.values()):
            bound.check()
            if bound.stream.type != FormatType.FLOAT32:
                MACHINE.violated(f"{bound.stream.name} is not float32 at the boundary")

    def hand_over(self) -> None:
        """What is there now is what will be computed."""
        if self._given:
            MACHINE.violated(
                "bindings are handed over again before their run has ended"
            )
        self._given = self._sums()
        self._mark(in_flight=True)

    def come_back(self) -> None:
        if self._sums() != self._given:
            MACHINE.violated("an input is changed during its run")
        self._given = {}
        self._mark(in_flight=False)

    def _mark(self, *, in_flight: bool) -> None:
        for bound in (*self._inputs.values(), *self._outputs.values()):
            bound.in_flight = in_flight

    def _sums(self) -> dict[str, int]:
        return {name: zlib.crc32(bound.buffer) for name, bound in self._inputs.items()}

    def execute(self, graph: Graph) -> None:
        arrays = {
            name: bound.buffer.view(np.float32) for name, bound in self._inputs.items()
        }
        for name, value in graph.run(arrays).items():
            target = self._outputs[name].buffer
            target[...] = value.reshape(target.shape)


def named(streams: dict[str, Any], name: str) -> Any:
    if not name and len(streams) == 1:
        return next(iter(streams.values()))
    if name not in streams:
        raise failure("HAILO_NOT_FOUND")
    return streams[name]
