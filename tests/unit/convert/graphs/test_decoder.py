"""The decoder graph, and all graphs together against a Whisper written out in NumPy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from tests.checkpoints import (
    TOY,
    TOY_FFN,
    Arrays,
    config_of,
    random_arrays,
    write_checkpoint,
)
from tests.fakes.graphs import DEEP, checkpoint, open_session
from tests.fakes.model_sizes import values_of_codes
from tests.fakes.plain_whisper import (
    Values,
    convolve,
    decode,
    encode,
    norm,
)
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import ready_weight
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.graphs.decoder import (
    cross_kv_graph,
    decoder_graph,
)
from whisper_hailo.convert.graphs.encoder import convolution
from whisper_hailo.convert.graphs.layers import (
    Arithmetic,
    layer_norm,
)
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    GraphBuilder,
    WhisperBuilder,
    write_graph,
)
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import AUDIO_BLOCK, SIGNLESS_ZERO, ModelSpec
from whisper_hailo.core.types import FloatArray

__all__ = ["checkpoint"]
DIMS = replace(
    TOY, d_model=96, n_encoder_layers=2, n_encoder_heads=2, n_decoder_heads=3
)
"""Rows that are no whole largest block, heads of another number and width in either half."""
PROMPT = np.array([[11, 5, 7], [11, 199, 0]])
NEXT = np.array([[9], [120]])
PADDED = 40


@pytest.mark.parametrize("arithmetic", [Arithmetic.FLOAT, Arithmetic.TENSOR_8])
def test_cross_kv_graph_has_its_declared_shapes(
    checkpoint: Checkpoint, tmp_path: Path, arithmetic: Arithmetic
) -> None:
    graph = cross_kv_graph(checkpoint, arithmetic)
    session = open_session(graph, tmp_path / "cross_kv.onnx")
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
    session = open_session(
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
    plain = open_session(cross_kv_graph(checkpoint), tmp_path / "plain.onnx")
    codes = open_session(
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
    """Each window has its own scale, wherever its largest value lies."""
    session = open_session(
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


@pytest.mark.parametrize(
    ("n_vocab", "n_4_bits"), [(4000, 1), (200, 1 + 5 * TOY.n_decoder_layers)]
)
def test_decoder_graph_has_the_bits_of_its_precision(
    tmp_path: Path, n_vocab: int, n_4_bits: int
) -> None:
    """One product in 4 bits under a large table, all but query, key and value under a small one."""
    dims = replace(TOY, n_vocab=n_vocab, d_model=128)
    arrays = random_arrays(dims, TOY_FFN)
    path = write_checkpoint(
        tmp_path / "checkpoint", arrays, config=config_of(dims, TOY_FFN)
    )
    nodes = decoder_graph(Checkpoint(path), ((1, 0),), Arithmetic.BLOCKS_4).proto.node
    bits = {
        node.output[0]: helper.get_node_attr_value(node, "bits")
        for node in nodes
        if node.op_type in ("MatMulNBits", "GatherBlockQuantized")
    }
    assert sum(value == 4 for value in bits.values()) == n_4_bits
    assert bits["logits"] == 4
    blocks = {
        node.output[0]: helper.get_node_attr_value(node, "block_size")
        for node in nodes
        if node.op_type == "MatMulNBits"
    }
    assert blocks["logits"] == 128
    assert {blocks[name] for name, value in bits.items() if value == 4} <= {64, 128}
    levels = {
        helper.get_node_attr_value(node, "accuracy_level")
        for node in nodes
        if node.op_type == "MatMulNBits"
    }
    assert levels == {4}, "ONNX Runtime's number for products in int8"
    assert bits["decoder.tokens"] == 8
    assert {value for name, value in bits.items() if name.endswith(".qkv")} == {8}


@pytest.mark.parametrize(
    ("arithmetic", "is_corrected"),
    [(Arithmetic.BLOCKS_8, False), (Arithmetic.BLOCKS_4, True)],
)
def test_decoder_graph_corrects_the_mean_of_4_bit_logits(
    tmp_path: Path, arithmetic: Arithmetic, is_corrected: bool
) -> None:
    graph = decoder_graph(
        Checkpoint(write_checkpoint(tmp_path / "x")), ((1, 0),), arithmetic
    )
    names = [item.name for item in graph.initializers]
    assert ("decoder.projection.shift" in names) is is_corrected


@dataclass(frozen=True)
class Model:
    """A checkpoint's arrays, and what they were converted to; how far off sums may be."""

    arrays: Arrays
    path: Path
    spec: ModelSpec
    most: float


@pytest.fixture(
    scope="module",
    # A product in 8 bits is off by 1/127/sqrt(12) of its largest value, some 1 % of a usual one:
    # 5 % after 30 of them. Twice as much is allowed; what is wrong is off by all of it.
    params=[("none", False, 1e-5), ("int8", False, 0.1), ("int8", True, 0.1)],
    ids=["float", "8-bits", "8-bits and half"],
)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Model:
    quantize, half, most = request.param
    root = tmp_path_factory.mktemp("plain")
    arrays = random_arrays(DIMS)
    for name in arrays:
        if "q_proj" in name:  # so that attention looks at some places, not at all alike
            arrays[name] = arrays[name] * np.float32(3)
    config = config_of(DIMS, TOY_FFN)
    checkpoint = write_checkpoint(root / "checkpoint", arrays, config=config)
    options = ConvertOptions(quantize, quantize, half=half)
    spec = convert_checkpoint(checkpoint, root / "model", options)
    return Model(arrays, root / "model", spec, most)


def _off(got: Values, expected: Values) -> float:
    """Root of the mean square of the error, relative to what is expected."""
    assert got.shape == expected.shape
    return float(np.sqrt(np.square(got - expected).mean() / np.square(expected).mean()))


def test_encoder_matches_plain_whisper(model: Model) -> None:
    mel = np.random.default_rng(0).standard_normal((2, 80, 60)).astype(np.float32)
    with OnnxEncoder(model.path, model.spec, threads=1) as encoder:
        got = encoder.encode(mel)
    for row, features in enumerate(got):
        expected = encode(model.arrays, mel[row], DIMS.n_encoder_heads)
        assert _off(features, expected) < model.most


def test_decoder_matches_plain_whisper(model: Model) -> None:
    """A prompt, and a token behind it; zero rows behind the features count."""
    features = np.random.default_rng(1).standard_normal((2, 30, 96)).astype(np.float32)
    features[1] *= 0.2
    with CachedDecoder(model.path, model.spec, threads=1) as decoder:
        state = decoder.start(features, (Padding(None), Padding(PADDED)))
        first, state = decoder.step(PROMPT, state, np.arange(3))
        got = [first.logits.copy()]
        got.append(decoder.step(NEXT, state, np.array([0]))[0].logits)
    for row, logits in enumerate(np.concatenate(got, axis=1)):
        padded = (
            features[row]
            if row == 0
            else np.pad(features[row], ((0, PADDED - 30), (0, 0)))
        )
        tokens = np.concatenate([PROMPT[row], NEXT[row]])
        assert _off(logits, decode(model.arrays, tokens, padded, 3)) < model.most


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_layer_norm_of_small_values_is_bounded_by_epsilon(
    tmp_path: Path, size: float
) -> None:
    arrays = random_arrays(TOY)
    checkpoint = Checkpoint(write_checkpoint(tmp_path / "checkpoint", arrays))
    b = WhisperBuilder("norm", checkpoint)
    layer_norm(b, b.input("x", FLOAT, ("batch", "n", 64)), "y", "encoder.layer_norm")
    b.output("y", FLOAT, ("batch", "n", 64))
    x = np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32) * size
    (got,) = _run(b, tmp_path, x)
    assert _off(got, norm(arrays, "encoder.layer_norm", x.astype(np.float64))) < 1e-5


@pytest.mark.parametrize(
    ("quantize", "most"), [("none", 1e-5), ("int8", 0.1), ("int4", 0.3)]
)
def test_decoder_uses_an_untied_projection(
    tmp_path: Path, quantize: str, most: float
) -> None:
    """Most checkpoints project by the table of their tokens; a fine-tuned one need not."""
    arrays = random_arrays(TOY)
    rng = np.random.default_rng(2)
    arrays["proj_out.weight"] = rng.standard_normal((200, 64)).astype(np.float32) / 8
    options = ConvertOptions(quantize, "none", half=False)
    checkpoint = write_checkpoint(tmp_path / "checkpoint", arrays)
    spec = convert_checkpoint(checkpoint, tmp_path / "model", options)
    features = rng.standard_normal((1, 30, 64)).astype(np.float32)
    with CachedDecoder(tmp_path / "model", spec, threads=1) as decoder:
        state = decoder.start(features, (Padding(None),))
        out, _ = decoder.step(PROMPT[:1], state, np.arange(3))
    assert _off(out.logits[0], decode(arrays, PROMPT[0], features[0], 2)) < most


@pytest.mark.parametrize(
    ("name", "stride"), [("encoder.conv1", 1), ("encoder.conv2", 2)]
)
def test_convolution_of_more_and_fewer_outputs(
    tmp_path: Path, name: str, stride: int
) -> None:
    rng = np.random.default_rng(4)
    config = SimpleNamespace(dims=TOY)
    for n_in, n_out in ((3, 5), (8, 2)):
        weight = rng.standard_normal((n_out, n_in, 3)).astype(np.float32)
        arrays = {f"{name}.weight": weight, f"{name}.bias": weight[:, 0, 0]}
        checkpoint: Any = SimpleNamespace(
            weight=lambda part, own=arrays: ready_weight(own[part]), config=config
        )
        b = WhisperBuilder("convolution", checkpoint)
        b.input("x", FLOAT, (2, 130, n_in))
        transposed = b.op("Transpose", ("x",), "turned", perm=[0, 2, 1])
        convolution(b, transposed, name, stride)
        b.output(name, FLOAT, (2, n_out, 130 // stride))
        x = rng.standard_normal((2, 130, n_in)).astype(np.float32)
        (exact,) = _run(b, tmp_path, x)
        for row in range(2):
            expected = convolve(arrays, name, x[row], stride)
            assert _off(exact[row].T, expected) < 1e-5


def _run(b: GraphBuilder, folder: Path, x: Values) -> Any:
    write_graph(b.build(), folder / "x.onnx")
    return onnxruntime.InferenceSession(str(folder / "x.onnx")).run(None, {"x": x})
