"""Model sizes, control tokens, and checkpoints of true sizes without weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.checkpoint.config import Config
from whisper_hailo.checkpoint.weights import AnyArray, Weight
from whisper_hailo.convert.graphs.onnx_graph import IR_VERSION, Graph
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import (
    SIGNLESS_ZERO,
    Dimensions,
    ModelSource,
    ModelSpec,
    SpecialTokens,
)
from whisper_hailo.core.types import FloatArray

TINY = Dimensions(
    n_mels=80,
    n_audio_ctx=1500,
    d_model=384,
    n_encoder_layers=4,
    n_encoder_heads=6,
    n_decoder_layers=4,
    n_decoder_heads=6,
    n_text_ctx=448,
    n_vocab=51865,
)
TOY_TOKENS = SpecialTokens(
    sot=11,
    eot=10,
    transcribe=14,
    translate=15,
    sot_lm=16,
    sot_prev=17,
    no_speech=18,
    no_timestamps=19,
    timestamp_begin=20,
    languages={"en": 12, "de": 13},
    suppress=(7,),
    begin_suppress=(6, 10),
)
"""Ten words, end-of-transcript and control tokens, for decoders of 30 ids."""
TOY = Dimensions(
    n_mels=80,
    n_audio_ctx=1500,
    d_model=64,
    n_encoder_layers=1,
    n_encoder_heads=1,
    n_decoder_layers=1,
    n_decoder_heads=1,
    n_text_ctx=32,
    n_vocab=30,
)
NONE = Padding(None)
FULL = Padding(150)
ATOL = 2e-5


def toy_spec(tokens: SpecialTokens = TOY_TOKENS) -> ModelSpec:
    return ModelSpec(
        name="toy",
        dims=TOY,
        tokens=tokens,
        quantization="none",
        encoder_quantization="none",
        alignment_heads=((0, 0),),
        source=ModelSource(name="toy"),
    )


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


def values_of_codes(codes: NDArray[np.uint8], scale: FloatArray) -> FloatArray:
    """Return keys or values of the audio `(batch, heads, n_keys, head_size)` in float32."""
    floats = codes.astype(np.float32) - SIGNLESS_ZERO
    if floats.ndim == 5:  # keys come in blocks
        batch, heads, _, size, _ = floats.shape
        floats = floats.transpose(0, 1, 2, 4, 3).reshape(batch, heads, -1, size)
    values: FloatArray = floats * scale.transpose(0, 2, 1, 3)
    return values


def features_of(*shape: int, seed: int = 0) -> FloatArray:
    array: FloatArray = (
        np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    )
    return array


def ids_of(*rows: list[int]) -> NDArray[np.int64]:
    return np.array(rows, np.int64)


def last_of(n: int) -> NDArray[np.int64]:
    return np.array([n - 1], np.int64)
