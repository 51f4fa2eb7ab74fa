"""Products with wider heads, and what is folded into them: arithmetic that no step may change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.weights import (
    ready_weight,
    stacked_weight,
    transposed_weight,
)
from whisper_hailo.convert.graphs.decoder import Precision, decoder_graph
from whisper_hailo.convert.graphs.layers import (
    Arithmetic,
    Linear,
    joined,
    with_wider_inputs,
    with_wider_outputs,
)
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FloatArray

N_HEADS, SIZE, WIDTH = 2, 3, 4


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
    first, second = (
        Linear(ready_weight(numbers(2, 3)), ready_weight(numbers(2))),
        Linear(ready_weight(-numbers(1, 3))),
    )
    both = joined(first, second)
    assert both.matrix.load().tolist() == [[1, 2, 3], [4, 5, 6], [-1, -2, -3]]
    assert both.bias is not None
    assert both.bias.load().tolist() == [1, 2, 0]
    assert (both.matrix.shape, both.bias.shape) == ((3, 3), (3,))


def test_weights_are_computed_when_loaded() -> None:
    one = ready_weight(numbers(2, 3))
    assert (
        one.map(lambda array: array / 2).load().tolist() == (numbers(2, 3) / 2).tolist()
    )
    assert one.map(np.ravel, (6,)).shape == (6,)
    assert transposed_weight(one).load().tolist() == numbers(2, 3).T.tolist()
    assert transposed_weight(one).shape == (3, 2)
    assert stacked_weight([one, one]).shape == (4, 3)


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
def test_precision_of_4_bits_is_for_what_is_read_most(
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
    ("n_vocab", "others"), [(21504, Arithmetic.BLOCKS_4), (21505, Arithmetic.BLOCKS_8)]
)
def test_precision_keeps_8_bits_in_shallow_decoders(
    n_vocab: int, others: Arithmetic
) -> None:
    """Four layers of fourteen times 384 by 384 weights are as many as 21504 tokens have."""
    config = _config("tiny")
    config = replace(config, dims=replace(config.dims, n_vocab=n_vocab))
    assert Precision.of(Arithmetic.BLOCKS_4, config).others is others


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
