"""Sessions of ONNX Runtime: options, refused graphs, failed runs, exact 8-bit products."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, load_model_from_string, numpy_helper

from whisper_hailo.backends import session as saturation
from whisper_hailo.backends.onnx_file import move_weights_into_branches, read_signature
from whisper_hailo.backends.session import (
    OLDEST_RUNTIME,
    open_graph,
    open_session,
    running,
)
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import CROSS_KV_FILE, ModelSpec

_ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)
FULL = RNG.integers(-127, 128, (8, 16)).astype(np.int8)
FULL[0, 0] = -128
INPUT = RNG.integers(0, 256, (5, 8)).astype(np.uint8)


def _graph(kind: str = "BiasGelu", ir_version: int = 8, **attributes: object) -> bytes:
    """One node of Microsoft's domain, with names so long that its description is."""
    names = [f"{letter * 90}" for letter in "xy"]
    node = helper.make_node(
        kind, names, ["z" * 90], domain="com.microsoft", **attributes
    )
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])
        for name in [*names, "z" * 90]
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "node", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return bytes(model.SerializeToString())


def _refusal(graph: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        open_graph(graph, "decoder.onnx", 1)
    return str(caught.value)


def test_oldest_runtime_is_required_by_pyproject() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert f"onnxruntime>={OLDEST_RUNTIME}" in project["dependencies"]


def test_open_graph_failure_cuts_long_reasons() -> None:
    message = _refusal(_graph(causal=0))
    assert "Unrecognized attribute: causal for operator BiasGelu" in message
    assert message.endswith("); convert the checkpoint again")
    assert len(message) < 300


def test_open_graph_failure_names_an_old_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "upgrade" not in _refusal(b"")
    monkeypatch.setattr(onnxruntime, "__version__", "1.29.0")
    assert _refusal(b"").endswith(
        f"or upgrade onnxruntime: 1.29.0 is installed, {OLDEST_RUNTIME} is needed"
    )


def test_open_graph_sets_threads_without_spinning() -> None:
    """A thread that spins while it waits takes a core from the rest of the pipeline."""
    for threads in (1, 2):
        options = open_graph(_graph(), "x", threads).get_session_options()
        assert options.intra_op_num_threads == threads
        assert (
            options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
        )


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"audio_features"}, {"cross_key_0", "more"}),
        ({"audio_features", "more"}, {"cross_key_0"}),
        (set(), {"cross_key_0"}),
    ],
)
def test_open_session_with_other_ports_is_refused(
    model_directory: Path, spec: ModelSpec, inputs: set[str], outputs: set[str]
) -> None:
    with pytest.raises(ModelError, match=r"cross_kv\.onnx .*: (more|audio_features) "):
        open_session(
            model_directory, spec, 1, CROSS_KV_FILE, inputs=inputs, outputs=outputs
        )


def test_running_turns_errors_but_not_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), running("x"):
        raise KeyboardInterrupt
    with (
        pytest.raises(ModelError, match=r"^x .*\(no such axis\)"),
        running("x"),
    ):
        raise RuntimeError("no such axis")


@pytest.mark.parametrize("content", [b"", b"\xff" * 30, b"\x3a\xff\xff\xff\x7f"])
def test_open_graph_of_other_files_is_refused_in_one_line(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "encoder.onnx"
    for _ in range(2):
        with pytest.raises(
            ModelError, match=r"encoder\.onnx .*\(\[ONNXRuntimeError\].*\)"
        ) as caught:
            open_graph(path, str(path), 1)
        assert "\n" not in str(caught.value)
        path.write_bytes(content)  # it was missing before


def test_open_graph_limits_memory_to_that_of_the_machine() -> None:
    kinds = (TensorProto.FLOAT, TensorProto.INT64)
    nodes = [
        helper.make_node("Expand", ["x", "axes"], ["large"]),
        helper.make_node("ReduceMax", ["large"], ["m"], keepdims=0),
        helper.make_node("Reshape", ["m", "ones"], ["y"]),
    ]
    constants = [
        helper.make_tensor("axes", kinds[1], [3], [1000, 10**6, 10**3]),
        helper.make_tensor("ones", kinds[1], [1], [1]),
    ]
    value = [helper.make_tensor_value_info(name, kinds[0], [1]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    session = open_graph(model.SerializeToString(), "encoder", 1)
    with (
        pytest.raises(ModelError, match=r"^encoder .*ONNXRuntimeError"),
        running("encoder"),
    ):
        session.run(None, {"x": np.ones(1, np.float32)})


def _model(weights: NDArray[np.int8], *, branches: bool = False) -> ModelProto:
    """A product in 8 bits, by itself or in both branches of a graph that has the weights."""
    tensors = [numpy_helper.from_array(weights, "weights")]
    product = helper.make_node("MatMulInteger", ["codes", "weights"], ["sums"])
    sums = helper.make_tensor_value_info("sums", TensorProto.INT32, [None, 16])
    ports = [helper.make_tensor_value_info("codes", TensorProto.UINT8, [None, 8])]
    nodes = [product]
    if branches:
        ports.append(helper.make_tensor_value_info("first", TensorProto.BOOL, []))
        branch = helper.make_graph([product], "branch", [], [sums])
        nodes = [
            helper.make_node(
                "If", ["first"], ["sums"], then_branch=branch, else_branch=branch
            )
        ]
    graph = helper.make_graph(nodes, "product", ports, [sums], tensors)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def _run(model: ModelProto) -> NDArray[np.int32]:
    session = open_graph(model.SerializeToString(), "the product", 1)
    result: NDArray[np.int32] = session.run(None, {"codes": INPUT})[0]
    return result


def test_open_graph_computes_exact_8_bit_products() -> None:
    """On any processor: where it cuts sums off, the runtime is told not to."""
    np.testing.assert_array_equal(
        _run(_model(FULL)), INPUT.astype(int) @ FULL.astype(int)
    )


@pytest.mark.parametrize(
    ("cuts_off", "int8_safe_without_vnni", "is_set"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_open_graph_asks_for_exact_kernels_where_needed(
    monkeypatch: pytest.MonkeyPatch,
    cuts_off: bool,
    int8_safe_without_vnni: bool,
    is_set: bool,
) -> None:
    monkeypatch.setattr(saturation, "saturates", lambda: cuts_off)
    source = _model(FULL).SerializeToString()
    options = open_graph(
        source, "x", 1, int8_safe_without_vnni=int8_safe_without_vnni
    ).get_session_options()
    name, value = saturation.EXACT_PRODUCTS
    try:
        found = options.get_session_config_entry(name) == value
    except RuntimeError:  # never set
        found = False
    assert found is is_set


def test_read_signature_sees_signed_codes_in_branches(tmp_path: Path) -> None:
    model = _model(FULL, branches=True)
    for attribute in model.graph.node[0].attribute:
        attribute.g.initializer.extend(model.graph.initializer)
    del model.graph.initializer[:]
    path = tmp_path / "merged.onnx"
    path.write_bytes(model.SerializeToString())
    assert read_signature(path).signed_codes


def test_move_weights_makes_merged_graphs_exact(tmp_path: Path) -> None:
    path = tmp_path / "merged.onnx"
    seen = tmp_path / "seen.onnx"
    model = _model(FULL, branches=True)
    # No branch is in it.
    transpose = helper.make_node("Transpose", ["sums"], ["turned"], perm=[1, 0])
    model.graph.node.append(transpose)
    path.write_bytes(model.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(*saturation.EXACT_PRODUCTS)
    options.optimized_model_filepath = str(seen)
    session = onnxruntime.InferenceSession(
        move_weights_into_branches(path), options, providers=["CPUExecutionProvider"]
    )
    for first in (True, False):
        (sums,) = session.run(None, {"codes": INPUT, "first": np.array(first)})
        np.testing.assert_array_equal(sums, INPUT.astype(int) @ FULL.astype(int))
    assert not read_signature(seen).signed_codes  # on any processor, signs are gone


def test_move_weights_keeps_weights_of_other_nodes(tmp_path: Path) -> None:
    model = _model(FULL, branches=True)
    model.graph.node.append(
        helper.make_node("Cast", ["weights"], ["seen"], to=TensorProto.FLOAT)
    )
    path = tmp_path / "merged.onnx"
    path.write_bytes(model.SerializeToString())
    moved = load_model_from_string(move_weights_into_branches(path))
    assert [weight.name for weight in moved.graph.initializer] == ["weights"]


def test_saturates_agrees_with_the_runtimes_products() -> None:
    """It is false exactly where the runtime's fastest kernels are right."""
    options = onnxruntime.SessionOptions()
    model = _model(np.full((8, 16), 127, np.int8)).SerializeToString()
    session = onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"]
    )
    (sums,) = session.run(None, {"codes": np.full((5, 8), 255, np.uint8)})
    assert saturation.saturates() is bool((sums != 8 * 255 * 127).any())
