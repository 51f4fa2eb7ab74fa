"""Products of 8-bit codes that no processor cuts off.

On x86-64 without VNNI the runtime adds the products of two neighbours in 16 bits. Graphs of ours
leave room for that (`convert.graphs.quantize.output_scales`); those of other programs, and of our
older versions, do not, and give wrong text without a word. There the runtime is asked for products
that are exact, and take a third longer: `docs/decisions/exact-pairs.md`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from whisper_hailo.core.errors import ModelError, display_path

if TYPE_CHECKING:
    import onnxruntime
    from onnx import GraphProto, ModelProto, NodeProto

    from whisper_hailo.backends.onnx_file import Signature

logger = logging.getLogger(__name__)

EXACT_PRODUCTS: Final = ("session.x64quantprecision", "1")
"""The runtime's setting that keeps codes without a sign, whose products it adds in 32 bits."""

LARGEST: Final = (255, 127)
"""What input and weight may be at most: two such products are more than 16 bits hold."""


@cache
def saturates() -> bool:
    """Return whether sums of 8-bit products are cut off here.

    The runtime itself is asked, with the smallest product that shows it: it alone knows which
    kernel it chose, on a real processor or an emulated one.
    """
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    code, weight = LARGEST
    weights = numpy_helper.from_array(np.full((4, 16), weight, np.int8), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["codes", "weights"], ["sums"])],
        "pair",
        [helper.make_tensor_value_info("codes", TensorProto.UINT8, [4, 4])],
        [helper.make_tensor_value_info("sums", TensorProto.INT32, [4, 16])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (sums,) = session.run(None, {"codes": np.full((4, 4), code, np.uint8)})
    return bool((sums != 4 * code * weight).any())


def ask_for_exact_products(options: onnxruntime.SessionOptions) -> None:
    """Have a graph that leaves no room computed exactly; nothing where that is so anyway.

    Not set everywhere: with VNNI the exact kernels are 2.4 times slower than those that are chosen
    without, and no more exact.
    """
    if saturates():
        options.add_session_config_entry(*EXACT_PRODUCTS)


def warn_of_slow_products(*signatures: Signature) -> None:
    """Say once for each graph that it would be quicker if it were converted by us."""
    for path in {found.path for found in signatures if found.signed_codes}:
        if saturates():
            logger.warning(
                "%s has 8-bit weights that this processor, without VNNI, would add up wrongly; "
                "they are computed exactly and take a third longer: convert the checkpoint itself "
                "with --quantize int8 for weights that do not",
                path,
            )


_WEIGHTS = 1
"""Place of the weights among the inputs of a product."""

_ZEROS = {"MatMulInteger": 3, "DynamicQuantizeMatMul": 3, "MatMulIntegerToFloat": 5}
"""Products in 8 bits, with the place of the weights' code for zero."""

_MIDDLE = 128
_MIDDLE_NAME = "code_of_zero_without_sign"


def unsigned_graph(path: Path) -> bytes:
    """Return a graph of signed 8-bit weights as one that no processor cuts off.

    The runtime does this itself where it is asked to, but only for weights that lie in the same
    graph as their product. Optimum's merged decoders have the products in both branches and the
    weights outside.
    """
    import onnx

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

    Weights that something else reads, too, or that lie in another file keep their sign. Return how
    many were turned.
    """
    from onnx import TensorProto, numpy_helper

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
    from onnx import numpy_helper

    codes = numpy_helper.to_array(tensor).astype(np.int16) + _MIDDLE
    tensor.CopyFrom(numpy_helper.from_array(codes.astype(np.uint8), tensor.name))
