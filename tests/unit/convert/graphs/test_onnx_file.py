import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from whisper_hailo.checkpoint.weights import ready, scaled, stacked, transposed, zeros
from whisper_hailo.convert.graphs import onnx_file
from whisper_hailo.convert.graphs.builder import FLOAT, Graph, GraphBuilder
from whisper_hailo.convert.graphs.onnx_file import write_graph

TABLE = np.arange(40 * 32, dtype=np.float32).reshape(40, 32)
CODES = np.arange(64, dtype=np.uint8)


def _graph() -> Graph:
    b = GraphBuilder("toy")
    x = b.input("x", FLOAT, ("n", 32))
    product = b.op("MatMul", (x, b.weight("table", transposed(ready(TABLE)))), "product")
    same = b.view("same", "table", (40, 32))
    b.op("MatMul", (product, same), "y")
    b.weight("codes", ready(CODES))
    b.output("y", FLOAT, ("n", 32))
    return b.build()


def _check(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model)
    arrays = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    np.testing.assert_array_equal(arrays["table"], TABLE.T)
    np.testing.assert_array_equal(arrays["same"], TABLE.T.reshape(40, 32))
    np.testing.assert_array_equal(arrays["codes"], CODES)
    return model


def test_inline_file_is_what_the_onnx_library_reads(tmp_path: Path) -> None:
    records = write_graph(_graph(), tmp_path / "toy.onnx")
    model = _check(tmp_path / "toy.onnx")
    assert [node.op_type for node in model.graph.node] == ["MatMul", "MatMul"]
    assert list(records) == ["toy.onnx"]


def test_external_file_holds_shared_bytes_once(tmp_path: Path) -> None:
    records = write_graph(_graph(), tmp_path / "toy.onnx", external=True)
    _check(tmp_path / "toy.onnx")
    assert records["toy.onnx.data"].bytes == TABLE.nbytes
    assert records["toy.onnx"].bytes < 1024


def test_records_are_size_and_hash_of_the_files(tmp_path: Path) -> None:
    for name, record in write_graph(_graph(), tmp_path / "toy.onnx", external=True).items():
        data = (tmp_path / name).read_bytes()
        assert record.bytes == len(data)
        assert record.sha256 == hashlib.sha256(data).hexdigest()


def test_large_graphs_keep_their_weights_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "PROTOBUF_LIMIT_BYTES", 2000)
    assert set(write_graph(_graph(), tmp_path / "toy.onnx")) == {"toy.onnx", "toy.onnx.data"}
    _check(tmp_path / "toy.onnx")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**21, 2**31 - 1, 2**35])
def test_varint_is_protobufs(value: int) -> None:
    tensor = onnx.TensorProto(data_type=1)
    tensor.ClearField("data_type")
    tensor.dims.append(value)
    assert tensor.SerializeToString().endswith(onnx_file._varint(value))


def test_weights_are_lazy_and_composable() -> None:
    base = ready(TABLE)
    np.testing.assert_array_equal(scaled(base, 0.125).load(), TABLE * np.float32(0.125))
    both = stacked([zeros(3), ready(np.ones(2, np.float32))])
    assert both.shape == both.load().shape == (5,)
    assert transposed(base).nbytes == TABLE.nbytes


def test_equal_constants_are_one_initializer() -> None:
    b = GraphBuilder("constants")
    assert b.constant([0, 1]) == b.constant(np.array([0, 1]))
    assert b.constant(1) != b.constant(1.0)
    assert b.constant(1) != b.constant([1])
    assert len(b.build().initializers) == 4
