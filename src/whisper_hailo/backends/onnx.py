"""Encoder and cached decoder on ONNX Runtime's CPU, from a converted model directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.backends.checks import check_features, check_mel, check_rewind, check_step
from whisper_hailo.backends.session import GraphFile, open_session, running
from whisper_hailo.backends.state import (
    CachedState,
    cross_bias,
    empty_past,
    rewind_tokens,
    select_rows,
)
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import Limits, Padding, StepOutput
from whisper_hailo.core.spec import CROSS_KV_FILE, DECODER_FILE, ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import onnxruntime

AnyArray: TypeAlias = NDArray[Any]

_STEP_INPUTS = frozenset({"tokens", "first", "positions", "aligned", "cross_bias"})
_STEP_OUTPUTS = frozenset({"logits", "logsumexp", "alignment"})


class OnnxEncoder(Closing):
    """The encoder graph of a model directory: any even number of frames up to the full context.

    Args:
        directory: the model directory.
        spec: its description.
        threads: intra-op threads; 0 lets the runtime choose.
    """

    def __init__(self, directory: Path, spec: ModelSpec, threads: int = 0) -> None:
        self._directory = directory
        self._spec = spec
        self._threads = threads
        self._session: onnxruntime.InferenceSession | None = None

    @property
    def spec(self) -> ModelSpec:
        """The model that this encoder belongs to."""
        return self._spec

    @property
    def name(self) -> str:
        """`onnx-fp32`, `onnx-int8` or `onnx-int4`."""
        return "onnx-" + _precision(self._spec.encoder_quantization)

    @property
    def n_frames(self) -> None:
        """Any even number."""
        return None

    def open(self) -> Self:
        """Load the graph.

        Raises:
            ModelError: its file is missing, broken or of another model.
        """
        if self._session is None:
            graph = GraphFile(ENCODER_FILE, frozenset({"mel"}), frozenset({"audio_features"}))
            self._session = open_session(self._directory, graph, self._spec, self._threads)
        return self

    def close(self) -> None:
        """Free the graph; `open` loads it again."""
        self._session = None

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode log-mel windows.

        Args:
            mel: `(batch, n_mels, n_frames)` float32, `n_frames` even and at most the full context.

        Returns:
            audio features `(batch, n_frames / 2, d_model)` float32.

        Raises:
            ShapeError: the window does not fit this encoder.
        """
        check_mel(mel, self._spec)
        session = _opened(self._session, self.name)
        array = np.ascontiguousarray(mel, dtype=np.float32)
        with running(ENCODER_FILE):
            features: FloatArray = session.run(["audio_features"], {"mel": array})[0]
        return features


class CachedDecoder(Closing):
    """The cross-attention and decoder graphs of a model directory, with a key and value cache.

    The cache lives in the runtime's memory from step to step; states share what did not change.

    Args:
        directory: the model directory.
        spec: its description.
        threads: intra-op threads; 0 lets the runtime choose.
    """

    def __init__(self, directory: Path, spec: ModelSpec, threads: int = 0) -> None:
        self._directory = directory
        self._spec = spec
        self._threads = threads
        self._cross_kv: onnxruntime.InferenceSession | None = None
        self._decoder: onnxruntime.InferenceSession | None = None
        layers = range(spec.dims.n_decoder_layers)
        self._past_names = _layer_names("past", layers)
        self._present_names = _layer_names("present", layers)
        self._cross_names = _layer_names("cross", layers)

    @property
    def spec(self) -> ModelSpec:
        """The model that this decoder belongs to."""
        return self._spec

    @property
    def name(self) -> str:
        """`cached-fp32`, `cached-int8` or `cached-int4`."""
        return "cached-" + _precision(self._spec.quantization)

    @property
    def limits(self) -> Limits:
        """Any number of positions, free padding, alignment."""
        return Limits()

    def open(self) -> Self:
        """Load both graphs.

        Raises:
            ModelError: a file is missing, broken or of another model.
        """
        if self._decoder is None:
            cross = frozenset(self._cross_names)
            inputs = _STEP_INPUTS | cross | frozenset(self._past_names)
            outputs = _STEP_OUTPUTS | frozenset(self._present_names)
            graphs = (
                GraphFile(CROSS_KV_FILE, frozenset({"audio_features"}), cross),
                GraphFile(DECODER_FILE, inputs, outputs),
            )
            self._cross_kv, self._decoder = (
                open_session(self._directory, graph, self._spec, self._threads) for graph in graphs
            )
        return self

    def close(self) -> None:
        """Free both graphs; `open` loads them again."""
        self._cross_kv = None
        self._decoder = None

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> CachedState:
        """Compute cross keys and values once for a batch; see `core.protocols.Decoder`.

        Raises:
            ShapeError: the features do not fit this decoder.
        """
        n_positions = check_features(audio_features, paddings, n_positions, self._spec)
        session = _opened(self._cross_kv, self.name)
        binding = session.io_binding()
        array = np.ascontiguousarray(audio_features, dtype=np.float32)
        binding.bind_cpu_input("audio_features", array)
        for name in self._cross_names:
            binding.bind_output(name, "cpu")
        with running(CROSS_KV_FILE):
            session.run_with_iobinding(binding)
        batch, n_audio_ctx, _ = audio_features.shape
        dims = self._spec.dims
        return CachedState(
            past=empty_past(dims.n_decoder_layers, (batch, dims.n_decoder_heads, dims.head_size)),
            cross=tuple(binding.get_outputs()),
            cross_bias=cross_bias(paddings, n_positions, n_audio_ctx),
            first=np.zeros(batch, np.int64),
            audio_rows=tuple(range(batch)),
            n_tokens=0,
        )

    def step(
        self,
        tokens: IntArray,
        state: CachedState,
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, CachedState]:
        """Append tokens to the cache and look at some positions; see `core.protocols.Decoder`.

        Raises:
            ShapeError: more tokens than the text context holds, or arrays that do not fit.
        """
        first = check_step(tokens, state, positions, first, self._spec)
        arrays: dict[str, AnyArray] = {
            "tokens": np.ascontiguousarray(tokens, dtype=np.int64),
            "first": first,
            "positions": np.ascontiguousarray(positions, dtype=np.int64),
            "aligned": np.arange(tokens.shape[1] if alignment else 0, dtype=np.int64),
            "cross_bias": state.cross_bias,
        }
        wanted = ("logits", "logsumexp", *(["alignment"] if alignment else []))
        outputs = self._run_step(arrays, state, wanted)
        looked_at = [value.numpy() for value in outputs[: len(wanted)]]
        return StepOutput(*looked_at), CachedState(
            past=tuple(outputs[len(wanted) :]),
            cross=state.cross,
            cross_bias=state.cross_bias,
            first=first,
            audio_rows=state.audio_rows,
            n_tokens=state.n_tokens + tokens.shape[1],
        )

    def _run_step(
        self, arrays: dict[str, AnyArray], state: CachedState, wanted: tuple[str, ...]
    ) -> list[onnxruntime.OrtValue]:
        """Run the decoder; gives the wanted outputs, then the longer cache.

        The binding reads `arrays` in place: they must live until the run is over.
        """
        session = _opened(self._decoder, self.name)
        binding = session.io_binding()
        for name, array in arrays.items():
            binding.bind_cpu_input(name, array)
        for name, value in zip(self._past_names, state.past, strict=True):
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(self._cross_names, state.cross, strict=True):
            binding.bind_ortvalue_input(name, value)
        for name in (*wanted, *self._present_names):
            binding.bind_output(name, "cpu")
        with running(DECODER_FILE):
            session.run_with_iobinding(binding)
        outputs: list[onnxruntime.OrtValue] = binding.get_outputs()
        return outputs

    def batch_size(self, state: CachedState) -> int:
        """Number of rows of a state."""
        return state.batch

    def select(self, state: CachedState, rows: IntArray) -> CachedState:
        """State of the given rows `(n,)` int64, in that order, repeats allowed (beams)."""
        return select_rows(state, rows)

    def rewind(self, state: CachedState, n_tokens: int) -> CachedState:
        """State cut back to its first `n_tokens` cached tokens (rejected drafts).

        Raises:
            ShapeError: the cache holds fewer tokens.
        """
        check_rewind(state, n_tokens)
        return state if n_tokens == state.n_tokens else rewind_tokens(state, n_tokens)


def _layer_names(kind: str, layers: Sequence[int]) -> tuple[str, ...]:
    """`kind_key_0, kind_value_0, kind_key_1 ...`: the order of tensors in a state."""
    return tuple(f"{kind}_{part}_{i}" for i in layers for part in ("key", "value"))


def _precision(quantization: str) -> str:
    return "fp32" if quantization == "none" else quantization


def _opened(
    session: onnxruntime.InferenceSession | None, name: str
) -> onnxruntime.InferenceSession:
    if session is None:
        raise ModelError(f"{name} is not open; call open() or use a with block")
    return session
