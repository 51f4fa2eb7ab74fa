"""A small builder of ONNX graphs: nodes appended one by one, weights as promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import AnyArray, Weight, ready_weight

OPSET = 17
"""The first with LayerNormalization as one node, and the one the Hailo compiler takes."""

GELU_OPSET = 20
"""The first with GELU as one operator, which there is for float16, too."""

MICROSOFT = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

Axis = int | str
Attribute = int | float | str | Sequence[int]


@dataclass(frozen=True, slots=True)
class Initializer:
    """A named weight of a graph.

    `same_bytes_as` names one with these very bytes, which a file of data then holds once.
    """

    name: str
    weight: Weight
    same_bytes_as: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A finished graph: the protobuf without its weights, the weights, and its operators' opset."""

    proto: GraphProto
    initializers: tuple[Initializer, ...]
    opset: int = OPSET


class GraphBuilder:
    """Collects the nodes of one graph in the order of the data path."""

    def __init__(self, name: str, opset: int = OPSET) -> None:
        self.name, self.opset = name, opset
        self._nodes: list[NodeProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._initializers: dict[str, Initializer] = {}

    def input(self, name: str, dtype: int, shape: Sequence[Axis]) -> str:
        """Declare a graph input; axes that are strings are dynamic."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, name: str, dtype: int, shape: Sequence[Axis]) -> None:
        """Declare that the value called `name` is a graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def op(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str,
        *,
        node_name: str = "",
        **attrs: Attribute,
    ) -> str:
        """Append a node with one output, which also names the node unless `node_name` does."""
        return self.ops(op_type, inputs, (output,), node_name=node_name, **attrs)[0]

    def ops(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        node_name: str = "",
        **attrs: Attribute,
    ) -> tuple[str, ...]:
        """Append a node with several outputs; the attribute `domain` is the operator's."""
        given: dict[str, Any] = {"name": node_name or outputs[0], "domain": "", **attrs}
        self._nodes.append(helper.make_node(op_type, inputs, outputs, **given))
        return tuple(outputs)

    def weight(self, name: str, weight: Weight) -> str:
        """Add a weight; asking again for the same name gives the same initializer."""
        self._initializers.setdefault(name, Initializer(name, weight))
        return name

    def view(self, name: str, of: str, shape: tuple[int, ...]) -> str:
        """Add a weight with the bytes of another one under a different shape."""
        base = self._initializers[of].weight
        view = Weight(shape, base.dtype, base.load, base.strips)
        self._initializers.setdefault(name, Initializer(name, view, same_bytes_as=of))
        return name

    def constant(self, value: AnyArray | Sequence[int] | int | float) -> str:
        """Add a small constant, once for each value: Python ints are int64, floats float32."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        shape = "x".join(map(str, array.shape))
        text = "_".join(str(item) for item in array.ravel().tolist())
        return self.weight(f"const_{array.dtype.name}[{shape}]_{text}", ready_weight(array))

    def build(self) -> Graph:
        proto = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs)
        return Graph(proto, tuple(self._initializers.values()), self.opset)


class WhisperBuilder(GraphBuilder):
    """A graph of one checkpoint, whose arrays it holds under their own names."""

    def __init__(self, name: str, checkpoint: Checkpoint, opset: int = OPSET) -> None:
        super().__init__(name, opset)
        self.checkpoint, self.dims = checkpoint, checkpoint.config.dims

    def stored(self, name: str) -> str:
        """Add an array of the checkpoint."""
        return self.weight(name, self.checkpoint.weight(name))


FLOAT = int(TensorProto.FLOAT)
HALF = int(TensorProto.FLOAT16)
UINT8 = int(TensorProto.UINT8)
INT32 = int(TensorProto.INT32)
INT64 = int(TensorProto.INT64)
