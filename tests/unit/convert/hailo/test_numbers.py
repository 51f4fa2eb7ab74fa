"""What the Hailo forms compute, beside a Whisper that is written out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.checkpoints import TOY, Arrays, config_of, random_arrays, write_checkpoint
from tests.unit.convert.graphs.plain_whisper import Values, decode, encode
from tests.unit.convert.hailo.shapes import MODELS, Weightless
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.builder import Graph
from whisper_hailo.convert.graphs.onnx_file import write_graph
from whisper_hailo.convert.hailo.decoder import hailo_decoder_graph
from whisper_hailo.convert.hailo.encoder import hailo_encoder_graph
from whisper_hailo.convert.hailo.pieces import FixedSizes

DIMS = replace(TOY, d_model=48, n_encoder_layers=2, n_encoder_heads=2, n_decoder_heads=3)
SIZES = FixedSizes(window_s=1, length=5)
LARGEST_ERROR = 1e-5
"""Of the largest value: float32 sums of some hundred terms in another order."""


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
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {name.replace("_1", ".1"): feed[name] for name in feed})
    return np.asarray(result)


def difference(got: Values, expected: Values) -> float:
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def test_the_encoder(checkpoint: Checkpoint, arrays: Arrays, tmp_path: Path) -> None:
    mel = np.random.default_rng(0).standard_normal((80, 100)).astype(np.float32)
    graph = hailo_encoder_graph(checkpoint, SIZES)
    got = computed(graph, tmp_path, x_1=mel[None, :, None])
    assert difference(got[0], encode(arrays, mel, DIMS.n_encoder_heads)) < LARGEST_ERROR


def test_the_decoder(checkpoint: Checkpoint, arrays: Arrays, tmp_path: Path) -> None:
    features = np.random.default_rng(1).standard_normal((50, 48)).astype(np.float32)
    tokens = np.array([11, 0, 199, 11, 7])
    graph = hailo_decoder_graph(checkpoint, SIZES)
    got = computed(
        graph, tmp_path, decoder_input_ids=tokens[None], encoder_hidden_states=features[None]
    )
    expected = decode(arrays, tokens, features, DIMS.n_decoder_heads)
    assert difference(got[0], expected) < LARGEST_ERROR


@pytest.mark.parametrize("build", [hailo_encoder_graph, hailo_decoder_graph])
def test_every_shape_is_a_number(build: type) -> None:
    """No axis is left to be taken from an input, or to be found out."""
    graph: Graph = build(Weightless(MODELS["tiny"]), FixedSizes(window_s=10, length=32))
    shapes = {node.input[1] for node in graph.proto.node if node.op_type == "Reshape"}
    constants = {item.name: item.weight for item in graph.initializers}
    assert shapes <= constants.keys()
    assert all((constants[name].load() > 0).all() for name in shapes)


def test_the_mask_is_nothing_up_to_the_own_position_and_all_behind_it() -> None:
    graph = hailo_decoder_graph(Weightless(MODELS["tiny"]), FixedSizes(window_s=10, length=3))
    (mask,) = (item.weight for item in graph.initializers if item.name == "decoder.causal_mask")
    far = -np.inf
    assert mask.load().tolist() == [[[[0, far, far], [0, 0, far], [0, 0, 0]]]]
