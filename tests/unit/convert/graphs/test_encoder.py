"""The encoder graph: nodes, 8-bit products, and outliers of activations."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from tests.fakes.graphs import DEEP, checkpoint, open_session
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import ready_weight
from whisper_hailo.convert.convert import measure_peaks
from whisper_hailo.convert.graphs.encoder import (
    PEAK_SUFFIX,
    encoder_graph,
    loudest_units,
    select_units,
    smoothing_factors,
)
from whisper_hailo.convert.graphs.layers import Arithmetic, Linear
from whisper_hailo.convert.graphs.onnx_graph import (
    GELU_OPSET,
    OPSET,
    write_graph,
)
from whisper_hailo.core.types import FloatArray

__all__ = ["checkpoint"]

MEL = np.random.default_rng(0).standard_normal((1, 80, 100)).astype(np.float32)


@pytest.fixture
def loud(tmp_path: Path) -> Checkpoint:
    """A checkpoint with three hidden units of layer 0 that are far louder than the others."""
    arrays = random_arrays(TOY)
    arrays["encoder.layers.0.fc1.bias"][[3, 70, 100]] += 2000.0
    return Checkpoint(
        write_checkpoint(tmp_path / "loud", arrays, config=config_of(TOY, TOY_FFN))
    )


def _run(
    checkpoint: Checkpoint, path: Path, arithmetic: Arithmetic, **how: object
) -> FloatArray:
    write_graph(encoder_graph(checkpoint, arithmetic, **how), path)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    features: FloatArray = session.run(["audio_features"], {"mel": MEL})[0]
    return features


def _snr_db(got: FloatArray, exact: FloatArray) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(got - exact).sum()))


def test_encoder_graph_peaks_separate_int8_outliers(
    loud: Checkpoint, tmp_path: Path
) -> None:
    exact = _run(loud, tmp_path / "exact.onnx", Arithmetic.FLOAT)
    peaks = measure_peaks(loud, tmp_path)
    plain = _run(loud, tmp_path / "plain.onnx", Arithmetic.TENSOR_8)
    separated = _run(loud, tmp_path / "apart.onnx", Arithmetic.TENSOR_8, peaks=peaks)
    # Steps of 2000 / 255 hide values of about 1; without the three, steps are a hundredth of that.
    assert _snr_db(separated, exact) > _snr_db(plain, exact) + 15
    assert _snr_db(separated, exact) > 25


def test_encoder_graph_smoothing_in_float_is_exact(
    loud: Checkpoint, tmp_path: Path
) -> None:
    exact = _run(loud, tmp_path / "exact.onnx", Arithmetic.FLOAT)
    peaks = measure_peaks(loud, tmp_path)
    smoothed = _run(loud, tmp_path / "smoothed.onnx", Arithmetic.FLOAT, peaks=peaks)
    np.testing.assert_allclose(smoothed, exact, atol=2e-3)


def test_measure_peaks_names_all_inputs_and_leaves_no_file(
    loud: Checkpoint, tmp_path: Path
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    peaks = measure_peaks(loud, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    for layer in range(TOY.n_encoder_layers):
        for value in ("self_attn.normed", "self_attn.mixed", "mlp_normed", "gelu"):
            found = peaks[f"encoder.layers.{layer}.{value}"]
            assert found.shape == ((TOY_FFN if value == "gelu" else TOY.d_model),)
            assert (found > 0).any()
    assert not any(name.endswith(PEAK_SUFFIX) for name in peaks)
    loudest = set(loudest_units(peaks["encoder.layers.0.gelu"], 3)[1].tolist())
    assert loudest == {3, 70, 100}


def _product(n_out: int, n_in: int) -> Linear:
    rng = np.random.default_rng(n_out)
    return Linear(
        ready_weight(rng.standard_normal((n_out, n_in), np.float32)),
        ready_weight(rng.standard_normal(n_out, np.float32)),
    )


def _apply(product: Linear, x: FloatArray) -> FloatArray:
    bias = 0 if product.bias is None else product.bias.load()
    result: FloatArray = x @ product.matrix.load().T + bias
    return result


def test_smoothing_factors_share_the_range() -> None:
    product = _product(24, 16)
    peaks = np.geomspace(0.1, 100, 16).astype(np.float32)
    peaks[5] = 0
    factors = smoothing_factors(peaks, [product])
    assert (factors > 0).all()
    assert np.log(factors).mean() == pytest.approx(0, abs=1e-6)
    smoothed = np.delete(peaks / factors, 5)
    assert smoothed.max() / smoothed.min() < 100  # 1000 before
    x = np.random.default_rng(1).standard_normal((7, 16), np.float32)
    scaled = product.map_inputs(lambda matrix: matrix * factors)
    np.testing.assert_allclose(
        _apply(scaled, x / factors), _apply(product, x), atol=1e-4
    )
    halved = product.map_outputs(lambda part: part / 2)
    np.testing.assert_allclose(_apply(halved, x), _apply(product, x) / 2, atol=1e-5)


@pytest.mark.parametrize(("n", "expected"), [(40, 32 - 12), (200, 32), (2, 1)])
def test_select_units_splits_an_mlp_without_loss(n: int, expected: int) -> None:
    peaks = np.random.default_rng(n).random(n).astype(np.float32)
    quiet, loudest = loudest_units(peaks)
    assert loudest.size == expected
    assert sorted([*quiet, *loudest]) == list(range(n))
    assert peaks[quiet].max() < peaks[loudest].min()
    x = np.random.default_rng(2).standard_normal((5, n), np.float32)
    fc1 = _product(n, 6)
    fc2 = _product(6, n)
    parts = [
        select_units(fc1, fc2, quiet),
        select_units(fc1, Linear(fc2.matrix), loudest),
    ]
    together = _apply(parts[0][1], x[:, quiet]) + _apply(parts[1][1], x[:, loudest])
    np.testing.assert_allclose(together, _apply(fc2, x), atol=1e-4)
    some = _apply(parts[1][0], x[:, :1] @ np.ones((1, 6), np.float32))
    whole = _apply(fc1, x[:, :1] @ np.ones((1, 6), np.float32))
    np.testing.assert_allclose(some, whole[:, loudest], atol=1e-5)


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


@pytest.mark.parametrize(("n_frames", "half"), [(2, False), (8, True), (100, True)])
def test_encoder_graph_int8_is_close_to_float(
    checkpoint: Checkpoint, tmp_path: Path, n_frames: int, half: bool
) -> None:
    """Also at both edges of the window, where a convolution sees padding."""
    mel = np.random.default_rng(1).standard_normal((2, 80, n_frames)).astype(np.float32)
    plain = open_session(encoder_graph(checkpoint), tmp_path / "encoder.onnx")
    graph = encoder_graph(checkpoint, Arithmetic.TENSOR_8, half=half)
    int8 = open_session(graph, tmp_path / "int8.onnx")
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
    session = open_session(encoder_graph(checkpoint), tmp_path / "encoder.onnx")
    for batch, n_frames in ((1, 2), (2, 100), (1, 300)):
        mel = np.zeros((batch, 80, n_frames), np.float32)
        (features,) = session.run(None, {"mel": mel})
        assert features.shape == (batch, n_frames // 2, 64)
