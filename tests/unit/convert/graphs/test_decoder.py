from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from tests.fakes.decoder_inputs import values_of_codes
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import ready_weight
from whisper_hailo.convert.graphs.decoder import cross_kv_graph, decoder_graph
from whisper_hailo.convert.graphs.encoder import encoder_graph
from whisper_hailo.convert.graphs.layers import (
    Arithmetic,
    Linear,
    gelu,
    linear,
    quantize_once,
)
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    GELU_OPSET,
    OPSET,
    Graph,
    GraphBuilder,
    write_graph,
)
from whisper_hailo.core.spec import AUDIO_BLOCK, SIGNLESS_ZERO
from whisper_hailo.core.types import FloatArray

DEEP = replace(TOY, n_encoder_layers=3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    arrays, config = random_arrays(DEEP), config_of(DEEP, TOY_FFN)
    return Checkpoint(write_checkpoint(tmp_path / "checkpoint", arrays, config=config))


def _session(graph: Graph, path: Path) -> onnxruntime.InferenceSession:
    write_graph(graph, path)
    onnx.checker.check_model(path, full_check="MatMulNBits" not in path.name)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_encoder_graph_has_the_expected_nodes(checkpoint: Checkpoint) -> None:
    counts = Counter(node.op_type for node in encoder_graph(checkpoint).proto.node)
    n_layers = DEEP.n_encoder_layers
    assert counts["Conv"] == 2
    assert counts["LayerNormalization"] == 2 * n_layers + 1
    assert counts["MatMul"] == 6 * n_layers  # query, key, value, out, fc1, fc2
    assert counts["Split"] == 0
    assert counts["MultiHeadAttention"] == n_layers
    assert counts["Erf"] == n_layers + 2


def test_encoder_graph_int8_keeps_norms_in_float(checkpoint: Checkpoint) -> None:
    plain = Counter(node.op_type for node in encoder_graph(checkpoint).proto.node)
    graph = encoder_graph(checkpoint, Arithmetic.TENSOR_8)
    int8 = Counter(node.op_type for node in graph.proto.node)
    n_layers = DEEP.n_encoder_layers
    assert int8["DynamicQuantizeMatMul"] == 3 * n_layers - 1  # out, fc1, fc2
    assert int8["MatMulIntegerToFloat"] == 3 * (n_layers - 1)  # query, key, value
    assert int8["DynamicQuantizeLinear"] == n_layers - 1  # what these three see
    assert int8["MatMul"] == 4  # the first attention
    assert int8["Conv"] == 2
    assert int8["Split"] == 0
    for kept in ("MultiHeadAttention", "LayerNormalization", "Erf", "Mul", "Div"):
        assert int8[kept] == plain[kept]
    assert int8["Add"] == plain["Add"] - 5 * n_layers + 3  # the products' biases
    codes = [item for item in graph.initializers if item.name.endswith(".codes")]
    assert len(codes) == 6 * n_layers - 4
    assert {item.weight.dtype for item in codes} == {"int8"}


def test_encoder_graph_half_is_in_attention_and_gelu_only(
    checkpoint: Checkpoint,
) -> None:
    graph = encoder_graph(checkpoint, Arithmetic.TENSOR_8, half=True)
    counts = Counter(node.op_type for node in graph.proto.node)
    n_layers = DEEP.n_encoder_layers
    assert counts["GroupQueryAttention"] == n_layers
    assert counts["Gelu"] == n_layers + 2
    assert counts["MultiHeadAttention"] == counts["Erf"] == 0
    assert graph.opset == GELU_OPSET
    assert encoder_graph(checkpoint).opset == OPSET
    blocks = encoder_graph(checkpoint, Arithmetic.BLOCKS_4, half=True).proto.node
    assert sum(node.op_type == "Gelu" for node in blocks) == n_layers + 2
    int8 = Counter(
        n.op_type for n in encoder_graph(checkpoint, Arithmetic.TENSOR_8).proto.node
    )
    for kept in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "LayerNormalization"):
        assert counts[kept] == int8[kept]
    float_graph = encoder_graph(checkpoint, half=True)
    assert float_graph.proto == encoder_graph(checkpoint).proto, "float32 stays exact"


@pytest.mark.parametrize("width", [32, 200])
def test_quantize_once_gives_the_same_products(tmp_path: Path, width: int) -> None:
    """Codes for several products, to the bit what an operator that rounds by itself gives."""
    rng = np.random.default_rng(width)
    parts = {
        name: Linear(
            ready_weight(rng.standard_normal((24, width), np.float32)),
            ready_weight(rng.standard_normal(24, np.float32)) if name != "b" else None,
        )
        for name in "abc"
    }
    b = GraphBuilder("products")
    b.input("x", FLOAT, (1, "n", width))
    seen = quantize_once(b, "x", Arithmetic.TENSOR_8)
    for name, part in parts.items():
        linear(b, seen, name, part, Arithmetic.TENSOR_8)
        linear(b, "x", f"{name}_alone", part, Arithmetic.TENSOR_8)
    outputs = [*parts, *(f"{name}_alone" for name in parts)]
    for name in outputs:
        b.output(name, FLOAT, (1, "n", 24))
    session = _session(b.build(), tmp_path / "products.onnx")
    x = rng.standard_normal((1, 50, width), np.float32) + 1
    got = session.run(outputs, {"x": x})
    for together, alone, part in zip(got[:3], got[3:], parts.values(), strict=True):
        assert np.array_equal(together, alone)
        exact = x @ part.matrix.load().T + (
            0 if part.bias is None else part.bias.load()
        )
        assert np.abs(together - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize(("n_frames", "half"), [(2, False), (8, True), (100, True)])
def test_encoder_graph_int8_is_close_to_float(
    checkpoint: Checkpoint, tmp_path: Path, n_frames: int, half: bool
) -> None:
    """Also at both edges of the window, where a convolution sees padding."""
    mel = np.random.default_rng(1).standard_normal((2, 80, n_frames)).astype(np.float32)
    plain = _session(encoder_graph(checkpoint), tmp_path / "encoder.onnx")
    graph = encoder_graph(checkpoint, Arithmetic.TENSOR_8, half=half)
    int8 = _session(graph, tmp_path / "int8.onnx")
    (expected,), (got,) = (session.run(None, {"mel": mel}) for session in (plain, int8))
    assert got.shape == expected.shape == (2, n_frames // 2, 64)
    error = got - expected
    assert (
        0
        < np.sqrt(np.square(error).mean())
        < 0.05 * np.sqrt(np.square(expected).mean())
    )
    assert np.abs(error).max() < 0.2


def test_encoder_graph_accepts_any_even_length(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    session = _session(encoder_graph(checkpoint), tmp_path / "encoder.onnx")
    for batch, n_frames in ((1, 2), (2, 100), (1, 300)):
        mel = np.zeros((batch, 80, n_frames), np.float32)
        (features,) = session.run(None, {"mel": mel})
        assert features.shape == (batch, n_frames // 2, 64)


@pytest.mark.parametrize("arithmetic", [Arithmetic.FLOAT, Arithmetic.TENSOR_8])
def test_cross_kv_graph_has_its_declared_shapes(
    checkpoint: Checkpoint, tmp_path: Path, arithmetic: Arithmetic
) -> None:
    graph = cross_kv_graph(checkpoint, arithmetic)
    session = _session(graph, tmp_path / "cross_kv.onnx")
    declared = [output.shape for output in session.get_outputs()]
    features = np.ones((3, 2 * AUDIO_BLOCK - 1, 64), np.float32)
    got = session.run(None, {"audio_features": features})
    sizes = {"windows": 3, "n_positions + 1": 2 * AUDIO_BLOCK, "blocks": 2}
    assert [array.shape for array in got] == [
        tuple(sizes.get(axis, axis) for axis in shape) for shape in declared
    ]


@pytest.mark.parametrize("arithmetic", [Arithmetic.FLOAT, Arithmetic.TENSOR_8])
def test_cross_kv_graph_ends_with_the_padding_column(
    checkpoint: Checkpoint, tmp_path: Path, arithmetic: Arithmetic
) -> None:
    session = _session(
        cross_kv_graph(checkpoint, arithmetic), tmp_path / "cross_kv.onnx"
    )
    shape = (2, AUDIO_BLOCK - 1, 64)
    features = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    arrays = random_arrays(DEEP)
    for i in range(DEEP.n_decoder_layers):
        key, value = _cross(session, i, features)
        assert key.shape == (2, 2, AUDIO_BLOCK, 32)
        assert value.shape == (2, 2, AUDIO_BLOCK, 32)
        bias = arrays[f"decoder.layers.{i}.encoder_attn.v_proj.bias"].reshape(2, 32)
        assert np.all(key[:, :, -1] == 0)
        step = 0 if arithmetic is Arithmetic.FLOAT else np.abs(value).max(axis=2) / 127
        assert np.all(np.abs(value[:, :, -1] - bias) <= step * 0.501)


def _cross(
    session: onnxruntime.InferenceSession, layer: int, features: FloatArray
) -> FloatArray:
    """Key and value of a layer, `(2, batch, heads, n_positions + 1, head_size)`."""
    names = [
        output.name
        for output in session.get_outputs()
        if output.name.endswith(f"_{layer}")
    ]
    got = dict(
        zip(names, session.run(names, {"audio_features": features}), strict=True)
    )
    parts = []
    for part in ("key", "value"):
        array = got[f"cross_{part}_{layer}"]
        if len(got) == 4:
            array = values_of_codes(array, got[f"cross_{part}_scale_{layer}"])
        parts.append(array)
    return np.stack(parts)


def test_cross_kv_graph_int8_is_close_at_any_level(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    shape = (2, 2 * AUDIO_BLOCK - 1, 64)
    features = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    features[1] *= 0.01
    plain = _session(cross_kv_graph(checkpoint), tmp_path / "plain.onnx")
    codes = _session(
        cross_kv_graph(checkpoint, Arithmetic.TENSOR_8), tmp_path / "codes.onnx"
    )
    for row in range(2):
        window = features[row : row + 1].repeat(2, axis=0)
        expected, got = (_cross(session, 0, window) for session in (plain, codes))
        step = np.abs(expected).max(axis=3).mean() / 127
        assert np.sqrt(np.square(got - expected).mean()) < step


@pytest.mark.parametrize("n_blocks", [1, 2, 4])
def test_cross_kv_graph_int8_uses_all_steps_of_channels(
    checkpoint: Checkpoint, tmp_path: Path, n_blocks: int
) -> None:
    """Of each window by itself, wherever in it the largest value lies."""
    session = _session(
        cross_kv_graph(checkpoint, Arithmetic.TENSOR_8), tmp_path / "cross_kv.onnx"
    )
    features = np.random.default_rng(0).standard_normal(
        (3, n_blocks * AUDIO_BLOCK - 1, 64)
    )
    features = features.astype(np.float32)
    features[1] *= 0.01
    features[2] = 0.0
    names = [
        f"cross_{part}_{i}"
        for i in range(DEEP.n_decoder_layers)
        for part in ("key", "value")
    ]
    for codes in session.run(names, {"audio_features": features}):
        steps = values_of_codes(codes, np.ones((3, 1, 2, 32), np.float32))
        assert np.all(np.abs(steps[:2]).max(axis=2) == 127)
    silent = session.run(["cross_key_0"], {"audio_features": features})[0][2]
    assert (silent == SIGNLESS_ZERO).all()


def test_decoder_graph_has_few_nodes(checkpoint: Checkpoint) -> None:
    """Each costs microseconds at every step, whatever it computes."""
    counts = Counter(
        node.op_type for node in decoder_graph(checkpoint, ((1, 0),)).proto.node
    )
    n_layers = DEEP.n_decoder_layers
    assert counts["GroupQueryAttention"] == counts["MultiHeadAttention"] == n_layers
    int8 = decoder_graph(checkpoint, ((1, 0),), Arithmetic.BLOCKS_8)
    counts_8 = Counter(node.op_type for node in int8.proto.node)
    assert counts_8["GroupQueryAttention"] == n_layers
    assert counts_8["MatMulInteger"] == 2 * n_layers
    assert len(int8.proto.node) <= 60 * n_layers
    assert counts["LayerNormalization"] == 3 * n_layers + 1
    # Alignment is computed by the host.
    assert counts["Softmax"] == counts["Transpose"] == 0
    assert counts["Range"] == counts["Where"] == 0  # masks come from the host


def test_decoder_graph_queries_follow_alignment_heads(checkpoint: Checkpoint) -> None:
    graph = decoder_graph(checkpoint, ((0, 1), (1, 0)))
    shapes = {value.name: value.type.tensor_type.shape for value in graph.proto.output}
    assert {"query_0", "query_1"} <= set(shapes)
    assert "query_0" not in {
        v.name for v in decoder_graph(checkpoint, ((1, 0),)).proto.output
    }
    assert shapes["logits"].dim[2].dim_value == DEEP.n_vocab


@pytest.mark.parametrize("value", [-8.0, -1.0, 0.0, 0.3, 8.0])
def test_gelu_is_exact(tmp_path: Path, value: float) -> None:
    from math import erf

    b = GraphBuilder("gelu")
    gelu(b, b.input("x", FLOAT, (1,)), "y")
    b.output("y", FLOAT, (1,))
    (got,) = _session(b.build(), tmp_path / "gelu.onnx").run(
        None, {"x": np.array([value], np.float32)}
    )
    assert got[0] == pytest.approx(value * 0.5 * (1 + erf(value / 2**0.5)), abs=1e-6)
