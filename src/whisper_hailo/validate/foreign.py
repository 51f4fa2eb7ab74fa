"""A graph that another program made: which of ours it corresponds to, and what to feed it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto

from whisper_hailo.backends.onnx_message import parse_message, read_graph_bytes
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.dimensions import Dimensions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import FRAMES_PER_POSITION

INTEGERS = (TensorProto.INT64, TensorProto.INT32)
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One input of a foreign graph; `None` for an axis of any length."""

    name: str
    dtype: int
    shape: tuple[int | None, ...]

    def fed(self, array: AnyArray) -> AnyArray:
        """The array in this input's type, with axes of length one where it has them.

        Args:
            array: `(1, ...)`, one window's.

        Raises:
            ModelError: its shape cannot hold the array.
        """
        rank, real = len(self.shape), array.shape[1:]
        for places in reversed(list(combinations(range(rank), len(real)))):
            lengths = dict(zip(places, real, strict=True))
            shape = tuple(lengths.get(axis, 1) for axis in range(rank))
            if all(want in (None, got) for want, got in zip(self.shape, shape, strict=True)):
                dtype = onnx.helper.tensor_dtype_to_np_dtype(self.dtype)
                return np.ascontiguousarray(array.reshape(shape)).astype(dtype)
        raise ModelError(
            f"input {self.name} of the other graph has shape {self.text}, which cannot hold "
            f"{array.shape}; convert with that graph's --window and --decoder-length"
        )

    @property
    def text(self) -> str:
        """The shape as a person writes it."""
        return f"({', '.join('?' if axis is None else str(axis) for axis in self.shape)})"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A foreign graph's place in a model.

    Attributes:
        path: its file.
        part: `encoder` or `decoder`.
        audio: its mel or audio features input.
        tokens: its token input, for decoders.
        n_frames: mel frames that it asks for, `None` for any (encoders).
        n_tokens: tokens that it asks for, `None` for any.
        n_positions: encoder positions that it asks for, `None` for any (decoders).
    """

    path: Path
    part: str
    audio: GraphInput
    tokens: GraphInput | None = None
    n_frames: int | None = None
    n_tokens: int | None = None
    n_positions: int | None = None


def open_foreign(path: Path, dims: Dimensions) -> Foreign:
    """Find out what a graph is by its inputs' types and shapes; names mean nothing.

    Raises:
        ModelError: no ONNX graph, or neither an encoder nor a decoder without a cache.
    """
    model = parse_message(read_graph_bytes(path), path.name)
    held = {item.name for item in model.graph.initializer}
    inputs = [_input(value) for value in model.graph.input if value.name not in held]
    floats = [one for one in inputs if one.dtype in FLOATS]
    integers = [one for one in inputs if one.dtype in INTEGERS]
    if len(floats) != 1 or len(integers) > 1 or len(inputs) != len(floats) + len(integers):
        names = ", ".join(f"{one.name} {one.text}" for one in inputs)
        raise ModelError(
            f"{shown(path)} takes {names or 'nothing'}; expected one float input (log-mel) for an "
            "encoder, or tokens and audio features for a decoder without a cache"
        )
    audio = floats[0]
    real = [axis for axis in audio.shape if axis != 1]
    if not integers:
        if dims.n_mels not in audio.shape and None not in real[-2:]:
            raise ModelError(
                f"{shown(path)} takes {audio.name} {audio.text}, this model has {dims.n_mels} mel "
                "bins; give a graph of the same checkpoint"
            )
        return Foreign(path, "encoder", audio, n_frames=real[-1] if real else None)
    if real and real[-1] not in (None, dims.d_model):
        raise ModelError(
            f"{shown(path)} takes {audio.name} {audio.text}, this model has audio features of "
            f"width {dims.d_model}; give a graph of the same checkpoint"
        )
    tokens = integers[0]
    return Foreign(
        path,
        "decoder",
        audio,
        tokens,
        n_tokens=tokens.shape[-1] if tokens.shape else None,
        n_positions=audio.shape[-2] if len(audio.shape) > 1 else None,
    )


def window_of(foreign: Foreign) -> int | None:
    """Frames of the window that a foreign graph is for, `None` for any."""
    if foreign.part == "encoder":
        return foreign.n_frames
    positions = foreign.n_positions
    return None if positions is None else positions * FRAMES_PER_POSITION


def _input(value: ValueInfoProto) -> GraphInput:
    kind = value.type.tensor_type
    shape = tuple(axis.dim_value or None for axis in kind.shape.dim)
    return GraphInput(value.name, kind.elem_type, shape)
