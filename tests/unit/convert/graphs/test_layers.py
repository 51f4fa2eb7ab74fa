"""Products of a layer: wider heads, joined matrices, shared codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.weights import (
    ready_weight,
)
from whisper_hailo.convert.graphs.decoder import (
    Precision,
)
from whisper_hailo.convert.graphs.layers import (
    Arithmetic,
    Linear,
    gelu,
    joined,
    linear,
    quantize_once,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.convert.graphs.onnx_graph import (
    FLOAT,
    Graph,
    GraphBuilder,
    write_graph,
)
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FloatArray

N_HEADS = 2
SIZE = 3
WIDTH = 4


def numbers(*shape: int) -> FloatArray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("has_bias", [True, False])
def test_with_wider_outputs_adds_zeros_to_heads(has_bias: bool) -> None:
    plain = Linear(
        ready_weight(numbers(6, 5)), ready_weight(numbers(6)) if has_bias else None
    )
    wide = with_wider_outputs(plain, N_HEADS, WIDTH)
    matrix = wide.matrix.load()
    assert wide.matrix.shape == matrix.shape == (8, 5)
    assert (
        matrix.reshape(N_HEADS, WIDTH, 5)[:, :SIZE].tolist()
        == numbers(2, 3, 5).tolist()
    )
    assert not matrix.reshape(N_HEADS, WIDTH, 5)[:, SIZE:].any()
    if has_bias:
        assert wide.bias is not None
        assert wide.bias.shape == (8,)
        assert wide.bias.load().tolist() == [1, 2, 3, 0, 4, 5, 6, 0]
    else:
        assert wide.bias is None


def test_with_wider_inputs_ignores_added_values() -> None:
    plain = Linear(ready_weight(numbers(5, 6)), ready_weight(numbers(5)))
    wide = with_wider_inputs(plain, N_HEADS, WIDTH)
    assert wide.matrix.shape == (5, 8)
    heads = wide.matrix.load().reshape(5, N_HEADS, WIDTH)
    assert heads[:, :, :SIZE].tolist() == numbers(5, 2, 3).tolist()
    assert not heads[:, :, SIZE:].any()
    assert wide.bias is plain.bias


def test_with_wider_outputs_of_wide_heads_is_unchanged() -> None:
    plain = Linear(ready_weight(numbers(6, 6)), ready_weight(numbers(6)))
    assert with_wider_outputs(plain, N_HEADS, SIZE) is plain
    assert with_wider_inputs(plain, N_HEADS, SIZE) is plain


def test_joined_stacks_products_with_zero_biases() -> None:
    first = Linear(ready_weight(numbers(2, 3)), ready_weight(numbers(2)))
    second = Linear(ready_weight(-numbers(1, 3)))
    both = joined(first, second)
    assert both.matrix.load().tolist() == [[1, 2, 3], [4, 5, 6], [-1, -2, -3]]
    assert both.bias is not None
    assert both.bias.load().tolist() == [1, 2, 0]
    assert (both.matrix.shape, both.bias.shape) == ((3, 3), (3,))


SIZES = {"tiny": (384, 4), "base": (512, 6), "small": (768, 12), "turbo": (1280, 4)}


def _config(name: str) -> Config:
    width, n_layers = SIZES[name]
    heads = width // 64
    dims = Dimensions(80, 1500, width, n_layers, heads, n_layers, heads, 448, 51865)
    return Config(dims, 4 * width, 4 * width)


@pytest.mark.parametrize(
    ("size", "others"),
    [
        ("tiny", Arithmetic.BLOCKS_8),
        ("base", Arithmetic.BLOCKS_8),
        ("small", Arithmetic.BLOCKS_4),
        ("turbo", Arithmetic.BLOCKS_4),
    ],
)
def test_precision_uses_4_bits_for_most_read_weights(
    size: str, others: Arithmetic
) -> None:
    precision = Precision.of(Arithmetic.BLOCKS_4, _config(size))
    assert precision.vocabulary is Arithmetic.BLOCKS_4
    assert precision.kept is Arithmetic.BLOCKS_8
    assert precision.others is others


@pytest.mark.parametrize("arithmetic", [Arithmetic.FLOAT, Arithmetic.BLOCKS_8])
def test_precision_of_others_is_the_same_everywhere(arithmetic: Arithmetic) -> None:
    precision = Precision.of(arithmetic, _config("tiny"))
    assert precision == Precision(arithmetic, arithmetic, arithmetic)


@pytest.mark.parametrize(
    ("n_vocab", "others"), [(21504, Arithmetic.BLOCKS_4), (21505, Arithmetic.BLOCKS_8)]
)
def test_precision_keeps_8_bits_in_shallow_decoders(
    n_vocab: int, others: Arithmetic
) -> None:
    """Four layers of fourteen times 384 by 384 weights are as many as 21504 tokens have."""
    config = _config("tiny")
    config = replace(config, dims=replace(config.dims, n_vocab=n_vocab))
    assert Precision.of(Arithmetic.BLOCKS_4, config).others is others


def _session(graph: Graph, path: Path) -> onnxruntime.InferenceSession:
    write_graph(graph, path)
    onnx.checker.check_model(path, full_check="MatMulNBits" not in path.name)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


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
