"""Fixed decoder graphs without a cache on ONNX Runtime's CPU: the Hailo form, and the study's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whisper_hailo.backends.foreign_encoder import precision
from whisper_hailo.backends.saturation import warn_of_slow_products
from whisper_hailo.backends.session import EXPORT_AGAIN, OneGraph
from whisper_hailo.backends.signature import Port, Signature, read_signature
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray


class OnnxFixedRunner(OneGraph):
    """A graph `(1, length)` ids and `(1, n_positions, d_model)` features to `(1, length, n_vocab)`.

    Args:
        path: the ONNX file.
        spec: the model that it should be of.
        threads: intra-op threads; 0 lets the runtime choose.
    """

    def __init__(self, path: Path, spec: ModelSpec, threads: int = 0) -> None:
        signature = read_signature(path)
        super().__init__(path, threads, EXPORT_AGAIN)
        self._ids, ids = _input(signature, "int", 2)
        self._features, features = _input(signature, "float", 3)
        self._logits, logits = next(iter(signature.outputs.items()))
        self._dtypes = (ids.dtype, features.dtype)
        self._length, self._n_positions = _sizes(signature, spec, ids, features)
        _check_model(signature, spec, features, logits)
        warn_of_slow_products(signature)

    @property
    def name(self) -> str:
        """`fixed-fp32` or `fixed-int8`, by the weights of the graph."""
        return f"fixed-{precision(self._path, self._dtypes[1])}"

    @property
    def length(self) -> int:
        """Text positions of the graph."""
        return self._length

    @property
    def n_positions(self) -> int:
        """Encoder positions of the graph."""
        return self._n_positions

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Run all positions, row by row; see `FixedRunner`."""
        ids_dtype, features_dtype = self._dtypes
        logits = []
        for row in range(tokens.shape[0]):
            arrays = {
                self._ids: tokens[row : row + 1].astype(ids_dtype, copy=False),
                self._features: audio_features[row : row + 1].astype(features_dtype, copy=False),
            }
            logits.append(self._compute(self._logits, arrays))
        return np.concatenate(logits).astype(np.float32, copy=False)


def is_fixed_decoder(signature: Signature) -> bool:
    """Whether a graph maps ids and features, all of fixed sizes, to logits."""
    kinds = sorted(port.dtype[:3] for port in signature.inputs.values())
    sizes = [axis for port in signature.inputs.values() for axis in port.shape[1:]]
    return kinds == ["flo", "int"] and all(isinstance(axis, int) for axis in sizes)


def _input(signature: Signature, kind: str, rank: int) -> tuple[str, Port]:
    found = [
        (name, port)
        for name, port in signature.inputs.items()
        if port.dtype.startswith(kind) and len(port.shape) == rank
    ]
    if len(found) != 1 or len(signature.inputs) != 2:
        raise ModelError(
            f"{shown(signature.path)} takes {signature.describe()}; a fixed decoder takes ids (1, "
            "length) and audio features (1, n_positions, d_model)"
        )
    return found[0]


def _sizes(signature: Signature, spec: ModelSpec, ids: Port, features: Port) -> tuple[int, int]:
    length, n_positions = ids.shape[1], features.shape[1]
    if isinstance(length, str) or isinstance(n_positions, str):
        raise ModelError(
            f"{shown(signature.path)} takes {signature.describe()}; a fixed decoder has numbers "
            "for length and positions: make one with convert --hailo"
        )
    most = (spec.dims.n_text_ctx, spec.dims.n_audio_ctx)
    if not (1 <= length <= most[0] and 1 <= n_positions <= most[1]):
        raise ModelError(
            f"{shown(signature.path)} takes {length} tokens and {n_positions} positions, "
            f"{spec.name} has {most[0]} and {most[1]} at most; decoder and --model must be of one "
            "model"
        )
    return length, n_positions


def _check_model(signature: Signature, spec: ModelSpec, features: Port, logits: Port) -> None:
    """Width and vocabulary are the model's."""
    dims = spec.dims
    got = (features.shape[2], logits.shape[-1])
    wanted = (dims.d_model, dims.n_vocab)
    if any(isinstance(g, int) and g != w for g, w in zip(got, wanted, strict=True)):
        raise ModelError(
            f"{shown(signature.path)} has width {got[0]} and {got[1]} tokens, {spec.name} has "
            f"{wanted[0]} and {wanted[1]}; decoder and --model must be of one model"
        )
