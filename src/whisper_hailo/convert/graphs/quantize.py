"""Weights in few bits: blocks of values with a scale each, or one scale for each output.

Blocks hold 8- or 4-bit codes in the layout of ONNX Runtime's MatMulNBits and GatherBlockQuantized:
value = (code - 2^(bits-1)) * scale, codes of a row packed lowest first. Outputs with one scale hold
signed 8-bit codes, value = code * scale, laid out as MatMul wants its matrix. Their scales leave
room for a processor that adds products in pairs, in 16 bits: `docs/decisions.md`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.checkpoint.weights import Weight
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray

Codes: TypeAlias = NDArray[np.uint8]
SignedCodes: TypeAlias = NDArray[np.int8]

SMALLEST_BLOCK = 32
LARGEST_BLOCK = {8: 128, 4: 64}
"""Values with one scale, where rows can be cut so: the larger, the faster, and the coarser. 8 bits
can afford it, 4 bits less so (`docs/measurements/speed.md`)."""

LARGEST_CODE = 127
"""Codes of 8 bits go from minus this to this. So do, together, those of one sign in a pair."""

CHUNK_ROWS = 4096
"""Rows that are quantised at once."""

SHRINKS_4BIT = (1.0, 0.93, 0.86, 0.8)
"""Scales tried for 4-bit blocks, relative to the one that just reaches the largest value: losing
a little of the outlier often gains more on the other 31 values."""


def block_size(n_in: int, bits: int, largest: int | None = None) -> int:
    """Return the values of a block, a power of two, in rows of `n_in` values.

    A block has `largest` values at most; `None` takes what is usual for the bits, 8 or 4.
    """
    size = largest or LARGEST_BLOCK[bits]
    while n_in % size:
        size //= 2
    if size < SMALLEST_BLOCK:
        raise ModelError(
            f"a product with {n_in} inputs cannot be cut into blocks of {SMALLEST_BLOCK} for "
            f"int{bits}; convert this checkpoint with --quantize none"
        )
    return size


def quantized(
    matrix: Weight, bits: int, largest: int | None = None
) -> tuple[Weight, Weight]:
    """Promise codes and scales of a matrix `(n_out, n_in)` float32; see `block_size`.

    Codes are `(n_out, n_blocks, block size * bits / 8)` uint8, scales `(n_out, n_blocks)` float32.
    """
    n_out, n_in = matrix.shape
    size = block_size(n_in, bits, largest)

    # Codes and scales are written one after the other: the pair is kept between the two.
    @lru_cache(maxsize=1)
    def load_both() -> tuple[Codes, FloatArray]:
        return quantize_blocks(matrix.load(), bits, largest)

    def load_codes() -> Codes:
        codes, _ = load_both()
        return codes

    def load_scales() -> FloatArray:
        _, scales = load_both()
        load_both.cache_clear()
        return scales

    n_blocks = n_in // size
    codes = Weight((n_out, n_blocks, size * bits // 8), "uint8", load_codes)
    return codes, Weight((n_out, n_blocks), "float32", load_scales)


def rounding_shift(
    matrix: Weight,
    mean: Weight,
    bits: int,
    largest: int | None = None,
) -> Weight:
    """Promise `(n_out,)` float32: what blocks take away from a product's outputs on average.

    Added to the outputs as a bias, it leaves only errors whose sign changes from input to input
    (bias correction: Nagel et al., 2019). `mean (n_in,)` is the inputs' mean; that of a norm's
    outputs is its bias.
    """

    def shift(values: FloatArray) -> FloatArray:
        mean_input = mean.load()
        parts = []
        for start in range(0, len(values), CHUNK_ROWS):
            rows = values[start : start + CHUNK_ROWS]
            codes, scales = quantize_blocks(rows, bits, largest)
            errors = rows - dequantize_blocks(codes, scales, bits)
            parts.append(errors @ mean_input)
        return np.concatenate(parts)

    return matrix.map(shift, matrix.shape[:1])


def quantized_outputs(matrix: Weight) -> tuple[Weight, Weight]:
    """Promise codes `(n_in, n_out)` int8 and scales `(n_out,)` float32, one for each output."""
    n_out, n_in = matrix.shape

    def load_codes() -> SignedCodes:
        values = matrix.load()
        codes = output_codes(values, output_scales(values))
        return np.ascontiguousarray(codes.T)

    codes = Weight((n_in, n_out), "int8", load_codes)
    return codes, matrix.map(output_scales, (n_out,))


def output_scales(matrix: FloatArray) -> FloatArray:
    """Return scales of the outputs, with which every processor computes their products exactly.

    x86-64 without VNNI multiplies two neighbouring inputs, of 8 bits without a sign, with their
    codes and adds both products in 16 bits, where larger sums are cut off. Codes of opposite signs
    cannot exceed that. Those of one sign do not while they come to 128 together, since
    255 * 128 < 2^15: the largest such pair becomes 127 steps, and rounding may add one.
    Outputs whose weights are all zero have a scale of 1.
    """
    n_out, n_in = matrix.shape
    pairs = np.pad(matrix, ((0, 0), (0, n_in % 2))).reshape(n_out, -1, 2)
    largest_positive = np.maximum(pairs, 0).sum(axis=-1).max(axis=1)
    largest_negative = np.maximum(-pairs, 0).sum(axis=-1).max(axis=1)
    largest = np.maximum(largest_positive, largest_negative)
    scales: FloatArray = largest / np.float32(LARGEST_CODE)
    return np.where(scales == 0, np.float32(1), scales)


def output_codes(matrix: FloatArray, scales: FloatArray) -> SignedCodes:
    """Return the nearest code of every value, `(n_out, n_in)` int8 from -127 to 127."""
    codes: SignedCodes = np.rint(matrix / scales[:, None]).astype(np.int8)
    return codes


def quantize_blocks(
    matrix: FloatArray, bits: int, largest: int | None = None
) -> tuple[Codes, FloatArray]:
    """Quantise a matrix `(n_out, n_in)` float32 block by block; see `quantized`."""
    n_out, n_in = matrix.shape
    size = block_size(n_in, bits, largest)
    n_blocks = n_in // size
    codes = np.empty((n_out, n_blocks, size * bits // 8), np.uint8)
    scales = np.empty((n_out, n_blocks), np.float32)
    for start in range(0, n_out, CHUNK_ROWS):  # bounds the temporaries
        rows = slice(start, start + CHUNK_ROWS)
        blocks = matrix[rows].reshape(-1, n_blocks, size)
        if bits == 8:  # the largest value becomes 127 steps
            scales[rows] = np.abs(blocks).max(axis=-1) / np.float32(LARGEST_CODE)
            codes[rows] = _nearest_codes(blocks, scales[rows], 8)
        else:
            codes[rows], scales[rows] = _quantize_4_bits(blocks)
    return codes, scales


def dequantize_blocks(codes: Codes, scales: FloatArray, bits: int) -> FloatArray:
    """Return the float32 matrix `(n_out, n_in)` that codes and scales stand for."""
    n_out, n_blocks, _ = codes.shape
    if bits == 4:
        codes = np.stack([codes & 0xF, codes >> 4], axis=-1).reshape(
            n_out, n_blocks, -1
        )
    zero = np.float32(2 ** (bits - 1))
    steps = codes.astype(np.float32) - zero
    values: FloatArray = (steps * scales[..., None]).reshape(n_out, -1)
    return values


def _quantize_4_bits(blocks: FloatArray) -> tuple[Codes, FloatArray]:
    """Quantise to -8 to 7 steps: the extreme value, whatever its sign, becomes about -8 of them."""
    index = np.abs(blocks).argmax(-1)[..., None]
    extreme = np.take_along_axis(blocks, index, -1)[..., 0]
    best_scales = np.zeros_like(extreme)
    best_error = np.full_like(extreme, np.inf)
    best_codes = np.zeros(blocks.shape, np.uint8)
    for shrink in SHRINKS_4BIT:
        scales = extreme * np.float32(shrink / -8)
        codes = _nearest_codes(blocks, scales, 4)
        steps = codes.astype(np.float32) - np.float32(8)
        values = steps * scales[..., None]
        error = np.square(values - blocks).sum(-1)
        is_better = error < best_error
        best_error[is_better] = error[is_better]
        best_scales[is_better] = scales[is_better]
        best_codes[is_better] = codes[is_better]
    packed: Codes = best_codes[..., ::2] | (best_codes[..., 1::2] << np.uint8(4))
    return packed, best_scales


def _nearest_codes(blocks: FloatArray, scales: FloatArray, bits: int) -> Codes:
    """Return the nearest code of every value; a block of zeros has scale 0 and the middle code."""
    zero = 2 ** (bits - 1)
    safe_scales = np.where(scales == 0, np.float32(1), scales)[..., None]
    steps = np.rint(blocks / safe_scales)
    codes: Codes = np.clip(steps + zero, 0, 2 * zero - 1).astype(np.uint8)
    return codes
