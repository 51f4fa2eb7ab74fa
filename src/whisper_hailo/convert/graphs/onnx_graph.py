"""ONNX graphs with lazy weights, written with one weight in memory at a time.

Protobuf libraries hold the whole message in memory, twice while they serialise it. An ONNX file is
simple enough to be written front to back instead: every length is known beforehand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray, Weight, ready_weight
from whisper_hailo.core.spec import FileRecord

OPSET = 17
"""The first with LayerNormalization as one node, and the one the Hailo compiler takes."""

GELU_OPSET = 20
"""The first with GELU as one operator, which there is for float16, too."""

MICROSOFT = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

FLOAT = int(TensorProto.FLOAT)
HALF = int(TensorProto.FLOAT16)
UINT8 = int(TensorProto.UINT8)
INT32 = int(TensorProto.INT32)
INT64 = int(TensorProto.INT64)

IR_VERSION = 9
PROTOBUF_LIMIT_BYTES = 2**31 - 2**20
"""Protobuf messages end at 2 GiB; larger graphs keep their weights in a file beside them."""

EXTERNAL_FROM_BYTES = 1024
"""Smaller weights stay in the graph file, where shape inference can see them."""

EXTERNAL_ALIGNMENT = 4096
"""Page size, so that each weight can be mapped into memory by itself."""

DATA_SUFFIX = ".data"

# Field numbers of onnx.proto, shifted and marked as length-delimited.
_MODEL_GRAPH = bytes([7 << 3 | 2])
_GRAPH_INITIALIZER = bytes([5 << 3 | 2])
_TENSOR_RAW_DATA = bytes([9 << 3 | 2])

Axis = int | str
Attribute = int | float | str | Sequence[int]


@dataclass(frozen=True, slots=True)
class Initializer:
    """A named weight of a graph.

    `same_bytes_as` names a weight with the same bytes, which a file of data then holds once.
    """

    name: str
    weight: Weight
    same_bytes_as: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A finished graph: the protobuf without its weights, the weights, and its operators' opset."""

    proto: GraphProto
    initializers: tuple[Initializer, ...]
    opset: int = OPSET


class GraphBuilder:
    """Collects the nodes of one graph in the order of the data path."""

    def __init__(self, name: str, opset: int = OPSET) -> None:
        self.name = name
        self.opset = opset
        self._nodes: list[NodeProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._initializers: dict[str, Initializer] = {}

    def input(self, name: str, dtype: int, shape: Sequence[Axis]) -> str:
        """Declare a graph input; axes that are strings are dynamic."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, name: str, dtype: int, shape: Sequence[Axis]) -> None:
        """Declare that the value called `name` is a graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def op(
        self, op_type: str, inputs: Sequence[str], output: str, **attrs: Attribute
    ) -> str:
        """Append a node with one output; see `ops`."""
        return self.ops(op_type, inputs, (output,), **attrs)[0]

    def ops(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        **attrs: Attribute,
    ) -> tuple[str, ...]:
        """Append a node with several outputs.

        `attrs` may hold the node's own `name`, by default that of the first output, and `domain`.
        """
        node_attrs: dict[str, Any] = {"name": outputs[0], "domain": "", **attrs}
        self._nodes.append(helper.make_node(op_type, inputs, outputs, **node_attrs))
        return tuple(outputs)

    def weight(self, name: str, weight: Weight) -> str:
        """Add a weight; asking again for the same name gives the same initializer."""
        self._initializers.setdefault(name, Initializer(name, weight))
        return name

    def view(self, name: str, of: str, shape: tuple[int, ...]) -> str:
        """Add a weight with the bytes of another one under a different shape."""
        base = self._initializers[of].weight
        view = Weight(shape, base.dtype, base.load, base.strips)
        self._initializers.setdefault(name, Initializer(name, view, same_bytes_as=of))
        return name

    def constant(self, value: AnyArray | Sequence[int] | int | float) -> str:
        """Add a small constant, once for each value: Python ints are int64, floats float32."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        shape = "x".join(map(str, array.shape))
        text = "_".join(str(item) for item in array.ravel().tolist())
        return self.weight(
            f"const_{array.dtype.name}[{shape}]_{text}", ready_weight(array)
        )

    def scope(self, stem: str) -> Scope:
        """Return a writer of nodes whose outputs are called `stem.` and so on."""
        return Scope(self, stem)

    def build(self) -> Graph:
        """Return the finished graph."""
        proto = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs)
        return Graph(proto, tuple(self._initializers.values()), self.opset)


@dataclass(frozen=True, slots=True)
class Scope:
    """Writes the nodes of one part of a graph: the names of its values begin with `stem`."""

    builder: GraphBuilder
    stem: str

    def op(
        self, op_type: str, inputs: Sequence[str], output: str, **attrs: Attribute
    ) -> str:
        """Append a node with one output, `stem.output`; inputs have their whole names."""
        return self.builder.op(op_type, inputs, f"{self.stem}.{output}", **attrs)


class WhisperBuilder(GraphBuilder):
    """A graph of one checkpoint, whose arrays it holds under their own names."""

    def __init__(self, name: str, checkpoint: Checkpoint, opset: int = OPSET) -> None:
        super().__init__(name, opset)
        self.checkpoint = checkpoint
        self.dims = checkpoint.config.dims

    def stored(self, name: str) -> str:
        """Add an array of the checkpoint."""
        return self.weight(name, self.checkpoint.weight(name))


def write_graph(
    graph: Graph, path: Path, *, external: bool = False
) -> dict[str, FileRecord]:
    """Write `path`, and `path.data` beside it for weights that are kept outside.

    The runtime maps weights that are `external`, as those of large graphs always are, and equal
    bytes are stored once. Return size and hash of each file by its name.
    """
    n_bytes = sum(item.weight.nbytes for item in graph.initializers)
    records: dict[str, FileRecord] = {}
    offsets: dict[str, int] = {}
    location = path.name + DATA_SUFFIX
    if external or n_bytes > PROTOBUF_LIMIT_BYTES:
        with HashedFile(path.with_name(location)) as data:
            offsets = _write_external(graph, data)
        records[location] = data.record()
    with HashedFile(path) as file:
        write_model(graph, offsets, location, file)
    records[path.name] = file.record()
    return records


def _write_external(graph: Graph, data: HashedFile) -> dict[str, int]:
    """Write all but small weights to a file of data; return where each begins in it."""
    offsets: dict[str, int] = {}
    for item in graph.initializers:
        if item.weight.nbytes < EXTERNAL_FROM_BYTES:
            continue
        if item.same_bytes_as is not None:
            offsets[item.name] = offsets[item.same_bytes_as]
            continue
        data.write(bytes(-data.size % EXTERNAL_ALIGNMENT))
        offsets[item.name] = data.size
        _write_weight(item, data)
    return offsets


class HashedFile(BufferedWriter):
    """A file being written, with its size and SHA-256 so far.

    Pieces of a megabyte are hashed while they are still in the processor's cache; graphs that are
    written in parallel keep the other cores busy.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(FileIO(path, "wb"))
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override] # ours are these
        written = super().write(data)
        self._hash.update(data)
        self.size += written
        return written

    def record(self) -> FileRecord:
        """Return size and hash of what was written."""
        return FileRecord(bytes=self.size, sha256=self._hash.hexdigest())


def write_model(
    graph: Graph,
    offsets: dict[str, int],
    location: str,
    file: HashedFile,
) -> None:
    """Write the model message: header, nodes, then the initializers one by one.

    `offsets` are those of weights in the file of data, which is called `location`.
    """
    header = ModelProto(ir_version=IR_VERSION, producer_name="whisper-hailo")
    header.opset_import.append(helper.make_opsetid("", graph.opset))
    # A domain that is declared but not used makes some readers refuse the file.
    domains = sorted({node.domain for node in graph.proto.node} - {""})
    header.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    nodes = graph.proto.SerializeToString()
    heads = []
    graph_length = len(nodes)
    for item in graph.initializers:
        tensor_head = _tensor_head(item, offsets.get(item.name), location)
        n_raw_bytes = 0 if item.name in offsets else item.weight.nbytes
        tensor_length = len(tensor_head) + n_raw_bytes
        head = _GRAPH_INITIALIZER + encode_varint(tensor_length) + tensor_head
        heads.append(head)
        graph_length += len(head) + n_raw_bytes
    file.write(header.SerializeToString())
    file.write(_MODEL_GRAPH + encode_varint(graph_length) + nodes)
    for item, head in zip(graph.initializers, heads, strict=True):
        file.write(head)
        if item.name not in offsets:
            _write_weight(item, file)


def _tensor_head(item: Initializer, offset: int | None, location: str) -> bytes:
    """Return the tensor message up to where its raw bytes follow."""
    tensor = TensorProto(
        name=item.name,
        dims=item.weight.shape,
        data_type=helper.np_dtype_to_tensor_dtype(np.dtype(item.weight.dtype)),
    )
    if offset is None:
        raw = _TENSOR_RAW_DATA + encode_varint(item.weight.nbytes)
        return bytes(tensor.SerializeToString()) + raw
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="offset", value=str(offset))
    tensor.external_data.add(key="length", value=str(item.weight.nbytes))
    return bytes(tensor.SerializeToString())


def _write_weight(item: Initializer, file: HashedFile) -> None:
    """Write the weight's bytes, in ONNX's little-endian order."""
    for piece in item.weight.pieces():
        little = np.ascontiguousarray(piece, piece.dtype.newbyteorder("<"))
        file.write(little.ravel().view(np.uint8).data)


def encode_varint(value: int) -> bytes:
    """Encode protobuf's variable-length integer: seven bits a byte, lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
