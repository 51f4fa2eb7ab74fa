"""ONNX files of other programs: read without loading them, and run as encoders."""

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
    from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto


_NEWEST_OPSET: Final = 1000
"""Higher than there will be, and no more than a C++ integer holds."""


def load_message(path: Path) -> ModelProto:
    """Load an ONNX file; weights in files beside it are left there."""
    return parse_message(read_graph_bytes(path), str(path))


def read_graph_bytes(path: Path) -> bytes:
    """Read an ONNX file."""
    try:
        if path.is_file():
            return path.read_bytes()
        there = "is a directory" if path.is_dir() else "is no plain file"
        problem = there if path.exists() else "does not exist"
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    raise ModelError(f"{display_path(path)} {problem}; give an ONNX file, such as one in hailo/")


def parse_message(encoded: bytes, name: str) -> ModelProto:
    """Parse an ONNX file's bytes."""
    import onnx

    try:
        model = onnx.load_model_from_string(encoded)
    except Exception as error:  # protobuf's decoder raises its own family
        raise ModelError(
            f"{name} is no ONNX file, or cut short ({type(error).__name__}); {EXPORT_AGAIN}"
        ) from error
    if not model.graph.node:
        raise ModelError(f"{name} holds no ONNX graph: it has no node; {EXPORT_AGAIN}")
    # The library hands over bytes where text should be that is no UTF-8.
    strange = next((one for one in _all_names(model.graph) if not isinstance(one, str)), None)
    if strange is not None:
        raise ModelError(f"{name} has a name that is no text ({strange[:40]!r}); {EXPORT_AGAIN}")
    opsets = {_domain_of(entry): min(entry.version, _NEWEST_OPSET) for entry in model.opset_import}
    if short := next((node for node in model.graph.node if _is_short(node, opsets)), None):
        raise ModelError(
            f"{name} has a node {short.op_type[:40]!r} with {len(short.input)} inputs and "
            f"{len(short.output)} outputs, less than it needs; {EXPORT_AGAIN}"
        )
    return model


def _is_short(node: NodeProto, opsets: dict[str, int]) -> bool:
    """Return whether a node lacks inputs or outputs that its operator requires."""
    from onnx import defs

    try:
        schema = defs.get_schema(node.op_type, opsets.get(_domain_of(node), 0), _domain_of(node))
    except defs.SchemaError:  # of another program, or of another opset
        return not node.output
    return len(node.input) < schema.min_input or len(node.output) < schema.min_output


def _domain_of(item: NodeProto | OperatorSetIdProto) -> str:
    """Return the domain of operators; the standard one has two names."""
    return "" if item.domain == "ai.onnx" else item.domain


def _all_names(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (axis.dim_param for axis in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


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
        """Inputs in one line, for messages."""
        return ", ".join(
            f"{name} ({', '.join(map(str, port.shape))}) {port.dtype}"
            for name, port in self.inputs.items()
        )


def read_signature(path: Path) -> Signature:
    """Read the inputs and outputs of an ONNX file; weights beside it are not touched."""
    model = load_message(path)
    graph = model.graph
    try:
        given = {weight.name for weight in graph.initializer}
        inputs = {value.name: _read_port(value) for value in graph.input if value.name not in given}
        outputs = {value.name: _read_port(value) for value in graph.output}
    except (ValueError, KeyError, TypeError) as error:  # types that ONNX does not know, too
        raise ModelError(
            f"{display_path(path)} has an input or output that cannot be used ({error}); "
            f"{EXPORT_AGAIN}"
        ) from error
    if not inputs or not outputs:
        raise ModelError(
            f"{display_path(path)} is no ONNX graph (nothing goes in or comes out); {EXPORT_AGAIN}"
        )
    return Signature(path, inputs, outputs, _has_signed_codes(graph))


def _has_signed_codes(graph: GraphProto) -> bool:
    from onnx import TensorProto

    branches = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
    return any(weight.data_type == TensorProto.INT8 for weight in graph.initializer) or any(
        map(_has_signed_codes, branches)
    )


def _read_port(value: ValueInfoProto) -> Port:
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    dims = tensor.shape.dim
    axes = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
    if any(isinstance(axis, int) and axis < 0 for axis in axes):
        raise ValueError(f"an axis of {min(d.dim_value for d in dims)}")
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
        others = {name for node in graph.node for name in node.input}
        signed = {w.name: w for w in graph.initializer if w.data_type == onnx.TensorProto.INT8}
        moved: set[str] = set()
        for branch in (a.g for node in graph.node for a in node.attribute if a.HasField("g")):
            read = {name for node in branch.node for name in node.input} & signed.keys() - others
            branch.initializer.extend(signed[name] for name in sorted(read))
            moved |= read
        kept = [weight for weight in graph.initializer if weight.name not in moved]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        return bytes(model.SerializeToString())


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
    unless there is another one.
    """

    def __init__(self, path: Path, spec: ModelSpec, threads: int = 0, name: str = "") -> None:
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
        super().__init__(
            path, threads, name or f"onnx-{self.n_frames / FRAMES_PER_SECOND:g}s-{weights}"
        )

    def encode(self, mel: FloatArray) -> FloatArray:
        check_mel(mel, self.spec, self.n_frames)
        laid_out = mel if len(self._port.shape) == 3 else mel[:, :, np.newaxis]
        laid_out = np.ascontiguousarray(laid_out, dtype=self._port.dtype)
        is_batched = not isinstance(self._port.shape[0], int)
        parts = [laid_out] if is_batched else np.split(laid_out, len(mel))
        features = np.concatenate([self.compute(self._output, {self._input: x}) for x in parts])
        flat: FloatArray = features.reshape(len(mel), -1, self.spec.dims.d_model)
        return flat.astype(np.float32, copy=False)


def precision(path: Path, dtype: str = "float32") -> str:
    """`int8`, `fp16` or `fp32`, by what exporters write into file names and by the input's type."""
    words = path.stem.lower().replace("-", "_").split("_")
    if marks := [mark for mark in QUANTIZED_MARKS if mark in words]:
        return "int8" if marks[0] == "quantized" else marks[0]
    return "fp16" if dtype == "float16" or "fp16" in words else "fp32"


def _find_window(signature: Signature, port: Port, spec: ModelSpec) -> int:
    """Return the window in frames, the last axis of the log-mel."""
    n_mels, most = spec.dims.n_mels, spec.dims.max_frames
    expected = {3: (n_mels,), 4: (n_mels, 1)}.get(len(port.shape))
    if expected is None or not all(map(_can_be, port.shape[1:-1], expected)):
        raise ModelError(
            f"{display_path(signature.path)} takes {signature.describe()}, {spec.name} has "
            f"{n_mels} mel bins: expected (batch, {n_mels}, n_frames) or (1, {n_mels}, 1, "
            "n_frames); encoder and --model must be of one model"
        )
    # Exports that leave it open were traced with the whole position table.
    n_frames = most if isinstance(port.shape[-1], str) else port.shape[-1]
    if not 0 < n_frames <= most or n_frames % FRAMES_PER_POSITION:
        raise ModelError(
            f"{display_path(signature.path)} takes {n_frames} frames, {spec.name} takes an even "
            f"number up to {most}; encoder and --model must be of one model"
        )
    return n_frames


def _can_be(axis: Axis, size: int) -> bool:
    return axis == size or isinstance(axis, str)


def _features_output(signature: Signature, spec: ModelSpec, n_frames: int) -> str:
    """Name of the output that is the audio features: `(batch, positions, d_model)`, or with a 1."""
    wanted = (n_frames // FRAMES_PER_POSITION, spec.dims.d_model)
    for name, port in signature.outputs.items():
        if len(port.shape) in {3, 4} and all(map(_can_be, port.shape[-2:], wanted)):
            return name
    got = ", ".join(f"{name} {port.shape}" for name, port in signature.outputs.items())
    raise ModelError(
        f"{display_path(signature.path)} gives {got}, {spec.name} has a width of {wanted[1]}: "
        f"expected (batch, {wanted[0]}, {wanted[1]}); encoder and --model must be of one model"
    )
