import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import defs, numpy_helper

from whisper_hailo.checkpoint.weights import (
    ready_weight,
    transposed_weight,
)
from whisper_hailo.convert.graphs import onnx_graph
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    GELU_OPSET,
    OPSET,
    Graph,
    GraphBuilder,
    write_graph,
)

TABLE = np.arange(40 * 32, dtype=np.float32).reshape(40, 32)
CODES = np.arange(64, dtype=np.uint8)


def _graph() -> Graph:
    b = GraphBuilder("toy")
    x = b.input("x", FLOAT, ("n", 32))
    product = b.op(
        "MatMul",
        (x, b.weight("table", transposed_weight(ready_weight(TABLE)))),
        "product",
    )
    same = b.view("same", "table", (40, 32))
    b.op("MatMul", (product, same), "y")
    b.weight("codes", ready_weight(CODES))
    b.output("y", FLOAT, ("n", 32))
    return b.build()


def _check(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model)
    arrays = {
        item.name: numpy_helper.to_array(item) for item in model.graph.initializer
    }
    np.testing.assert_array_equal(arrays["table"], TABLE.T)
    np.testing.assert_array_equal(arrays["same"], TABLE.T.reshape(40, 32))
    np.testing.assert_array_equal(arrays["codes"], CODES)
    return model


def test_write_graph_inline_is_read_by_onnx(tmp_path: Path) -> None:
    records = write_graph(_graph(), tmp_path / "toy.onnx")
    model = _check(tmp_path / "toy.onnx")
    assert [node.op_type for node in model.graph.node] == ["MatMul", "MatMul"]
    assert [node.name for node in model.graph.node] == ["product", "y"]
    assert list(records) == ["toy.onnx"]


def test_write_graph_external_stores_shared_bytes_once(tmp_path: Path) -> None:
    records = write_graph(_graph(), tmp_path / "toy.onnx", external=True)
    _check(tmp_path / "toy.onnx")
    assert records["toy.onnx.data"].bytes == TABLE.nbytes
    assert records["toy.onnx"].bytes < 1024


def test_write_graph_records_size_and_hash(tmp_path: Path) -> None:
    for name, record in write_graph(
        _graph(), tmp_path / "toy.onnx", external=True
    ).items():
        data = (tmp_path / name).read_bytes()
        assert record.bytes == len(data)
        assert record.sha256 == hashlib.sha256(data).hexdigest()


def test_write_graph_of_large_graph_is_external(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph, "PROTOBUF_LIMIT_BYTES", 2000)
    assert set(write_graph(_graph(), tmp_path / "toy.onnx")) == {
        "toy.onnx",
        "toy.onnx.data",
    }
    _check(tmp_path / "toy.onnx")


def test_write_graph_up_to_the_limit_is_inline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte or so of protobuf's 2 GiB is left for all that is no weight."""
    assert 2**30 < 2**31 - 2**24 < onnx_graph.PROTOBUF_LIMIT_BYTES < 2**31
    total = 2 * TABLE.nbytes + CODES.nbytes
    for limit, files in (
        (total, {"toy.onnx"}),
        (total - 1, {"toy.onnx", "toy.onnx.data"}),
    ):
        monkeypatch.setattr(onnx_graph, "PROTOBUF_LIMIT_BYTES", limit)
        assert set(write_graph(_graph(), tmp_path / "toy.onnx")) == files


def test_write_graph_aligns_external_weights_to_pages(tmp_path: Path) -> None:
    """In any order and of any length, so that each can be mapped by itself."""
    b = GraphBuilder("toy")
    sizes = {"small": 1023, "a": 1024, "tiny": 1, "b": 5000, "c": 4097}
    arrays = {name: np.full(size, size % 251, np.uint8) for name, size in sizes.items()}
    for name, array in arrays.items():
        b.weight(name, ready_weight(array))
        if name == "a":
            b.view("same", "a", (32, 32))
    arrays["same"] = arrays["a"].reshape(32, 32)
    write_graph(b.build(), tmp_path / "toy.onnx", external=True)
    plain = onnx.load(tmp_path / "toy.onnx", load_external_data=False)
    places = {
        item.name: {entry.key: entry.value for entry in item.external_data}
        for item in plain.graph.initializer
    }
    offsets = {name: int(place["offset"]) for name, place in places.items() if place}
    assert offsets == {"a": 0, "same": 0, "b": 4096, "c": 12288}
    for item in onnx.load(tmp_path / "toy.onnx").graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(item), arrays[item.name])


def test_write_graph_needs_no_newer_ir_than_its_opset(tmp_path: Path) -> None:
    """Files name the program that wrote them."""
    assert defs.get_schema("LayerNormalization").since_version == OPSET
    assert defs.get_schema("Gelu").since_version == GELU_OPSET
    write_graph(_graph(), tmp_path / "toy.onnx")
    model = onnx.load(tmp_path / "toy.onnx")
    assert model.producer_name == "whisper-hailo"
    newest = onnx.helper.make_opsetid("", GELU_OPSET)
    assert model.ir_version == onnx.helper.find_min_ir_version_for([newest])


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**21, 2**31 - 1, 2**35])
def test_encode_varint_equals_protobufs(value: int) -> None:
    tensor = onnx.TensorProto(data_type=1)
    tensor.ClearField("data_type")
    tensor.dims.append(value)
    assert tensor.SerializeToString().endswith(onnx_graph.encode_varint(value))


def test_constant_of_equal_values_is_one_initializer() -> None:
    b = GraphBuilder("constants")
    assert b.constant([0, 1]) == b.constant(np.array([0, 1]))
    assert b.constant(1) != b.constant(1.0)
    assert b.constant(1) != b.constant([1])
    assert len(b.build().initializers) == 4
