"""ONNX files of other programs, read without loading their weights, and run as encoders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from whisper_hailo.backends.checks import check_mel
from whisper_hailo.backends.session import EXPORT_AGAIN, OneGraph, running
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND, FloatArray

if TYPE_CHECKING:
    from onnx import (
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        ValueInfoProto,
    )


_NEWEST_OPSET: Final = 1000
"""Higher than any, and within a C++ integer, which ONNX's schemas are looked up by."""


def load_message(path: Path) -> ModelProto:
    """Load an ONNX file; weights in files beside it are left there."""
    return parse_message(read_graph_bytes(path), str(path))


def read_graph_bytes(path: Path) -> bytes:
    """Read an ONNX file."""
    try:
        if path.is_file():
            return path.read_bytes()
        if path.is_dir():
            problem = "is a directory"
        elif path.exists():
            problem = "is not a regular file"
        else:
            problem = "does not exist"
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    raise ModelError(
        f"{display_path(path)} {problem}; give an ONNX file, such as one in hailo/"
    )


def parse_message(encoded: bytes, name: str) -> ModelProto:
    """Parse an ONNX file's bytes; `name` is the file's, for messages.

    Raises:
        ModelError: no ONNX file, or one that the runtime or ONNX's library would crash on.
    """
    import onnx

    try:
        model = onnx.load_model_from_string(encoded)
    except Exception as error:  # protobuf's decoder raises its own family
        raise ModelError(
            f"{name} is not an ONNX file, or is truncated ({type(error).__name__}); {EXPORT_AGAIN}"
        ) from error
    if not model.graph.node:
        raise ModelError(f"{name} holds no ONNX graph: it has no node; {EXPORT_AGAIN}")
    for text in _all_names(model.graph):
        # The library hands over bytes in place of text that is no UTF-8.
        if not isinstance(text, str):
            raise ModelError(
                f"{name} has a name that is not text ({text[:40]!r}); {EXPORT_AGAIN}"
            )
    opsets = {
        _domain_of(entry): min(entry.version, _NEWEST_OPSET)
        for entry in model.opset_import
    }
    for node in model.graph.node:
        # Readers of a graph take a node's required inputs without asking whether they are there.
        if _is_short(node, opsets):
            raise ModelError(
                f"{name} has a node {node.op_type[:40]!r} with {len(node.input)} inputs and "
                f"{len(node.output)} outputs, fewer than it needs; {EXPORT_AGAIN}"
            )
    return model


def _is_short(node: NodeProto, opsets: dict[str, int]) -> bool:
    """Return whether a node lacks inputs or outputs that its operator requires."""
    from onnx import defs

    domain = _domain_of(node)
    try:
        schema = defs.get_schema(node.op_type, opsets.get(domain, 0), domain)
    except defs.SchemaError:  # an operator of another program, or of another opset
        return not node.output
    return len(node.input) < schema.min_input or len(node.output) < schema.min_output


def _domain_of(item: NodeProto | OperatorSetIdProto) -> str:
    """Return the domain of operators; the standard one has two names."""
    return "" if item.domain == "ai.onnx" else item.domain


def _all_names(graph: GraphProto) -> Iterator[str]:
    """Yield all texts of a graph."""
    for node in graph.node:
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (axis.dim_param for axis in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name
        for entry in tensor.external_data:
            yield entry.key
            yield entry.value


Axis: TypeAlias = int | str
"""A number, or the name of an axis of any length; unnamed ones are `?`."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output; `dtype` is NumPy's name of its element type, such as `float32`."""

    shape: tuple[Axis, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a graph by name; `signed_codes`: it has 8-bit weights with a sign."""

    path: Path
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    signed_codes: bool = False

    def describe(self) -> str:
        """Return the inputs in one line, for messages."""
        parts = []
        for name, port in self.inputs.items():
            shape = ", ".join(map(str, port.shape))
            parts.append(f"{name} ({shape}) {port.dtype}")
        return ", ".join(parts)


def read_signature(path: Path) -> Signature:
    """Read the inputs and outputs of an ONNX file; weights beside it are not touched.

    Raises:
        ModelError: no ONNX file, or one with ports that cannot be used.
    """
    model = load_message(path)
    graph = model.graph
    try:
        weights = {weight.name for weight in graph.initializer}
        inputs = {  # old exporters list the weights, too
            value.name: _read_port(value)
            for value in graph.input
            if value.name not in weights
        }
        outputs = {value.name: _read_port(value) for value in graph.output}
    except (
        ValueError,
        KeyError,
        TypeError,
    ) as error:  # types that ONNX does not know, too
        raise ModelError(
            f"{display_path(path)} has an input or output that cannot be used ({error}); "
            f"{EXPORT_AGAIN}"
        ) from error
    if not inputs or not outputs:
        raise ModelError(
            f"{display_path(path)} is not an ONNX graph (no input or no output); {EXPORT_AGAIN}"
        )
    return Signature(path, inputs, outputs, _has_signed_codes(graph))


def _has_signed_codes(graph: GraphProto) -> bool:
    from onnx import TensorProto

    if any(weight.data_type == TensorProto.INT8 for weight in graph.initializer):
        return True
    return any(_has_signed_codes(branch) for branch in _branches(graph))


def _branches(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield the graphs within a graph's nodes."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g


def _read_port(value: ValueInfoProto) -> Port:
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    axes: list[Axis] = []
    for dim in tensor.shape.dim:
        if not dim.HasField("dim_value"):
            axes.append(dim.dim_param or "?")
        elif dim.dim_value < 0:
            raise ValueError(f"an axis of {dim.dim_value}")
        else:
            axes.append(dim.dim_value)
    return Port(tuple(axes), dtype)


def move_weights_into_branches(path: Path) -> bytes:
    """Return a merged graph whose branches have 8-bit weights of their own.

    The runtime computes products exactly (`session.EXACT_PRODUCTS`) only with weights in the
    product's graph. Optimum's merged decoders have them outside of both branches.
    """
    import onnx

    with running(str(path), EXPORT_AGAIN):
        model = onnx.load(str(path))
        graph = model.graph
        movable = {
            weight.name: weight
            for weight in graph.initializer
            if weight.data_type == onnx.TensorProto.INT8
        }
        # A weight that the outer graph reads has to stay there.
        for name in _read_names(graph):
            movable.pop(name, None)
        moved: set[str] = set()
        for branch in _branches(graph):
            names = _read_names(branch) & movable.keys()
            branch.initializer.extend(movable[name] for name in sorted(names))
            moved |= names
        remaining = [weight for weight in graph.initializer if weight.name not in moved]
        del graph.initializer[:]
        graph.initializer.extend(remaining)
        return bytes(model.SerializeToString())


def _read_names(graph: GraphProto) -> set[str]:
    """Return the names of values that a graph's own nodes read."""
    return {name for node in graph.node for name in node.input}


OPTIMUM_ENCODERS = ("encoder_model", "encoder_model_quantized", "encoder_model_int8")
QUANTIZED_MARKS = ("quantized", "int8", "uint8", "q4", "bnb4")
"""What exporters write into the names of quantised files."""


def encoder_file(path: Path) -> Path:
    """Return the encoder graph of a path: itself, or that of a directory of Optimum's layout."""
    if not path.is_dir():
        return path
    for folder in (path, path / "onnx"):
        for stem in OPTIMUM_ENCODERS:
            if (folder / f"{stem}.onnx").is_file():
                return folder / f"{stem}.onnx"
    raise ModelError(
        f"{display_path(path)} holds no encoder_model.onnx; give the encoder's file with "
        "--encoder, or a checkpoint with --model"
    )


class ForeignEncoder(OneGraph):
    """An encoder graph with one input and the features among its outputs.

    It takes Optimum's `input_features (batch, n_mels, n_frames)`, or the form for the Hailo
    compiler, `(1, n_mels, 1, n_frames)`. Its name is `onnx-30s-fp32`, `onnx-10s-int8` and so on,
    unless another one is given.

    Attributes:
        bias: `(d_model,)` that is taken away from all features, of an emulated chip; or `None`.
    """

    bias: FloatArray | None = None

    def __init__(
        self,
        path: Path,
        spec: ModelSpec,
        threads: int = 0,
        name: str = "",
    ) -> None:
        signature = read_signature(path)
        self.spec = spec
        ((self._input, self._port), *others) = signature.inputs.items()
        if others or not self._port.dtype.startswith("float"):
            raise ModelError(
                f"{display_path(path)} takes {signature.describe()}; an encoder has one input, a "
                "log-mel: is it a decoder?"
            )
        self.n_frames = _find_window(signature, self._port, spec)
        self._output = _features_output(signature, spec, self.n_frames)
        weights = precision(path, self._port.dtype)
        window_s = self.n_frames / FRAMES_PER_SECOND
        super().__init__(path, threads, name or f"onnx-{window_s:g}s-{weights}")

    def encode(self, mel: FloatArray) -> FloatArray:
        check_mel(mel, self.spec, self.n_frames)
        if len(self._port.shape) == 4:
            mel = mel[:, :, np.newaxis]
        windows = np.ascontiguousarray(mel, dtype=self._port.dtype)
        is_batched = isinstance(self._port.shape[0], str)
        parts = [windows] if is_batched else np.split(windows, len(windows))
        features = np.concatenate(
            [self.compute(self._output, {self._input: part}) for part in parts]
        )
        flat: FloatArray = features.reshape(len(windows), -1, self.spec.dims.d_model)
        flat = flat.astype(np.float32, copy=False)
        return flat if self.bias is None else flat - self.bias


def precision(path: Path, dtype: str = "float32") -> str:
    """Return `int8`, `fp16`, `fp32` or so, by the marks of exporters in a file's name.

    A name without marks leaves the input's type.
    """
    words = path.stem.lower().replace("-", "_").split("_")
    for mark in QUANTIZED_MARKS:
        if mark in words:
            return "int8" if mark == "quantized" else mark
    return "fp16" if dtype == "float16" or "fp16" in words else "fp32"


def _find_window(signature: Signature, port: Port, spec: ModelSpec) -> int:
    """Return the window in frames, the last axis of the log-mel."""
    n_mels = spec.dims.n_mels
    most = spec.dims.max_frames
    middle_axes = {3: (n_mels,), 4: (n_mels, 1)}.get(len(port.shape))
    if middle_axes is None or not all(map(can_be, port.shape[1:-1], middle_axes)):
        raise ModelError(
            f"{display_path(signature.path)} takes {signature.describe()}, {spec.name} has "
            f"{n_mels} mel bins: expected (batch, {n_mels}, n_frames) or (1, {n_mels}, 1, "
            "n_frames); encoder and --model must be from the same model"
        )
    n_frames = port.shape[-1]
    # Such exports were traced with the whole position table.
    if isinstance(n_frames, str):
        n_frames = most
    if not 0 < n_frames <= most or n_frames % FRAMES_PER_POSITION:
        raise ModelError(
            f"{display_path(signature.path)} takes {n_frames} frames, {spec.name} takes an even "
            f"number up to {most}; encoder and --model must be from the same model"
        )
    return n_frames


def can_be(axis: Axis, size: int) -> bool:
    """Return whether an axis may have this size."""
    return axis == size or isinstance(axis, str)


def _features_output(signature: Signature, spec: ModelSpec, n_frames: int) -> str:
    """Return the name of the output that is the audio features.

    Its shape is `(batch, n_positions, d_model)`, or `(batch, 1, n_positions, d_model)`.
    """
    n_positions = n_frames // FRAMES_PER_POSITION
    d_model = spec.dims.d_model
    for name, port in signature.outputs.items():
        if len(port.shape) in {3, 4} and all(
            map(can_be, port.shape[-2:], (n_positions, d_model))
        ):
            return name
    outputs = ", ".join(
        f"{name} {port.shape}" for name, port in signature.outputs.items()
    )
    raise ModelError(
        f"{display_path(signature.path)} gives {outputs}, {spec.name} has a width of {d_model}: "
        f"expected (batch, {n_positions}, {d_model}); encoder and --model must be from the same "
        "model"
    )
