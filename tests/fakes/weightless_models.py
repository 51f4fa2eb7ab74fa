"""True model sizes without their weights: graphs are built, and nothing is ever loaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fakes.model_sizes import TINY
from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.weights import AnyArray, Weight
from whisper_hailo.convert.graphs.onnx_graph import IR_VERSION, Graph
from whisper_hailo.core.spec import Dimensions


def _dims(d_model: int, n_layers: int, n_vocab: int = 51865) -> Dimensions:
    heads = d_model // 64
    return Dimensions(80, 1500, d_model, n_layers, heads, n_layers, heads, 448, n_vocab)


MODELS = {
    "tiny": TINY,
    "tiny.en": _dims(384, 4, 51864),
    "base": _dims(512, 6),
    "base.en": _dims(512, 6, 51864),
    "small": _dims(768, 12),
    "turbo": Dimensions(128, 1500, 1280, 32, 20, 4, 20, 448, 51866),
}


@dataclass(frozen=True)
class Weightless(Checkpoint):
    """A checkpoint that has every array's shape and no array."""

    dims: Dimensions

    @property
    def config(self) -> Config:  # type: ignore[override]
        return Config(self.dims, 4 * self.dims.d_model, 4 * self.dims.d_model)

    @property
    def tied(self) -> bool:
        return True

    def weight(self, name: str) -> Weight:
        inner = 4 * self.dims.d_model
        return Weight(
            expected_shapes(self.dims, inner, inner)[name], "float32", _nothing
        )

    def rows(self, name: str, start: int, stop: int) -> Weight:
        shape = self.weight(name).shape
        assert 0 <= start < stop <= shape[0]
        return Weight((stop - start, *shape[1:]), "float32", _nothing)


def _nothing() -> AnyArray:
    raise AssertionError("a graph was built, no weight should be read")


def inferred(graph: Graph) -> onnx.ModelProto:
    """The graph with every shape that follows; large weights only have theirs."""
    proto = onnx.GraphProto()
    proto.CopyFrom(graph.proto)
    for item in graph.initializers:
        tensor = TensorProto(name=item.name, dims=item.weight.shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(np.dtype(item.weight.dtype))
        try:
            tensor.raw_data = item.weight.load().tobytes()
        except AssertionError:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="none")
        proto.initializer.append(tensor)
    opsets = [helper.make_opsetid("", graph.opset)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
