"""Graphs of other programs on processors that cut off sums of 8-bit products."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from whisper_hailo.backends import session as saturation
from whisper_hailo.backends.onnx_file import read_signature, unsigned_graph, without_signs
from whisper_hailo.backends.session import open_graph
from whisper_hailo.core.errors import ModelError

RNG = np.random.default_rng(0)
FULL = RNG.integers(-127, 128, (8, 16)).astype(np.int8)
FULL[0, 0] = -128
SMALL = (FULL // 2).astype(np.int8)
"""Added up rightly by every processor."""

INPUT = RNG.integers(0, 256, (5, 8)).astype(np.uint8)


def _model(
    weights: NDArray[np.int8], zero: NDArray[np.int8] | None = None, *, branches: bool = False
) -> ModelProto:
    """A product in 8 bits, by itself or in both branches of a graph that has the weights."""
    tensors = [numpy_helper.from_array(weights, "weights")]
    inputs = ["codes", "weights"]
    if zero is not None:
        tensors.append(numpy_helper.from_array(zero, "zero"))
        inputs += ["", "zero"]
    product = helper.make_node("MatMulInteger", inputs, ["sums"])
    sums = helper.make_tensor_value_info("sums", TensorProto.INT32, [None, 16])
    ports = [helper.make_tensor_value_info("codes", TensorProto.UINT8, [None, 8])]
    nodes = [product]
    if branches:
        ports.append(helper.make_tensor_value_info("first", TensorProto.BOOL, []))
        branch = helper.make_graph([product], "branch", [], [sums])
        nodes = [
            helper.make_node("If", ["first"], ["sums"], then_branch=branch, else_branch=branch)
        ]
    graph = helper.make_graph(nodes, "product", ports, [sums], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _run(model: ModelProto) -> NDArray[np.int32]:
    feeds: dict[str, NDArray[np.uint8] | NDArray[np.bool_]] = {"codes": INPUT}
    if len(model.graph.input) == 2:
        feeds["first"] = np.array(True)
    session = open_graph(model.SerializeToString(), "the product", 1)
    result: NDArray[np.int32] = session.run(None, feeds)[0]
    return result


def _types(model: ModelProto) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def test_products_of_other_programs_are_exact_here() -> None:
    """Whatever processor this is: on one that cuts sums off the runtime is asked not to."""
    np.testing.assert_array_equal(_run(_model(FULL)), INPUT.astype(int) @ FULL.astype(int))


@pytest.mark.parametrize(
    ("cuts_off", "pairs_fit", "asked"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_exact_kernels_are_asked_for_where_sums_would_be_cut_off(
    monkeypatch: pytest.MonkeyPatch, cuts_off: bool, pairs_fit: bool, asked: bool
) -> None:
    monkeypatch.setattr(saturation, "saturates", lambda: cuts_off)
    source = _model(FULL).SerializeToString()
    options = open_graph(source, "x", 1, pairs_fit=pairs_fit).get_session_options()
    name, value = saturation.EXACT_PRODUCTS
    try:
        found = options.get_session_config_entry(name) == value
    except RuntimeError:  # never set
        found = False
    assert found is asked


@pytest.mark.parametrize("zero", [None, np.int8(3), np.arange(-8, 8, dtype=np.int8)])
def test_weights_of_branches_lose_sign_and_keep_values(
    zero: NDArray[np.int8] | None,
) -> None:
    given = None if zero is None else np.asarray(zero)
    model = _model(SMALL, given, branches=True)
    expected = INPUT.astype(int) @ (SMALL.astype(int) - (0 if zero is None else zero))
    np.testing.assert_array_equal(_run(model), expected)
    assert without_signs(model) == 1
    assert set(_types(model).values()) == {TensorProto.UINT8}
    np.testing.assert_array_equal(_run(model), expected)


@pytest.mark.parametrize("zero", [None, np.int8(3)])
@pytest.mark.parametrize("product", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_products_that_scale_keep_their_values_too(
    product: str, zero: NDArray[np.int8] | None
) -> None:
    """Older directories of ours have these, and `validate` runs them as they are written."""
    tensors = {"weights": SMALL, "scales": np.linspace(0.1, 1, 16, dtype=np.float32)}
    given = "" if zero is None else "zero"
    if zero is not None:
        tensors["zero"] = np.full(16, zero, np.int8)
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "middle"])]
    inputs = ["codes", "weights", "scale", "scales", "middle", given]
    if product == "DynamicQuantizeMatMul":
        nodes, inputs = [], ["x", "weights", "scales", given]
    nodes.append(helper.make_node(product, inputs, ["y"], domain="com.microsoft"))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width])
        for name, width in (("x", 8), ("y", 16))
    ]
    held = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "product", ports[:1], ports[1:], held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    x = RNG.standard_normal((5, 8)).astype(np.float32)

    def run() -> NDArray[np.float32]:
        result: NDArray[np.float32] = open_graph(model.SerializeToString(), "x", 1).run(
            None, {"x": x}
        )[0]
        return result

    expected = run()
    assert without_signs(model) == 1
    assert _types(model)["weights"] == TensorProto.UINT8
    np.testing.assert_array_equal(run(), expected)


def test_without_a_sign_branches_are_exact_whatever_the_weights() -> None:
    model = _model(FULL, branches=True)
    assert without_signs(model) == 1
    np.testing.assert_array_equal(_run(model), INPUT.astype(int) @ FULL.astype(int))


def test_signed_codes_are_seen_in_a_branch_too(tmp_path: Path) -> None:
    model = _model(FULL, branches=True)
    for attribute in model.graph.node[0].attribute:
        attribute.g.initializer.extend(model.graph.initializer)
    del model.graph.initializer[:]
    path = tmp_path / "merged.onnx"
    path.write_bytes(model.SerializeToString())
    assert read_signature(path).signed_codes


def test_weights_that_something_else_reads_keep_their_sign(tmp_path: Path) -> None:
    model = _model(FULL, branches=True)
    model.graph.node.append(helper.make_node("Cast", ["weights"], ["seen"], to=TensorProto.FLOAT))
    assert without_signs(model) == 0
    assert _types(model) == {"weights": TensorProto.INT8}
    path = tmp_path / "merged.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        ModelError, match=r"merged\.onnx cannot be computed exactly .*--quantize int8"
    ):
        unsigned_graph(path)


@pytest.mark.parametrize("branches", [False, True])
def test_signed_codes_get_advice_about_speed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    branches: bool,
) -> None:
    path = tmp_path / "encoder_model_quantized.onnx"
    path.write_bytes(_model(FULL, branches=branches).SerializeToString())
    signature = read_signature(path)
    for cuts_off, said in ((False, 0), (True, 1)):
        monkeypatch.setattr(saturation, "saturates", lambda cuts_off=cuts_off: cuts_off)
        with caplog.at_level(logging.WARNING):
            saturation.warn_of_slow_products(signature, signature)
        assert len(caplog.messages) == said
    assert "--quantize int8" in caplog.messages[0]


def test_the_runtime_tells_by_itself_whether_it_cuts_off() -> None:
    """Where it says that it does not, its fastest kernels are right, and only there."""
    options = onnxruntime.SessionOptions()
    model = _model(np.full((8, 16), 127, np.int8)).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (sums,) = session.run(None, {"codes": np.full((5, 8), 255, np.uint8)})
    assert saturation.saturates() is bool((sums != 8 * 255 * 127).any())
