"""Encoder and cached decoder on ONNX Runtime's CPU, from a converted model directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
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
from whisper_hailo.core.protocols import Closing, Limits, Padding, SilenceKeys, StepOutput
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
        name = f"onnx-{weights}{'-half' * spec.half}"
        super().__init__(directory / ENCODER_FILE, threads, name)
        self.spec = spec

    def load(self) -> onnxruntime.InferenceSession:
        place = self.path.parent, self.spec, self.threads, ENCODER_FILE
        return open_session(*place, inputs={"mel"}, outputs={"audio_features"})

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode windows, of any even `n_frames`; see `core.protocols.Encoder`."""
        check_mel(mel, self.spec)
        array = np.ascontiguousarray(mel, dtype=np.float32)
        # One by one: a window fills the processor by itself, needs less memory, and what it is
        # rounded to in 8 bits does not depend on its neighbours.
        rows = [self.compute("audio_features", {"mel": row[np.newaxis]}) for row in array]
        features: FloatArray = rows[0] if len(rows) == 1 else np.concatenate(rows)
        return features


_N_SILENCE_COPIES = 4
_FEWEST_ZERO_ROWS = 16
"""Keys that share the weight of padding: one that had all of it would leave no codes of 8 bits to
the audio of a short window."""


class CachedDecoder(Closing):
    """The cross-attention and decoder graphs of a model directory, with a key and value cache.

    The runtime adds to the cache in place; states share what did not change. Its name is
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
        by_layer = groupby(sorted(spec.alignment_heads, key=itemgetter(0)), itemgetter(0))
        self._alignment_heads = [(layer, [h for _, h in heads]) for layer, heads in by_layer]

    @cached_property
    def silence_keys(self) -> SilenceKeys:
        return load_silence_keys(self._directory, self.spec)

    def open(self) -> Self:
        if self._decoder is None:
            n_layers = self.spec.dims.n_decoder_layers
            cross = CrossKV.empty(self.spec, 1, 0).arrays.keys()
            past, present = (cache_names(kind, n_layers) for kind in ("past", "present"))
            outputs = {"logits", "logsumexp", *present}
            outputs |= {f"query_{layer}" for layer, _ in self._alignment_heads}
            load = partial(open_session, self._directory, self.spec, self._threads)
            self._cross_kv = load(CROSS_KV_FILE, inputs={"audio_features"}, outputs=cross)
            inputs = {"tokens", "text_positions", "positions", "self_bias", "cross_bias"}
            inputs |= {"last_column", "n_columns", *cross, *past}
            self._decoder = load(DECODER_FILE, inputs=inputs, outputs=outputs)
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
        in_codes = self.spec.audio_in_codes
        if in_codes:
            paddings = tuple(
                replace(
                    padding, silence=padding.silence and padding.silence.split(_N_SILENCE_COPIES)
                )
                for padding in paddings
            )
        heard = with_silence_keys(audio_features, paddings[0].silence)
        n_zero = 1
        if in_codes:  # zero rows fill up the last block
            n_zero = _FEWEST_ZERO_ROWS - (heard.shape[1] + _FEWEST_ZERO_ROWS) % -AUDIO_BLOCK
            heard = np.pad(heard, ((0, 0), (0, n_zero - 1), (0, 0)))  # the graph adds one
        no_place = np.zeros((batch, dims.n_decoder_heads, 0, dims.cache_head_size), np.float32)
        return CachedState(
            cache=Cache((no_place,) * (2 * dims.n_decoder_layers), dims.n_text_ctx),
            cross=self._cross(np.ascontiguousarray(heard, dtype=np.float32)),
            cross_bias=cross_bias(paddings, n_positions, n_audio_ctx, n_zero),
            first=np.zeros(batch, np.int64),
            audio_rows=tuple(range(batch)),
            n_audio_ctx=n_audio_ctx,
            n_tokens=0,
        )

    def _cross(self, audio_features: FloatArray) -> CrossKV:
        """Keys and values of all layers, row by row, so that no row depends on its neighbours."""
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
        if n_new > 1 and state.batch > 1 and state.n_tokens:
            raise ShapeError(
                f"{n_new} tokens for each of {state.batch} rows behind others, the runtime takes "
                "one; decode rows with drafts one by one"
            )
        after = CachedState(
            state.cache.with_room(state.n_tokens, n_new),
            state.cross,
            state.cross_bias,
            first,
            state.audio_rows,
            state.n_audio_ctx,
            state.n_tokens + n_new,
        )
        return self._pass(tokens, after, positions, alignment=alignment), after

    def _pass(
        self, tokens: IntArray, state: CachedState, positions: IntArray, *, alignment: bool
    ) -> StepOutput:
        """One run of the graph, which fills the last places of a state with these tokens."""
        arrays = self._inputs.make(tokens, state)
        arrays["positions"] = positions
        dims, (batch, n_new) = self.spec.dims, tokens.shape
        outputs: dict[str, tuple[int, ...]] = {
            "logits": (batch, positions.size, dims.n_vocab),
            "logsumexp": (batch, positions.size),
        }
        if alignment:
            shape: tuple[int, ...] = (batch, n_new, dims.d_model)
            if state.cross.shares:
                n_windows, n_each = state.cross.n_windows, state.rows_per_window
                shape = (n_windows, n_each * n_new, dims.n_decoder_heads, dims.head_size)
            for layer, _ in self._alignment_heads:
                outputs[f"query_{layer}"] = shape
        session = require_open(self._decoder, self.name)
        binding = state.cache.bound(session, state.cross)
        logits, logsumexp, *queries = binding.prepare(arrays, outputs)
        with running(DECODER_FILE):
            session.run_with_iobinding(binding.io)
        if not alignment:
            return StepOutput(logits, logsumexp)
        apart = (batch, n_new, dims.n_decoder_heads, dims.head_size)
        queries = [query.reshape(apart) for query in queries]
        windows = np.arange(batch) // state.rows_per_window
        cross, bias = state.cross.rows(windows), state.cross_bias[windows]
        weights = alignment_weights(queries, cross, bias, self._alignment_heads)
        return StepOutput(logits, logsumexp, weights[..., : state.n_audio_ctx])

    def batch_size(self, state: CachedState) -> int:
        return state.batch

    def select(self, state: CachedState, rows: IntArray) -> CachedState:
        audio_rows = tuple(state.audio_rows[int(row)] for row in rows)
        held = state.audio_rows[:: state.rows_per_window]
        needed = shared_windows(audio_rows) if state.cross.shares else audio_rows
        selected = replace(
            state,
            cache=state.cache.select(rows, state.n_tokens),
            first=state.first[rows],
            audio_rows=audio_rows,
        )
        # Beams that trade places mostly hear the same audio: its large tensors then stay put.
        if needed == held:
            return selected
        windows = np.array([held.index(window) for window in needed], np.int64)
        bias = state.cross_bias[windows]
        return replace(selected, cross=state.cross.rows(windows), cross_bias=bias)

    def rewind(self, state: CachedState, n_tokens: int) -> CachedState:
        if n_tokens == state.n_tokens:
            return state
        state.cache.give_back(state.n_tokens, n_tokens)
        return replace(state, n_tokens=n_tokens)


def alignment_weights(
    queries: Sequence[FloatArray],
    cross: CrossKV,
    cross_bias: FloatArray,
    heads: Sequence[tuple[int, Sequence[int]]],
) -> FloatArray:
    """Return cross-attention weights of some heads, `(batch, heads, n_tokens, n_keys)` float32.

    The fused operators keep their weights to themselves: those that somebody looks at are computed
    here once more, over all keys, those of silence included. Of each layer in `heads` there are
    `queries` `(batch, n_tokens, heads, head_size)`, with the keys' scales where they have any;
    `cross_bias` `(batch, 1, 1, n_keys)` is added to the scores.
    """
    parts = []
    for query, (layer, chosen) in zip(queries, heads, strict=True):
        keys = cross.arrays[f"cross_key_{layer}"][:, chosen].astype(np.float32, copy=False)
        if cross.shares:  # codes, in blocks
            batch, n_heads, _, size, _ = keys.shape
            keys = (keys - SIGNLESS_ZERO).transpose(0, 1, 3, 2, 4).reshape(batch, n_heads, size, -1)
        else:
            keys = keys.transpose(0, 1, 3, 2)
        scores = query[:, :, chosen].transpose(0, 2, 1, 3) @ keys + cross_bias
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        parts.append(weights)
    return np.concatenate(parts, axis=1)
