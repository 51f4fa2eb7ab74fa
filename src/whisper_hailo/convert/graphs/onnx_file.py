"""Write a graph to disk with one weight in memory at a time, hashing as it goes.

Protobuf libraries want the whole message in memory, twice while they serialise it. An ONNX file is
simple enough to be written front to back instead: every length is known beforehand.
"""

from __future__ import annotations

import hashlib
from io import BufferedWriter, FileIO
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

from whisper_hailo.convert.graphs.builder import Graph, Initializer
from whisper_hailo.core.spec import FileRecord

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


def write_graph(graph: Graph, path: Path, *, external: bool = False) -> dict[str, FileRecord]:
    """Write `path`, and `path.data` beside it for weights that are kept outside.

    The runtime maps weights that are `external`, as those of large graphs always are, and equal
    bytes are stored once. Returns size and hash of each file by its name.
    """
    total = sum(item.weight.nbytes for item in graph.initializers)
    records: dict[str, FileRecord] = {}
    offsets: dict[str, int] = {}
    location = path.name + DATA_SUFFIX
    if external or total > PROTOBUF_LIMIT_BYTES:
        with HashedFile(path.with_name(location)) as data:
            for item in graph.initializers:
                if item.weight.nbytes < EXTERNAL_FROM_BYTES:
                    continue
                if item.same_bytes_as is not None:
                    offsets[item.name] = offsets[item.same_bytes_as]
                    continue
                data.write(bytes(-data.size % EXTERNAL_ALIGNMENT))
                offsets[item.name] = data.size
                _write_weight(item, data)
        records[location] = data.record()
    with HashedFile(path) as file:
        write_model(graph, offsets, location, file)
    records[path.name] = file.record()
    return records


class HashedFile(BufferedWriter):
    """A file being written, with its size and SHA-256 so far.

    Pieces of a megabyte are hashed while they still lie in the processor's cache; graphs that are
    written side by side keep the other cores busy.
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


def write_model(graph: Graph, offsets: dict[str, int], location: str, file: HashedFile) -> None:
    """Write the model message: header, nodes, then the initializers one by one."""
    header = ModelProto(ir_version=IR_VERSION, producer_name="whisper-hailo")
    header.opset_import.append(helper.make_opsetid("", graph.opset))
    # A domain that is declared but not used makes some readers refuse the file.
    domains = sorted({node.domain for node in graph.proto.node} - {""})
    header.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    nodes = graph.proto.SerializeToString()
    heads = [_tensor_head(item, offsets.get(item.name), location) for item in graph.initializers]
    lengths = [
        len(head) if item.name in offsets else len(head) + item.weight.nbytes
        for head, item in zip(heads, graph.initializers, strict=True)
    ]
    total = len(nodes) + sum(1 + len(encode_varint(n)) + n for n in lengths)
    file.write(header.SerializeToString())
    file.write(_MODEL_GRAPH + encode_varint(total) + nodes)
    for head, length, item in zip(heads, lengths, graph.initializers, strict=True):
        file.write(_GRAPH_INITIALIZER + encode_varint(length) + head)
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
    fields = {"location": location, "offset": offset, "length": item.weight.nbytes}
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=str(value))
    return bytes(tensor.SerializeToString())


def _write_weight(item: Initializer, file: HashedFile) -> None:
    """Write the weight's bytes, little-endian as ONNX wants them."""
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
