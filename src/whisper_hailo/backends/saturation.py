"""Whether the runtime's products of 8-bit codes are cut off on this processor.

On x86-64 without VNNI it adds the products of two neighbours in 16 bits. Graphs of ours leave room
for that (`convert.graphs.quantize.output_scales`); those of other programs, and of our older
versions, do not, and give wrong text without a word. There the runtime is asked for products that
are exact, and take a third longer: `docs/decisions/exact-pairs.md`.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import onnxruntime

    from whisper_hailo.backends.signature import Signature

logger = logging.getLogger(__name__)

EXACT_PRODUCTS: Final = ("session.x64quantprecision", "1")
"""The runtime's setting that keeps codes without a sign, whose products it adds in 32 bits."""

_LARGEST: Final = (255, 127)
"""What input and weight may be at most: two such products are more than 16 bits hold."""


@cache
def saturates() -> bool:
    """Whether sums of 8-bit products are cut off here.

    The runtime itself is asked, with the smallest product that shows it: it alone knows which
    kernel it chose, on a real processor or an emulated one.
    """
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    code, weight = _LARGEST
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
