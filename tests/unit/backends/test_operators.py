"""Graphs that can go on for ever are refused before they are loaded, or ended."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from whisper_hailo.backends import graph_run
from whisper_hailo.backends.graph_run import running_graph
from whisper_hailo.backends.operators import BRANCHES, LOOPS, refuse_operators
from whisper_hailo.backends.session import FATAL_ONLY, open_graph
from whisper_hailo.backends.watch import Watch
from whisper_hailo.core.errors import ModelError

FLOAT = TensorProto.FLOAT


def _body(operator: str = "Identity") -> onnx.GraphProto:
    nodes = [
        helper.make_node("Identity", ["on"], ["on_out"]),
        helper.make_node(operator, ["value"], ["value_out"]),
    ]
    inputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("value", FLOAT, [1]),
    ]
    outputs = [
        helper.make_tensor_value_info("on_out", TensorProto.BOOL, []),
        helper.make_tensor_value_info("value_out", FLOAT, [1]),
    ]
    return helper.make_graph(nodes, "body", inputs, outputs)


def _model(nodes: list[onnx.NodeProto]) -> ModelProto:
    constants = [
        helper.make_tensor("most", TensorProto.INT64, [], [2**62]),
        helper.make_tensor("go", TensorProto.BOOL, [], [True]),
    ]
    value = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _endless() -> ModelProto:
    return _model([helper.make_node("Loop", ["most", "go", "x"], ["y"], body=_body())])


def _branch(operator: str) -> ModelProto:
    """A branch with one more node in it."""
    value = helper.make_tensor_value_info("out", FLOAT, [1])
    inner = helper.make_graph([helper.make_node(operator, ["x"], ["out"])], "b", [], [value])
    node = helper.make_node("If", ["go"], ["y"], then_branch=inner, else_branch=inner)
    return _model([node])


def _function() -> ModelProto:
    loop = helper.make_node("Loop", ["most", "go", "x"], ["y"], body=_body())
    model = _model([helper.make_node("Own", ["x"], ["y"], domain="own")])
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "Own", ["x"], ["y"], [loop], opsets))
    return model


@pytest.mark.parametrize("model", [_endless(), _branch("Loop"), _function(), _branch("Scan")])
def test_loops_are_refused_wherever_they_stand(model: ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(model.SerializeToString())
    for source in (path, path.read_bytes()):
        with pytest.raises(ModelError, match=r"decoder\.onnx has the operator (Loop|Scan)"):
            open_graph(source, str(path), 1)


def test_branches_are_for_graphs_of_other_programs_only() -> None:
    encoded = _branch("Identity").SerializeToString()
    assert open_graph(encoded, "merged", 1).run(None, {"x": np.ones(1, np.float32)})[0] == 1
    with pytest.raises(ModelError, match="own has the operator If"):
        refuse_operators(memoryview(encoded), "own", LOOPS | BRANCHES, "convert again")


@pytest.mark.parametrize("content", [b"", b"\xff" * 30, b"\x3a\xff\xff\xff\x7f"])
def test_what_is_no_graph_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "encoder.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is no ONNX graph"):
        open_graph(path, str(path), 1)
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        open_graph(path, str(path), 1)


def test_a_run_that_goes_on_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_run, "WATCH", Watch(limit_s=0.2, look_s=0.05))
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = FATAL_ONLY
    session = onnxruntime.InferenceSession(_endless().SerializeToString(), quiet)
    with (
        pytest.raises(ModelError, match=r"the graph was ended after 0\.2 s"),
        running_graph("the graph") as options,
    ):
        session.run(None, {"x": np.ones(1, np.float32)}, options)


def test_what_ends_in_time_is_left_alone() -> None:
    stopped: list[str] = []
    watch = Watch(limit_s=0.05, look_s=0.01)
    quick, slow = watch.begin(lambda: stopped.append("quick")), watch.begin(lambda: None)
    assert not watch.end(quick)
    while slow in watch.waiting:
        time.sleep(0.01)
    assert watch.end(slow)
    assert not stopped


def test_no_graph_gets_more_memory_than_the_machine_has() -> None:
    node = helper.make_node("Expand", ["x", "most_axes"], ["large"])
    total = helper.make_node("ReduceMax", ["large"], ["m"], keepdims=0)
    model = _model([node, total, helper.make_node("Reshape", ["m", "one"], ["y"])])
    model.graph.initializer.append(
        helper.make_tensor("most_axes", TensorProto.INT64, [3], [1000, 10**6, 10**3])
    )
    model.graph.initializer.append(helper.make_tensor("one", TensorProto.INT64, [1], [1]))
    session = open_graph(model.SerializeToString(), "encoder", 1)
    with pytest.raises(ModelError, match="encoder failed"), running_graph("encoder") as options:
        session.run(None, {"x": np.ones(1, np.float32)}, options)
