"""Drift is found and named: by name in our own graphs, by topology in those of others."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper

from whisper_hailo.core.errors import ModelError
from whisper_hailo.validate import inner
from whisper_hailo.validate.inner import InnerGraph
from whisper_hailo.validate.limits import BLOCKS, EXACT
from whisper_hailo.validate.nodes import (
    NodeComparison,
    aligned,
    compare_by_name,
    compare_by_topology,
)

MEL = np.random.default_rng(5).standard_normal((1, 80, 1, 200)).astype(np.float32)
EPSILON = "epsilon"
FC1 = "encoder.layers.0.fc1.weight"


def _load(model: Path) -> ModelProto:
    return onnx.load(model / "hailo" / "encoder-2s.onnx")


def _graph(proto: ModelProto, name: str = "x.1", label: str = "g") -> InnerGraph:
    encoded = proto.SerializeToString()
    return InnerGraph.from_bytes(encoded, {name: MEL}, label=label, folder=Path())


def _estranged(proto: ModelProto) -> ModelProto:
    """The same computation as another exporter might write it: names, order, pieces of a norm."""
    other = ModelProto()
    other.CopyFrom(proto)
    graph = other.graph
    nodes = [part for node in graph.node for part in _in_pieces(node)]
    names = {name for node in nodes for name in (*node.input, *node.output) if name}
    names |= {item.name for item in graph.initializer}
    shuffled = random.Random(1).sample(sorted(names), len(names))
    new = {name: f"v{number}" for number, name in enumerate(shuffled)}
    for node in nodes:
        node.name = ""
        node.input[:] = [new[name] for name in node.input]
        node.output[:] = [new[name] for name in node.output]
    for item in (*graph.initializer, *graph.input, *graph.output):
        item.name = new[item.name]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.append(numpy_helper.from_array(np.array(1e-5, np.float32), new[EPSILON]))
    return other


def _in_pieces(node: NodeProto) -> list[NodeProto]:
    if node.op_type != "LayerNormalization":
        return [node]
    x, scale, bias = node.input
    out = node.output[0]
    made = [
        ("ReduceMean", [x], "mean", {"axes": [-1]}),
        ("Sub", [x, f"{out}.mean"], "centred", {}),
        ("Mul", [f"{out}.centred", f"{out}.centred"], "squares", {}),
        ("ReduceMean", [f"{out}.squares"], "variance", {"axes": [-1]}),
        ("Add", [f"{out}.variance", EPSILON], "safe", {}),
        ("Sqrt", [f"{out}.safe"], "deviation", {}),
        ("Div", [f"{out}.centred", f"{out}.deviation"], "unit", {}),
        ("Mul", [f"{out}.unit", scale], "scaled", {}),
    ]
    nodes = [
        helper.make_node(kind, inputs, [f"{out}.{suffix}"], **more)
        for kind, inputs, suffix, more in made
    ]
    return [*nodes, helper.make_node("Add", [f"{out}.scaled", bias], [out])]


def _spoiled(proto: ModelProto, name: str) -> ModelProto:
    """One weight is a little off."""
    other = ModelProto()
    other.CopyFrom(proto)
    item = next(item for item in other.graph.initializer if item.name == name)
    array = numpy_helper.to_array(item).copy()
    array[0] += 0.1
    item.CopyFrom(numpy_helper.from_array(array, name))
    return other


def _beside_another(ours: ModelProto, theirs: ModelProto) -> NodeComparison:
    stranger = _estranged(theirs)
    name = stranger.graph.input[0].name
    return compare_by_topology(_graph(ours), _graph(stranger, name), {"x.1": name}, EXACT)


def test_a_stranger_with_the_same_weights(toy_model: Path) -> None:
    proto = _load(toy_model)
    found = _beside_another(proto, proto)
    assert found.first is None
    assert found.first_alone is None
    assert found.n_alone == 0
    by_value = Counter(node.operator for node in found.nodes if node.how == "value")
    # A norm is many nodes there and one here; the outputs of a Split say which is which by value.
    assert by_value == {"LayerNormalization": 3, "Split": 3}
    assert {node.how for node in found.nodes} == {"operator", "value"}
    assert found.n_theirs_alone == 3 * 8
    assert max(node.found.relative for node in found.nodes) < 1e-5


def test_the_first_node_that_differs_is_named(toy_model: Path) -> None:
    proto = _load(toy_model)
    found = _beside_another(proto, _spoiled(proto, FC1))
    assert found.first is not None
    assert found.first.node == "encoder.layers.0.fc1.product"
    assert found.first.how == "operator, other weights"
    assert found.first.found.relative > 1e-3


def test_another_model_is_told_apart_from_its_first_node_on(toy_model: Path) -> None:
    proto = _load(toy_model)
    found = _beside_another(proto, _spoiled(proto, "encoder.conv1.weight"))
    assert found.first is not None
    assert found.first.node == "encoder.conv1"


def test_by_name(toy_model: Path) -> None:
    proto = _load(toy_model)
    same = compare_by_name(_graph(proto), _graph(proto), "525", EXACT)
    assert same.first is None
    assert {node.how for node in same.nodes} == {"name"}
    spoiled = compare_by_name(_graph(proto), _graph(_spoiled(proto, FC1)), "525", EXACT)
    assert spoiled.first is not None
    assert spoiled.first.node == "encoder.layers.0.fc1.product"
    facts = spoiled.to_dict()
    assert facts["first_difference"]["operator"] == "MatMul"
    assert facts["matched"] == {"name": len(same.nodes)}


def _two_factors(first: float, second: float) -> ModelProto:
    """`x * first * second`, with a millionth of `x * first` added."""
    made = helper.make_node
    nodes = [
        made("Mul", ["x", "first"], ["query"], "query"),
        made("Mul", ["query", "second"], ["product"], "product"),
        made("Mul", ["x", "small"], ["part"], "part"),
        made("Add", ["product", "part"], ["sum"], "sum"),
    ]
    value = {"first": first, "second": second, "small": first / 1e6}
    weights = [numpy_helper.from_array(np.float32(number), name) for name, number in value.items()]
    entry, result = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, MEL.shape)
        for name in ("x", "sum")
    )
    graph = helper.make_graph(nodes, "g", [entry], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def test_a_factor_that_the_next_node_takes_back_is_no_drift_and_one_lost_in_a_sum_is() -> None:
    ours, theirs = (_graph(_two_factors(*pair), "x") for pair in ((2.0, 3.0), (6.0, 1.0)))
    found = compare_by_name(ours, theirs, "sum", BLOCKS["int8"])
    assert {node.node for node in found.nodes if node.healed} == {"query"}
    assert found.first is not None
    assert found.first.node == "part"


def test_values_come_in_pieces_that_fit(toy_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph(_load(toy_model))
    names = [node.output[0] for node in graph.nodes]
    whole = {name: array for part in graph.values(names) for name, array in part.items()}
    assert list(whole) == names
    assert all(graph.sizes[name] == array.nbytes for name, array in whole.items())
    monkeypatch.setattr(inner, "BATCH_BYTES", 100_000)
    pieces = list(graph.values(names))
    assert len(pieces) > 3
    for piece in pieces:
        assert len(piece) == 1 or sum(array.nbytes for array in piece.values()) <= 100_000
    again = {name: array for part in pieces for name, array in part.items()}
    assert list(again) == names
    assert all(np.array_equal(again[name], whole[name]) for name in names)


def test_graphs_in_graphs_are_refused(toy_model: Path) -> None:
    proto = _load(toy_model)
    branch = helper.make_graph([], "then", [], [])
    proto.graph.node.append(
        helper.make_node(
            "If", ["x.1"], ["y"], name="choose", then_branch=branch, else_branch=branch
        )
    )
    with pytest.raises(ModelError, match=r"graph inside a graph \(choose\)"):
        _graph(proto)


def _of_nodes(nodes: list[NodeProto], outputs: list[str], **weights: float) -> InnerGraph:
    """`x` through some nodes; weights are as long as a frame is wide."""
    held = [
        numpy_helper.from_array(np.linspace(value, 2 * value, 200, dtype=np.float32), name)
        for name, value in weights.items()
    ]
    entry, *results = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, MEL.shape)
        for name in ("x", *outputs)
    )
    graph = helper.make_graph(nodes, "g", [entry], results, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return _graph(model, "x")


def test_what_only_one_of_two_ways_takes_back_is_drift() -> None:
    made = helper.make_node
    nodes = [
        made("Mul", ["x", "first"], ["query"], "query"),
        made("Mul", ["query", "second"], ["left"], "left"),
        made("Mul", ["query", "third"], ["right"], "right"),
    ]
    ours = _of_nodes(nodes, ["left", "right"], first=2, second=3, third=5)
    theirs = _of_nodes(nodes, ["left", "right"], first=4, second=1.5, third=5)
    found = compare_by_topology(ours, theirs, {"x": "x"}, EXACT)
    assert found.first is not None
    assert found.first.node == "query"
    both = _of_nodes(nodes, ["left", "right"], first=4, second=1.5, third=2.5)
    assert compare_by_topology(ours, both, {"x": "x"}, EXACT).first is None


def test_a_difference_is_not_the_one_the_other_way_round() -> None:
    made = helper.make_node
    parts = [
        made("Mul", ["x", "first"], ["a"], "a"),
        made("Mul", ["x", "second"], ["b"], "b"),
        made("Sub", ["a", "b"], ["ahead"], "ahead"),
        made("Sub", ["b", "a"], ["behind"], "behind"),
    ]
    turned = [*parts[:2], parts[3], parts[2]]
    graphs = (_of_nodes(nodes, ["ahead", "behind"], first=2, second=3) for nodes in (parts, turned))
    found = compare_by_topology(*graphs, {"x": "x"}, EXACT)
    assert found.first is None
    assert [node.other for node in found.nodes] == ["a", "b", "ahead", "behind"]


def test_nodes_that_only_one_graph_has_are_counted() -> None:
    made = helper.make_node
    scale = made("Mul", ["x", "first"], ["scaled"], "scaled")
    plain = _of_nodes([scale, made("Relu", ["scaled"], ["y"], "y")], ["y"], first=2)
    rounds = [made("Round", ["scaled"], ["whole"]), made("Relu", ["whole"], ["y"], "y")]
    rounded = _of_nodes([scale, *rounds], ["y"], first=2)
    found = compare_by_name(plain, rounded, "y", EXACT)
    assert (found.n_alone, found.n_theirs_alone) == (0, 1)
    back = compare_by_name(rounded, plain, "y", EXACT)
    assert (back.n_alone, back.n_theirs_alone) == (1, 0)


def test_axes_are_turned_as_the_values_say() -> None:
    expected = np.random.default_rng(2).standard_normal((3, 3, 2))
    np.testing.assert_array_equal(aligned(expected.transpose(2, 1, 0), expected), expected)
    np.testing.assert_array_equal(aligned(expected[:, None], expected), expected)
    heads = np.arange(24.0).reshape(2, 3, 4)  # two heads of three positions, side by side there
    merged = heads.transpose(1, 0, 2).reshape(3, 8)
    np.testing.assert_array_equal(aligned(merged, heads), heads)
