"""The two Hailo forms, node by node as the compiler accepts them, at true sizes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.checkpoints import TOY, Arrays, config_of, random_arrays, write_checkpoint
from tests.fakes.model_sizes import MODELS, Weightless, inferred
from tests.fakes.plain_whisper import Values, decode, encode
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.onnx_graph import Graph, write_graph
from whisper_hailo.convert.hailo_forms import (
    FixedSizes,
    fixed_sizes,
    hailo_decoder_graph,
    hailo_encoder_graph,
    vocabulary_chunks,
)
from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError

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


def test_hailo_encoder_of_tiny_has_the_accepted_nodes() -> None:
    graph = hailo_encoder_graph(Weightless(MODELS["tiny"]), SIZES)
    assert _counts(graph) == TINY_ENCODER


@pytest.mark.parametrize("name", MODELS)
def test_hailo_encoder_nodes_follow_the_formula(name: str) -> None:
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


def test_hailo_encoder_has_the_accepted_names() -> None:
    graph = hailo_encoder_graph(
        Weightless(MODELS["base"]), FixedSizes(window_s=5, length=24)
    )
    assert graph.opset == 17
    assert [value.name for value in graph.proto.input] == ["x.1"]
    assert [value.name for value in graph.proto.output] == ["525"]
    last = graph.proto.node[-1]
    assert (last.name, last.op_type) == (
        "/layer_norm/LayerNormalization",
        "LayerNormalization",
    )
    assert list(last.output) == ["525"]


def test_hailo_encoder_convolutions_are_two_dimensional() -> None:
    graph = hailo_encoder_graph(Weightless(MODELS["tiny"]), SIZES)
    weights = {item.name: item.weight.shape for item in graph.initializers}
    convs = [node for node in graph.proto.node if node.op_type == "Conv"]
    attributes = [{a.name: list(a.ints) for a in node.attribute} for node in convs]
    assert attributes == [
        {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1], "strides": [1, stride]}
        for stride in (1, 2)
    ]
    assert [weights[node.input[1]] for node in convs] == [
        (384, 80, 1, 3),
        (384, 384, 1, 3),
    ]


@pytest.mark.parametrize("name", MODELS)
def test_hailo_decoder_nodes_follow_the_formula(name: str) -> None:
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


def test_hailo_decoder_has_the_start_and_end_nodes() -> None:
    graph = hailo_decoder_graph(Weightless(MODELS["tiny"]), SIZES)
    shapes = _shapes(graph)
    nodes = {node.name: node for node in graph.proto.node}
    flatten = nodes["/Reshape"]
    assert flatten.op_type == "Reshape"
    assert shapes[flatten.input[0]] == (1, 384, 32, 1)
    assert shapes[flatten.output[0]] == (1, 384, 32)
    chunks = [
        nodes[name] for name in ("/MatMul", "/MatMul_1", "/MatMul_2", "/MatMul_3")
    ]
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


DIMS = replace(
    TOY, d_model=48, n_encoder_layers=2, n_encoder_heads=2, n_decoder_heads=3
)
SMALL_SIZES = FixedSizes(window_s=1, length=5)
LARGEST_ERROR = 1e-5
"""Share of the largest value: float32 sums of some hundred terms in another order."""


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    return random_arrays(DIMS)


@pytest.fixture
def checkpoint(arrays: Arrays, tmp_path: Path) -> Checkpoint:
    return Checkpoint(write_checkpoint(tmp_path, arrays, config=config_of(DIMS)))


def computed(graph: Graph, folder: Path, **feed: Values) -> Values:
    """As the graph says: fused by the runtime, an addition and a norm behind it ask for no axis."""
    path = folder / "graph.onnx"
    write_graph(graph, path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    (result,) = session.run(
        None, {name.replace("_1", ".1"): feed[name] for name in feed}
    )
    return np.asarray(result)


def difference(got: Values, expected: Values) -> float:
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def test_hailo_encoder_is_valid(
    checkpoint: Checkpoint, arrays: Arrays, tmp_path: Path
) -> None:
    mel = np.random.default_rng(0).standard_normal((80, 100)).astype(np.float32)
    graph = hailo_encoder_graph(checkpoint, SMALL_SIZES)
    got = computed(graph, tmp_path, x_1=mel[None, :, None])
    assert difference(got[0], encode(arrays, mel, DIMS.n_encoder_heads)) < LARGEST_ERROR


def test_hailo_decoder_is_valid(
    checkpoint: Checkpoint, arrays: Arrays, tmp_path: Path
) -> None:
    features = np.random.default_rng(1).standard_normal((50, 48)).astype(np.float32)
    tokens = np.array([11, 0, 199, 11, 7])
    graph = hailo_decoder_graph(checkpoint, SMALL_SIZES)
    got = computed(
        graph,
        tmp_path,
        decoder_input_ids=tokens[None],
        encoder_hidden_states=features[None],
    )
    expected = decode(arrays, tokens, features, DIMS.n_decoder_heads)
    assert difference(got[0], expected) < LARGEST_ERROR


@pytest.mark.parametrize("build", [hailo_encoder_graph, hailo_decoder_graph])
def test_hailo_graphs_have_fixed_shapes(build: type) -> None:
    """No axis is left to be taken from an input, or to be found out."""
    graph: Graph = build(Weightless(MODELS["tiny"]), FixedSizes(window_s=10, length=32))
    shapes = {node.input[1] for node in graph.proto.node if node.op_type == "Reshape"}
    constants = {item.name: item.weight for item in graph.initializers}
    assert shapes <= constants.keys()
    assert all((constants[name].load() > 0).all() for name in shapes)


def test_hailo_decoder_mask_hides_later_positions() -> None:
    graph = hailo_decoder_graph(
        Weightless(MODELS["tiny"]), FixedSizes(window_s=10, length=3)
    )
    (mask,) = (
        item.weight for item in graph.initializers if item.name == "decoder.causal_mask"
    )
    far = -np.inf
    assert mask.load().tolist() == [[[[0, far, far], [0, 0, far], [0, 0, 0]]]]


TINY = MODELS["tiny"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("tiny", (10, 32)), ("tiny.en", (10, 32)), ("base", (5, 24)), ("small", (5, 24))],
)
def test_fixed_sizes_defaults_by_model_size(
    name: str, expected: tuple[int, int]
) -> None:
    assert fixed_sizes(HailoOptions(), MODELS[name]) == FixedSizes(*expected)


@pytest.mark.parametrize(
    ("name", "expected"), [("tiny", (10, 32)), ("base", (10, 64)), ("small", (5, 24))]
)
def test_fixed_sizes_defaults_on_hailo_10h(
    name: str, expected: tuple[int, int]
) -> None:
    options = HailoOptions(arch="hailo10h")
    assert fixed_sizes(options, MODELS[name]) == FixedSizes(*expected)
    assert fixed_sizes(replace(options, window_s=3), MODELS[name]).window_s == 3


@pytest.mark.parametrize(
    ("d_model", "arch", "expected"),
    [
        (383, None, (10, 32)),
        (385, None, (5, 24)),
        (385, "hailo10h", (10, 64)),
        (511, "hailo10h", (10, 64)),
        (513, "hailo10h", (5, 24)),
    ],
)
def test_fixed_sizes_between_widths_take_the_next_larger(
    d_model: int, arch: str | None, expected: tuple[int, int]
) -> None:
    dims = replace(TINY, d_model=d_model, n_encoder_heads=1, n_decoder_heads=1)
    assert fixed_sizes(HailoOptions(arch=arch), dims) == FixedSizes(*expected)


def test_fixed_sizes_of_the_smallest_models() -> None:
    dims = replace(TINY, n_audio_ctx=50, n_vocab=4)
    assert fixed_sizes(HailoOptions(), dims) == FixedSizes(window_s=1, length=32)


def test_hailo_options_refuse_unknown_chips() -> None:
    with pytest.raises(OptionError, match="hailo9"):
        HailoOptions(arch="hailo9")


def test_fixed_sizes_defaults_fit_small_contexts() -> None:
    dims = replace(TINY, n_audio_ctx=150, n_text_ctx=20)
    assert fixed_sizes(HailoOptions(), dims) == FixedSizes(window_s=3, length=20)


@pytest.mark.parametrize("window_s", [1, 2.0, 7, 30])
def test_fixed_sizes_accept_any_whole_second(window_s: float) -> None:
    sizes = fixed_sizes(HailoOptions(window_s=window_s), TINY)
    assert (sizes.window_s, sizes.n_frames, sizes.n_positions) == (
        window_s, 100 * window_s, 50 * window_s,
    )  # fmt: skip
    assert isinstance(sizes.window_s, int)


@pytest.mark.parametrize(
    "window_s", [0, -1, 0.5, 2.5, 31, 1e9, math.nan, math.inf, -math.inf]
)
def test_fixed_sizes_refuse_other_windows(window_s: float) -> None:
    with pytest.raises(OptionError, match="--window"):
        fixed_sizes(HailoOptions(window_s=window_s), TINY)


def test_fixed_sizes_limit_the_window_to_the_context() -> None:
    with pytest.raises(OptionError, match=r"--window .*\b4\b"):
        fixed_sizes(HailoOptions(window_s=4), replace(TINY, n_audio_ctx=150))


@pytest.mark.parametrize("length", [1, 24, 448])
def test_fixed_sizes_accept_any_length_in_the_context(length: int) -> None:
    assert fixed_sizes(HailoOptions(decoder_length=length), TINY).length == length


@pytest.mark.parametrize("length", [0, -3, 449])
def test_fixed_sizes_refuse_other_lengths(length: int) -> None:
    with pytest.raises(OptionError, match=f"--decoder-length .*{length}"):
        fixed_sizes(HailoOptions(decoder_length=length), TINY)


@pytest.mark.parametrize("change", [{"n_audio_ctx": 49}, {"n_vocab": 3}])
def test_fixed_sizes_refuse_models_without_a_form(change: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="Hailo"):
        fixed_sizes(HailoOptions(), replace(TINY, **change))
