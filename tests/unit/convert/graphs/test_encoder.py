"""Outliers of activations kept apart from 8-bit products."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
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
from whisper_hailo.convert.graphs.onnx_graph import write_graph
from whisper_hailo.core.types import FloatArray

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


def test_peaks_keep_outliers_out_of_int8_products(
    loud: Checkpoint, tmp_path: Path
) -> None:
    exact = _run(loud, tmp_path / "exact.onnx", Arithmetic.FLOAT)
    peaks = measure_peaks(loud, tmp_path)
    plain = _run(loud, tmp_path / "plain.onnx", Arithmetic.TENSOR_8)
    separated = _run(loud, tmp_path / "apart.onnx", Arithmetic.TENSOR_8, peaks=peaks)
    # Steps of 2000 / 255 hide values of about 1; without the three, steps are a hundredth of that.
    assert _snr_db(separated, exact) > _snr_db(plain, exact) + 15
    assert _snr_db(separated, exact) > 25


def test_smoothing_in_float_changes_nothing(loud: Checkpoint, tmp_path: Path) -> None:
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
    fc1, fc2 = _product(n, 6), _product(6, n)
    parts = [
        select_units(fc1, fc2, quiet),
        select_units(fc1, Linear(fc2.matrix), loudest),
    ]
    together = _apply(parts[0][1], x[:, quiet]) + _apply(parts[1][1], x[:, loudest])
    np.testing.assert_allclose(together, _apply(fc2, x), atol=1e-4)
    some = _apply(parts[1][0], x[:, :1] @ np.ones((1, 6), np.float32))
    whole = _apply(fc1, x[:, :1] @ np.ones((1, 6), np.float32))
    np.testing.assert_allclose(some, whole[:, loudest], atol=1e-5)
