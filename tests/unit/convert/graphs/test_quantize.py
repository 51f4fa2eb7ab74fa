from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto

from whisper_hailo.checkpoint.weights import ready_weight
from whisper_hailo.convert.graphs.layers import Arithmetic, Linear, linear
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    INT64,
    MICROSOFT,
    GraphBuilder,
    write_graph,
)
from whisper_hailo.convert.graphs.quantize import (
    block_size,
    dequantize_blocks,
    output_codes,
    output_scales,
    quantize_blocks,
    quantized,
    rounding_shift,
)
from whisper_hailo.core.errors import ModelError

RNG = np.random.default_rng(0)


def _matrix(n_out: int = 96, n_in: int = 64) -> NDArray[np.float32]:
    return RNG.standard_normal((n_out, n_in)).astype(np.float32)


@pytest.mark.parametrize("bits", [8, 4])
def test_quantize_blocks_error_is_at_most_a_step(bits: int) -> None:
    matrix = _matrix()
    codes, scales = quantize_blocks(matrix, bits)
    error = np.abs(dequantize_blocks(codes, scales, bits) - matrix).reshape(
        *scales.shape, -1
    )
    # 8 bits round to the nearest step; 4 bits may also clip an outlier to gain on the rest.
    steps = 0.5 if bits == 8 else 2.0
    assert np.all(error <= np.abs(scales)[..., None] * steps + 1e-6)


@pytest.mark.parametrize(
    ("n_in", "of_8_bits", "of_4_bits"), [(384, 128, 64), (64, 64, 64), (96, 32, 32)]
)
def test_block_size_is_the_largest_that_fits(
    n_in: int, of_8_bits: int, of_4_bits: int
) -> None:
    assert (block_size(n_in, 8), block_size(n_in, 4)) == (of_8_bits, of_4_bits)
    assert block_size(n_in, 4, 128) == of_8_bits


@pytest.mark.parametrize(("bits", "largest_rms"), [(8, 0.008), (4, 0.095)])
def test_quantize_blocks_error_is_small_on_average(
    bits: int, largest_rms: float
) -> None:
    matrix = _matrix(512, 128)
    error = dequantize_blocks(*quantize_blocks(matrix, bits), bits) - matrix
    assert np.sqrt(np.square(error).mean()) < largest_rms


@pytest.mark.parametrize("bits", [8, 4])
def test_quantize_blocks_of_zeros_and_lone_extremes(bits: int) -> None:
    matrix = np.zeros((2, 64), np.float32)
    matrix[1, 40] = -3.0
    values = dequantize_blocks(*quantize_blocks(matrix, bits), bits)
    np.testing.assert_allclose(values, matrix, atol=1e-6)


@pytest.mark.parametrize("n_out", [96, 4100])
def test_rounding_shift_removes_the_mean_error(n_out: int) -> None:
    """Inputs around a mean that is large in one channel, as trained norms have it."""
    matrix = _matrix(n_out)
    mean = _matrix(1)[0]
    mean[7] = 16.0
    inputs = mean + 0.5 * _matrix(400)
    missing = (matrix - dequantize_blocks(*quantize_blocks(matrix, 4), 4)).T
    lost = inputs @ missing
    shift = rounding_shift(ready_weight(matrix), ready_weight(mean), 4, 64)
    got = shift.load()
    assert got.shape == shift.shape == (n_out,)
    # Of each output: sums of 64 products below 2, each rounded by 6e-8 of it at most.
    np.testing.assert_allclose(got, mean @ missing, rtol=0, atol=64 * 64 * 2 * 6e-8)
    assert np.square(lost - got).mean() < 0.2 * np.square(lost).mean()
    assert np.abs((lost - got).mean()) < 0.01


def test_quantize_blocks_clips_an_outlier_if_others_gain() -> None:
    """Steps of 0.1 lose 0.2 of the one, and next to nothing of all the others."""
    block = np.array([[1.0, *[0.7] * 15, *[0.29] * 16]], np.float32)
    _, scales = quantize_blocks(block, 4)
    assert scales.ravel() == pytest.approx([-0.1])


def test_quantize_blocks_takes_the_best_of_four_scales() -> None:
    """By a search of its own for each block; every one of them is the best somewhere."""
    blocks = np.random.default_rng(3).standard_t(4, (400, 32)).astype(np.float32)
    blocks[0] = [1.0, *[0.7] * 15, *[0.29] * 16]
    extremes = blocks[np.arange(400), np.abs(blocks).argmax(axis=1)]
    errors = []
    for shrink in (1.0, 0.93, 0.86, 0.8):
        steps = (extremes * shrink / -8)[:, np.newaxis]
        values = np.clip(np.rint(blocks / steps), -8, 7) * steps
        errors.append(np.square(values - blocks).sum(axis=1))
    assert len(set(np.argmin(errors, axis=0))) == 4
    got = dequantize_blocks(*quantize_blocks(blocks, 4), 4)
    np.testing.assert_allclose(
        np.square(got - blocks).sum(axis=1), np.min(errors, axis=0), rtol=1e-3
    )


def test_output_scales_of_zeros_are_one() -> None:
    matrix = np.zeros((2, 4), np.float32)
    matrix[1, 2] = 254
    assert output_scales(matrix).tolist() == [1, 2]


def test_quantized_of_indivisible_rows_is_refused() -> None:
    with pytest.raises(ModelError, match=r"\b32\b"):
        quantized(ready_weight(_matrix(4, 40)), 8)


def test_quantized_keeps_shapes_and_works_once() -> None:
    calls = []
    matrix = _matrix()
    weight = ready_weight(matrix)
    counting = type(weight)(
        weight.shape, weight.dtype, lambda: (calls.append(1), matrix)[1]
    )
    codes, scales = quantized(counting, 4)
    assert codes.load().shape == codes.shape == (96, 1, 32)
    assert scales.load().shape == scales.shape == (96, 1)
    assert len(calls) == 1
    codes.load()
    assert len(calls) == 2, "nothing is kept once both are written"


@pytest.mark.parametrize("bits", [8, 4])
def test_dequantize_blocks_matches_the_runtime(tmp_path: Path, bits: int) -> None:
    """The product and the row look-up give what `dequantize_blocks` says."""
    matrix = _matrix()
    bias = _matrix(1, 96)[0]
    b = GraphBuilder("blocks")
    x = b.input("x", FLOAT, ("batch", "n", 64))
    ids = b.input("ids", INT64, ("k",))
    arithmetic = {8: Arithmetic.BLOCKS_8, 4: Arithmetic.BLOCKS_4}[bits]
    product = linear(
        b, x, "product", Linear(ready_weight(matrix), ready_weight(bias)), arithmetic
    )
    b.output(product, FLOAT, ("batch", "n", 96))
    b.view("flat", "product.codes", (96, 64 * bits // 8))
    b.op(
        "GatherBlockQuantized",
        ("flat", ids, "product.scales"),
        "rows",
        domain=MICROSOFT,
        bits=bits,
        block_size=block_size(64, bits),
        gather_axis=0,
        quantize_axis=1,
    )
    b.output("rows", FLOAT, ("k", 64))
    path = tmp_path / "blocks.onnx"
    write_graph(b.build(), path, external=True)
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    values = dequantize_blocks(*quantize_blocks(matrix, bits), bits)
    feeds = {"x": np.eye(64, dtype=np.float32)[None], "ids": np.array([95, 0, 7])}
    got_product, got_rows = session.run(["product", "rows"], feeds)
    np.testing.assert_allclose(got_rows, values[[95, 0, 7]], atol=1e-6)
    # One-hot inputs are exact in int8, so the product shows the weights themselves.
    np.testing.assert_allclose(got_product[0], values.T + bias, atol=2e-3)


def _largest_sum_of_one_sign(codes: NDArray[np.int8]) -> int:
    """Largest sum of two neighbours, over all outputs `(n_out, n_in)`."""
    wide = np.pad(codes.astype(int), ((0, 0), (0, codes.shape[1] % 2)))
    pairs = wide.reshape(codes.shape[0], -1, 2)
    return max(int(np.maximum(sign * pairs, 0).sum(axis=-1).max()) for sign in (1, -1))


def _neighbours_alike() -> NDArray[np.float32]:
    """Like a convolution over mel bins: neighbours differ little, so their codes add up."""
    return np.repeat(_matrix(96, 32), 2, axis=1) + 0.1 * _matrix()


MATRICES = {
    "normal": _matrix(),
    "alike": _neighbours_alike(),
    "equal": np.full((3, 64), -0.7, np.float32),
    "odd": _matrix(96, 63),
    "opposite": np.tile(np.array([1, -1], np.float32), (4, 32)),
    "one input": np.array([[3.0], [-2.0]], np.float32),
    "halves": np.array([[63.5, 63.5, 0.5, -0.5]], np.float32),
}


@pytest.mark.parametrize("name", MATRICES)
def test_output_codes_keep_pairs_within_16_bits(name: str) -> None:
    """Two products of neighbours, whatever inputs from 0 to 255 they meet."""
    matrix = MATRICES[name]
    codes = output_codes(matrix, output_scales(matrix))
    assert 255 * _largest_sum_of_one_sign(codes) < 2**15


@pytest.mark.parametrize("name", MATRICES)
def test_output_scales_are_no_coarser_than_needed(name: str) -> None:
    """Some pair of every output is within a step of the most that is allowed."""
    matrix = MATRICES[name]
    codes = output_codes(matrix, output_scales(matrix))
    assert all(_largest_sum_of_one_sign(row[np.newaxis]) >= 126 for row in codes)
    error = np.abs(codes * output_scales(matrix)[:, None] - matrix)
    assert np.all(error <= output_scales(matrix)[:, None] * 0.5 + 1e-6)


@pytest.mark.parametrize("n_rows", [1, 3, 50])
@pytest.mark.parametrize("name", MATRICES)
def test_output_codes_integer_products_are_exact(
    tmp_path: Path, name: str, n_rows: int
) -> None:
    """Also with the largest inputs; on x86-64 without VNNI other codes are added up wrongly."""
    codes = output_codes(MATRICES[name], output_scales(MATRICES[name])).T
    inputs = RNG.integers(0, 256, (n_rows, len(codes))).astype(np.uint8)
    inputs[0] = 255
    b = GraphBuilder("integers")
    x = b.input("x", TensorProto.UINT8, ("n", len(codes)))
    weights = b.weight("codes", ready_weight(np.ascontiguousarray(codes)))
    b.output(
        b.op("MatMulInteger", (x, weights), "sums"),
        TensorProto.INT32,
        ("n", codes.shape[1]),
    )
    path = tmp_path / "integers.onnx"
    write_graph(b.build(), path)
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    (got,) = session.run(None, {"x": inputs})
    np.testing.assert_array_equal(got, inputs.astype(int) @ codes.astype(int))


@pytest.mark.parametrize("n_rows", [1, 4, 50])
@pytest.mark.parametrize("bits", [8, 4])
def test_quantize_blocks_products_are_exact(
    tmp_path: Path, bits: int, n_rows: int
) -> None:
    """The largest codes of both signs meet inputs that rounding leaves as they are."""
    matrix = np.repeat([[1.0], [-1.0]], 256, axis=1).astype(np.float32)
    b = GraphBuilder("blocks")
    x = b.input("x", FLOAT, ("n", 256))
    arithmetic = {8: Arithmetic.BLOCKS_8, 4: Arithmetic.BLOCKS_4}[bits]
    b.output(
        linear(b, x, "product", Linear(ready_weight(matrix)), arithmetic),
        FLOAT,
        ("n", 2),
    )
    path = tmp_path / "blocks.onnx"
    write_graph(b.build(), path, external=True)
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    (got,) = session.run(None, {"x": np.ones((n_rows, 256), np.float32)})
    weights = dequantize_blocks(*quantize_blocks(matrix, bits), bits)
    np.testing.assert_allclose(
        got, np.tile(weights.sum(axis=1), (n_rows, 1)), rtol=1e-5
    )


def test_linear_in_8_bits_has_a_scale_for_each_output(tmp_path: Path) -> None:
    """What the runtime computes with them, and outputs whose weights are all zero."""
    matrix = _matrix()
    bias = _matrix(1, 96)[0]
    matrix[5] = 0
    scales = output_scales(matrix)
    codes = output_codes(matrix, scales)
    assert codes.min() >= -127
    assert np.all(
        np.abs(codes * scales[:, None] - matrix) <= scales[:, None] * 0.5 + 1e-6
    )
    b = GraphBuilder("outputs")
    x = b.input("x", FLOAT, ("n", 64))
    weights = Linear(ready_weight(matrix), ready_weight(bias))
    b.output(linear(b, x, "product", weights, Arithmetic.TENSOR_8), FLOAT, ("n", 96))
    path = tmp_path / "outputs.onnx"
    write_graph(b.build(), path)
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    # One-hot inputs are exact in 8 bits, so the product shows the weights themselves.
    (got,) = session.run(None, {"x": np.eye(64, dtype=np.float32)})
    np.testing.assert_allclose(got, (codes * scales[:, None]).T + bias, atol=1e-5)
