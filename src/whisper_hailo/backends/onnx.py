"""Encoder and cached decoder on ONNX Runtime's CPU, from a converted model directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from whisper_hailo.backends.checks import check_features, check_mel, check_step
from whisper_hailo.backends.session import (
    CONVERT_AGAIN,
    OneGraph,
    open_session,
    require_open,
    running,
)
from whisper_hailo.backends.silence import load_silence_keys, with_silence_keys
from whisper_hailo.backends.state import (
    Cache,
    CachedState,
    CrossKV,
    StepInputs,
    bind_in_place,
    cache_names,
    cross_bias,
    shared_windows,
)
from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.protocols import (
    Closing,
    Limits,
    Padding,
    SilenceKeys,
    StepOutput,
)
from whisper_hailo.core.spec import (
    AUDIO_BLOCK,
    CROSS_KV_FILE,
    DECODER_FILE,
    ENCODER_FILE,
    SIGNLESS_ZERO,
    ModelSpec,
)
from whisper_hailo.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import onnxruntime


class OnnxEncoder(OneGraph):
    """The encoder graph of a model directory: any even number of frames up to the full context.

    Its name is `onnx-fp32`, `onnx-int8-half` with float16, and so on.
    """

    advice = CONVERT_AGAIN
    n_frames: None = None

    def __init__(self, directory: Path, spec: ModelSpec, threads: int = 0) -> None:
        weights = spec.encoder_quantization.replace("none", "fp32")
        suffix = "-half" if spec.half else ""
        super().__init__(directory / ENCODER_FILE, threads, f"onnx-{weights}{suffix}")
        self.spec = spec

    def load(self) -> onnxruntime.InferenceSession:
        return open_session(
            self.path.parent,
            self.spec,
            self.threads,
            ENCODER_FILE,
            inputs={"mel"},
            outputs={"audio_features"},
        )

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode windows, of any even `n_frames`; see `core.protocols.Encoder`."""
        check_mel(mel, self.spec)
        windows = np.ascontiguousarray(mel, dtype=np.float32)
        # One by one: a window fills the processor by itself, needs less memory, and its rounding to
        # 8 bits does not depend on its neighbours.
        parts = [
            self.compute("audio_features", {"mel": window[np.newaxis]})
            for window in windows
        ]
        features: FloatArray = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return features


_N_SILENCE_COPIES = 4
_FEWEST_ZERO_ROWS = 16
"""Keys that share the weight of padding in 8 bits: a single one with all of it would take all the
codes, and leave none to the audio of a short window."""


_STEP_INPUTS = (
    "tokens",
    "text_positions",
    "positions",
    "self_bias",
    "cross_bias",
    "last_column",
    "n_columns",
)
"""Inputs of a decoder step besides the cache and the audio."""


class CachedDecoder(Closing):
    """The cross-attention and decoder graphs of a model directory, with a key and value cache.

    The runtime appends to the cache in place; states share what did not change. The name is
    `cached-fp32`, `cached-int8` or `cached-int4`.
    """

    limits = Limits()

    def __init__(self, directory: Path, spec: ModelSpec, threads: int = 0) -> None:
        self._directory = directory
        self.spec = spec
        self._threads = threads
        self.name = f"cached-{spec.quantization.replace('none', 'fp32')}"
        self._cross_kv: onnxruntime.InferenceSession | None = None
        self._decoder: onnxruntime.InferenceSession | None = None
        self._inputs = StepInputs(spec.dims.n_text_ctx)
        self._alignment_heads: dict[int, list[int]] = {}
        for layer, head in sorted(spec.alignment_heads, key=itemgetter(0)):
            self._alignment_heads.setdefault(layer, []).append(head)

    @cached_property
    def silence_keys(self) -> SilenceKeys:
        return load_silence_keys(self._directory, self.spec)

    def open(self) -> Self:
        if self._decoder is not None:
            return self
        n_layers = self.spec.dims.n_decoder_layers
        cross_names = CrossKV.empty(self.spec, 1, 0).arrays.keys()
        self._cross_kv = open_session(
            self._directory,
            self.spec,
            self._threads,
            CROSS_KV_FILE,
            inputs={"audio_features"},
            outputs=cross_names,
        )
        queries = {f"query_{layer}" for layer in self._alignment_heads}
        self._decoder = open_session(
            self._directory,
            self.spec,
            self._threads,
            DECODER_FILE,
            inputs={*_STEP_INPUTS, *cross_names, *cache_names("past", n_layers)},
            outputs={
                "logits",
                "logsumexp",
                *queries,
                *cache_names("present", n_layers),
            },
        )
        return self

    def close(self) -> None:
        self._cross_kv = None
        self._decoder = None

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> CachedState:
        """Compute cross keys and values once for a batch; see `core.protocols.Decoder`."""
        n_positions = check_features(audio_features, n_positions, self.spec)
        batch, n_audio_ctx, _ = audio_features.shape
        dims = self.spec.dims
        if self.spec.has_int8_audio:
            paddings = tuple(_split_silence(padding) for padding in paddings)
        features = with_silence_keys(audio_features, paddings[0].silence)
        n_zero_rows = 1  # the graph adds it
        if self.spec.has_int8_audio:
            n_rows = features.shape[1] + _FEWEST_ZERO_ROWS
            n_filling = -n_rows % AUDIO_BLOCK  # zero rows fill up the last block
            n_zero_rows = _FEWEST_ZERO_ROWS + n_filling
            features = np.pad(features, ((0, 0), (0, n_zero_rows - 1), (0, 0)))
        empty = np.zeros(
            (batch, dims.n_decoder_heads, 0, dims.cache_head_size), np.float32
        )
        return CachedState(
            cache=Cache((empty,) * (2 * dims.n_decoder_layers), dims.n_text_ctx),
            cross=self._compute_cross(np.ascontiguousarray(features, dtype=np.float32)),
            cross_bias=cross_bias(paddings, n_positions, n_audio_ctx, n_zero_rows),
            first=np.zeros(batch, np.int64),
            audio_rows=tuple(range(batch)),
            n_audio_ctx=n_audio_ctx,
            n_tokens=0,
        )

    def _compute_cross(self, audio_features: FloatArray) -> CrossKV:
        """Compute keys and values of all layers.

        It goes row by row, so that no row's rounding depends on its neighbours.
        """
        session = require_open(self._cross_kv, self.name)
        batch, n_positions, _ = audio_features.shape
        cross = CrossKV.empty(self.spec, batch, n_positions)
        binding = session.io_binding()
        for row in range(batch):
            binding.bind_cpu_input("audio_features", audio_features[row : row + 1])
            for name, array in cross.arrays.items():
                bind_in_place(binding, name, array[row : row + 1])
            with running(CROSS_KV_FILE):
                session.run_with_iobinding(binding)
        return cross

    def step(
        self,
        tokens: IntArray,
        state: CachedState,
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, CachedState]:
        """Append tokens to the cache and look at some positions; see `core.protocols.Decoder`."""
        tokens = np.ascontiguousarray(tokens, dtype=np.int64)
        positions = np.ascontiguousarray(positions, dtype=np.int64)
        first = check_step(tokens, state, first, self.spec)
        n_new = tokens.shape[1]
        # `GroupQueryAttention` refuses it behind a cache, without saying why.
        if n_new > 1 and state.batch > 1 and state.n_tokens:
            raise ShapeError(
                f"{n_new} tokens for each of {state.batch} rows behind others, the runtime takes "
                "one; decode rows with drafts one by one"
            )
        # Not `replace`, which is slower: this runs at every step.
        after = CachedState(
            cache=state.cache.with_room(state.n_tokens, n_new),
            cross=state.cross,
            cross_bias=state.cross_bias,
            first=first,
            audio_rows=state.audio_rows,
            n_audio_ctx=state.n_audio_ctx,
            n_tokens=state.n_tokens + n_new,
        )
        return self._run(tokens, after, positions, alignment=alignment), after

    def _run(
        self,
        tokens: IntArray,
        state: CachedState,
        positions: IntArray,
        *,
        alignment: bool,
    ) -> StepOutput:
        """Run the graph, which fills the last places of a state with these tokens."""
        inputs = self._inputs.make(tokens, state)
        inputs["positions"] = positions
        batch = tokens.shape[0]
        outputs: dict[str, tuple[int, ...]] = {
            "logits": (batch, positions.size, self.spec.dims.n_vocab),
            "logsumexp": (batch, positions.size),
        }
        if alignment:
            outputs |= self._query_shapes(tokens, state)
        session = require_open(self._decoder, self.name)
        binding = state.cache.bound(session, state.cross)
        logits, logsumexp, *queries = binding.prepare(inputs, outputs)
        with running(DECODER_FILE):
            session.run_with_iobinding(binding.io)
        if not alignment:
            return StepOutput(logits, logsumexp)
        weights = self._align(tokens, state, queries)
        return StepOutput(logits, logsumexp, weights)

    def _query_shapes(
        self, tokens: IntArray, state: CachedState
    ) -> dict[str, tuple[int, ...]]:
        """Return the outputs that are queries of the layers with alignment heads."""
        batch, n_new = tokens.shape
        dims = self.spec.dims
        shape: tuple[int, ...] = (batch, n_new, dims.d_model)
        if state.cross.shares:
            n_queries = state.rows_per_window * n_new
            shape = (
                state.cross.n_windows,
                n_queries,
                dims.n_decoder_heads,
                dims.head_size,
            )
        return {f"query_{layer}": shape for layer in self._alignment_heads}

    def _align(
        self, tokens: IntArray, state: CachedState, queries: Sequence[FloatArray]
    ) -> FloatArray:
        """Return the alignment heads' weights over the audio; see `StepOutput.alignment`."""
        batch, n_new = tokens.shape
        dims = self.spec.dims
        split_shape = (batch, n_new, dims.n_decoder_heads, dims.head_size)
        windows = np.arange(batch) // state.rows_per_window
        weights = alignment_weights(
            [query.reshape(split_shape) for query in queries],
            state.cross.rows(windows),
            state.cross_bias[windows],
            self._alignment_heads,
        )
        return weights[..., : state.n_audio_ctx]

    def batch_size(self, state: CachedState) -> int:
        return state.batch

    def select(self, state: CachedState, rows: IntArray) -> CachedState:
        audio_rows = tuple(state.audio_rows[int(row)] for row in rows)
        present = state.audio_rows[:: state.rows_per_window]
        needed = shared_windows(audio_rows) if state.cross.shares else audio_rows
        selected = replace(
            state,
            cache=state.cache.select(rows, state.n_tokens),
            first=state.first[rows],
            audio_rows=audio_rows,
        )
        # Beams that swap places mostly belong to the same audio: its large tensors then stay.
        if needed == present:
            return selected
        windows = np.array([present.index(window) for window in needed], np.int64)
        return replace(
            selected,
            cross=state.cross.rows(windows),
            cross_bias=state.cross_bias[windows],
        )

    def rewind(self, state: CachedState, n_tokens: int) -> CachedState:
        if n_tokens == state.n_tokens:
            return state
        state.cache.give_back(state.n_tokens, n_tokens)
        return replace(state, n_tokens=n_tokens)


def _split_silence(padding: Padding) -> Padding:
    """Return a padding whose silence keys share their weight with copies of them."""
    if padding.silence is None:
        return padding
    return replace(padding, silence=padding.silence.split(_N_SILENCE_COPIES))


def alignment_weights(
    queries: Sequence[FloatArray],
    cross: CrossKV,
    cross_bias: FloatArray,
    heads: Mapping[int, Sequence[int]],
) -> FloatArray:
    """Return cross-attention weights of some heads, `(batch, heads, n_tokens, n_keys)` float32.

    The fused operators do not give their weights, so they are computed here again, over all keys,
    those of silence included. `heads` are layers and their heads; of each layer there are `queries`
    `(batch, n_tokens, heads, head_size)`, with the keys' scales where they have any. `cross_bias`
    `(batch, 1, 1, n_keys)` is added to the scores.
    """
    parts = []
    for query, (layer, layer_heads) in zip(queries, heads.items(), strict=True):
        keys = cross.arrays[f"cross_key_{layer}"][:, layer_heads]
        keys = keys.astype(np.float32, copy=False)
        if cross.shares:  # codes, in blocks
            batch, n_heads, _, size, _ = keys.shape
            keys = keys - SIGNLESS_ZERO
            keys = keys.transpose(0, 1, 3, 2, 4).reshape(batch, n_heads, size, -1)
        else:
            keys = keys.transpose(0, 1, 3, 2)
        layer_queries = query[:, :, layer_heads].transpose(0, 2, 1, 3)
        scores = layer_queries @ keys + cross_bias
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        parts.append(weights)
    return np.concatenate(parts, axis=1)
