"""Graphs whose 8-bit weights lose their sign, and with it what a processor cuts off.

The runtime does this itself where it is asked to (`backends.saturation`), but only where it may
rewrite graphs, and for weights that lie in the same graph as their product. Optimum's merged
decoders have the products in both branches and the weights outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from whisper_hailo.core.errors import ModelError, display_path

_WEIGHTS = 1
"""Place of the weights among the inputs of a product."""

_ZEROS = {"MatMulInteger": 3, "DynamicQuantizeMatMul": 3, "MatMulIntegerToFloat": 5}
"""Products in 8 bits, with the place of the weights' code for zero."""

_MIDDLE = 128
_MIDDLE_NAME = "code_of_zero_without_sign"


def unsigned_graph(path: Path) -> bytes:
    """A graph of 8-bit weights with a sign, as one that no processor cuts off.

    Raises:
        ModelError: the file cannot be read, or its weights are used in a way that is not known.
    """
    try:
        model = onnx.load(str(path))
        if without_signs(model):
            return bytes(model.SerializeToString())
        reason = "its 8-bit weights are read by other operators than known ones"
    except Exception as error:  # protobuf's decoder has exception classes of its own
        reason = " ".join(str(error).split())[:120]
    raise ModelError(
        f"{display_path(path)} cannot be computed exactly by this processor, which has no VNNI "
        f"({reason}); use an export that is not merged, or convert the checkpoint with --quantize "
        "int8"
    )


def without_signs(model: ModelProto) -> int:
    """Turn the signed codes of products into unsigned ones, in place: the same values.

    Weights that something else reads, too, or that lie in another file keep their sign.

    Returns:
        how many weights were turned.
    """
    graphs = list(_with_branches(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    signed = {
        tensor.name: tensor
        for graph in graphs
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.INT8 and tensor.data_location != TensorProto.EXTERNAL
    }
    users: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for node in nodes:
        for place, name in enumerate(node.input):
            users[name].add((node.op_type, place))
    as_weights = {(product, _WEIGHTS) for product in _ZEROS}
    turned = {name for name in signed if users[name] and users[name] <= as_weights}
    zeros = {_zero_of(node) for node in nodes if _is_product_of(node, turned)} - {""}
    known = all(users[name] <= set(_ZEROS.items()) and name in signed for name in zeros)
    if not (turned and known):
        return 0
    for name in turned | zeros:
        _turn(signed[name])
    model.graph.initializer.append(
        numpy_helper.from_array(np.array(_MIDDLE, np.uint8), _MIDDLE_NAME)
    )
    for node in nodes:
        if _is_product_of(node, turned) and not _zero_of(node):
            place = _ZEROS[node.op_type]
            node.input.extend([""] * (place + 1 - len(node.input)))
            node.input[place] = _MIDDLE_NAME
    return len(turned)


def _with_branches(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _with_branches(attribute.g)


def _is_product_of(node: NodeProto, weights: set[str]) -> bool:
    return node.op_type in _ZEROS and node.input[_WEIGHTS] in weights


def _zero_of(node: NodeProto) -> str:
    place = _ZEROS[node.op_type]
    return str(node.input[place]) if len(node.input) > place else ""


def _turn(tensor: Any) -> None:  # noqa: ANN401 - a generated protobuf class
    codes = numpy_helper.to_array(tensor).astype(np.int16) + _MIDDLE
    tensor.CopyFrom(numpy_helper.from_array(codes.astype(np.uint8), tensor.name))
