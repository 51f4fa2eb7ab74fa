"""Which products keep 8 bits when 4 are asked for."""

from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.convert.graphs.decoder import Precision, decoder_graph
from whisper_hailo.convert.graphs.products import Arithmetic
from whisper_hailo.core.spec import Dimensions

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
def test_four_bits_are_for_what_is_read_most(size: str, others: Arithmetic) -> None:
    precision = Precision.of(Arithmetic.BLOCKS_4, _config(size))
    assert precision.vocabulary is Arithmetic.BLOCKS_4
    assert precision.embedding is precision.self_attention is Arithmetic.BLOCKS_8
    assert precision.others is others


@pytest.mark.parametrize("arithmetic", [Arithmetic.FLOAT, Arithmetic.BLOCKS_8])
def test_other_arithmetics_are_the_same_everywhere(arithmetic: Arithmetic) -> None:
    precision = Precision.of(arithmetic, _config("tiny"))
    assert precision == Precision(arithmetic, arithmetic, arithmetic, arithmetic)


@pytest.mark.parametrize(("n_vocab", "n_4_bits"), [(4000, 1), (200, 1 + 5 * TOY.n_decoder_layers)])
def test_the_graph_has_the_bits_that_were_chosen(
    tmp_path: Path, n_vocab: int, n_4_bits: int
) -> None:
    """One product in 4 bits under a large table, all but query, key and value under a small one."""
    dims = replace(TOY, n_vocab=n_vocab, d_model=128)
    arrays = random_arrays(dims, TOY_FFN)
    path = write_checkpoint(tmp_path / "checkpoint", arrays, config=config_of(dims, TOY_FFN))
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
def test_layers_keep_8_bits_where_the_table_is_the_larger_part(
    n_vocab: int, others: Arithmetic
) -> None:
    """Four layers of fourteen times 384 by 384 weights are as many as 21504 tokens have."""
    config = _config("tiny")
    config = replace(config, dims=replace(config.dims, n_vocab=n_vocab))
    assert Precision.of(Arithmetic.BLOCKS_4, config).others is others


@pytest.mark.parametrize(
    ("arithmetic", "is_corrected"), [(Arithmetic.BLOCKS_8, False), (Arithmetic.BLOCKS_4, True)]
)
def test_the_mean_of_the_logits_is_corrected_where_rounding_moves_it(
    tmp_path: Path, arithmetic: Arithmetic, is_corrected: bool
) -> None:
    graph = decoder_graph(Checkpoint(write_checkpoint(tmp_path / "x")), ((1, 0),), arithmetic)
    names = [item.name for item in graph.initializers]
    assert ("decoder.projection.shift" in names) is is_corrected
