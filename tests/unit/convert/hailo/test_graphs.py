"""The two Hailo forms: node for node what the compiler is known to accept, at true sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.convert.hailo.shapes import MODELS, Weightless, inferred
from whisper_hailo.convert.graphs.builder import Graph
from whisper_hailo.convert.hailo.decoder import hailo_decoder_graph, vocabulary_chunks
from whisper_hailo.convert.hailo.encoder import hailo_encoder_graph
from whisper_hailo.convert.hailo.pieces import FixedSizes

SIZES = FixedSizes(window_s=10, length=32)

TINY_ENCODER = {
    "Conv": 2, "LayerNormalization": 9, "MatMul": 24, "Add": 35, "Mul": 16, "Reshape": 17,
    "Transpose": 17, "Split": 4, "Softmax": 4, "Div": 6, "Erf": 6,
}  # fmt: skip
"""Counted in the file that the vendor's compiler is known to accept."""


def _counts(graph: Graph) -> Counter[str]:
    return Counter(node.op_type for node in graph.proto.node)


def _shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Every value's shape; fails where an axis is no number."""
    proto = inferred(graph).graph
    shapes = {}
    for value in (*proto.input, *proto.output, *proto.value_info):
        axes = value.type.tensor_type.shape.dim
        assert all(axis.dim_value > 0 for axis in axes), value.name
        shapes[value.name] = tuple(axis.dim_value for axis in axes)
    assert {name for node in proto.node for name in node.output} <= shapes.keys()
    return shapes


def test_tiny_encoder_has_exactly_the_accepted_nodes() -> None:
    graph = hailo_encoder_graph(Weightless(MODELS["tiny"]), SIZES)
    assert _counts(graph) == TINY_ENCODER


@pytest.mark.parametrize("name", MODELS)
def test_encoder_nodes_follow_the_formula(name: str) -> None:
    dims = MODELS[name]
    n = dims.n_encoder_layers
    graph = hailo_encoder_graph(Weightless(dims), SIZES)
    assert _counts(graph) == {
        "Conv": 2, "LayerNormalization": 2 * n + 1, "MatMul": 6 * n, "Add": 3 + 8 * n,
        "Mul": 4 + 3 * n, "Reshape": 1 + 4 * n, "Transpose": 1 + 4 * n, "Split": n, "Softmax": n,
        "Div": 2 + n, "Erf": 2 + n,
    }  # fmt: skip
    shapes = _shapes(graph)
    assert shapes["x.1"] == (1, dims.n_mels, 1, 1000)
    assert shapes["525"] == (1, 500, dims.d_model)
    assert max(map(len, shapes.values())) == 4


def test_encoder_has_the_names_of_the_accepted_file() -> None:
    graph = hailo_encoder_graph(Weightless(MODELS["base"]), FixedSizes(window_s=5, length=24))
    assert graph.opset == 17
    assert [value.name for value in graph.proto.input] == ["x.1"]
    assert [value.name for value in graph.proto.output] == ["525"]
    last = graph.proto.node[-1]
    assert (last.name, last.op_type) == ("/layer_norm/LayerNormalization", "LayerNormalization")
    assert list(last.output) == ["525"]


def test_convolutions_are_two_dimensional() -> None:
    graph = hailo_encoder_graph(Weightless(MODELS["tiny"]), SIZES)
    weights = {item.name: item.weight.shape for item in graph.initializers}
    convs = [node for node in graph.proto.node if node.op_type == "Conv"]
    attributes = [{a.name: list(a.ints) for a in node.attribute} for node in convs]
    assert attributes == [
        {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1], "strides": [1, stride]} for stride in (1, 2)
    ]
    assert [weights[node.input[1]] for node in convs] == [(384, 80, 1, 3), (384, 384, 1, 3)]


@pytest.mark.parametrize("name", MODELS)
def test_decoder_nodes_follow_the_formula(name: str) -> None:
    dims = MODELS[name]
    n = dims.n_decoder_layers
    norms = 3 * n + 1
    graph = hailo_decoder_graph(Weightless(dims), SIZES)
    assert graph.opset == 13
    assert _counts(graph) == {
        "Gather": 1, "Unsqueeze": 1, "Concat": 1, "Split": n, "Softmax": 2 * n, "Erf": n,
        "ReduceMean": 2 * norms, "Sub": norms, "Pow": norms, "Sqrt": norms, "Div": norms + n,
        "Mul": norms + 4 * n, "Add": 1 + 2 * norms + 13 * n, "MatMul": 12 * n + 4,
        "Reshape": 1 + 8 * n, "Transpose": 2 + 8 * n,
    }  # fmt: skip
    shapes = _shapes(graph)
    assert shapes["decoder_input_ids"] == (1, 32)
    assert shapes["encoder_hidden_states"] == (1, 500, dims.d_model)
    assert shapes["logits"] == (1, 32, dims.n_vocab)
    assert max(map(len, shapes.values())) == 4


def test_decoder_starts_and_ends_where_the_compiler_is_told_to() -> None:
    graph = hailo_decoder_graph(Weightless(MODELS["tiny"]), SIZES)
    shapes = _shapes(graph)
    nodes = {node.name: node for node in graph.proto.node}
    flatten = nodes["/Reshape"]
    assert flatten.op_type == "Reshape"
    assert shapes[flatten.input[0]] == (1, 384, 32, 1)
    assert shapes[flatten.output[0]] == (1, 384, 32)
    chunks = [nodes[name] for name in ("/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3")]
    assert [node.op_type for node in chunks] == ["MatMul"] * 4
    widths = [shapes[node.output[0]][-1] for node in chunks]
    assert widths == [12966, 12966, 12966, 12967]
    joined = graph.proto.node[-1]
    assert (joined.op_type, joined.name) == ("Concat", "/Concat")
    assert list(joined.input) == [node.output[0] for node in chunks]


@pytest.mark.parametrize("n_vocab", [4, 30, 51864, 51865, 51866])
def test_vocabulary_chunks_cover_every_row_once(n_vocab: int) -> None:
    chunks = vocabulary_chunks(n_vocab)
    rows = [row for start, stop in chunks for row in range(start, stop)]
    assert rows == list(range(n_vocab))
    assert [stop - start for start, stop in chunks[:3]] == [n_vocab // 4] * 3
