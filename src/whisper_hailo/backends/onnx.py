"""Encoder and cached decoder on ONNX Runtime's CPU, from a converted model directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from whisper_hailo.backends.checks import check_features, check_mel, check_rewind, check_step
from whisper_hailo.backends.session import GraphFile, open_session, require_open, running
from whisper_hailo.backends.silence import load_silence_keys, with_silence_keys
from whisper_hailo.backends.state import (
    Cache,
    CachedState,
    CacheNames,
    CrossKV,
    CrossNames,
    StepInputs,
    bind_in_place,
    cross_bias,
    select_rows,
)
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

Pass: TypeAlias = Callable[[IntArray, CachedState, IntArray], StepOutput]
"""Tokens `(batch, n)`, a state whose last n places are theirs, and positions `(K,)`."""


def in_pieces(run: Pass, tokens: IntArray, state: CachedState, positions: IntArray) -> StepOutput:
    """Return what one pass would give, by as few as the runtime can do.

    Each reads all weights once, and costs little more for each further row or token.
    """
    batch, n_new = tokens.shape
    by = _token_by_token if n_new <= batch else _row_by_row
    return by(run, tokens, state, positions)


def _row_by_row(run: Pass, tokens: IntArray, state: CachedState, positions: IntArray) -> StepOutput:
    rows = [slice(row, row + 1) for row in range(state.batch)]
    outputs = [run(tokens[row], _one_row(state, row), positions) for row in rows]
    return StepOutput(
        np.concatenate([output.logits for output in outputs]),
        np.concatenate([output.logsumexp for output in outputs]),
        _alignment(outputs, axis=0),
    )


def _one_row(state: CachedState, rows: slice) -> CachedState:
    """One row of a state, in its place: what is added to its cache is added to the state's."""
    window = rows.start // state.rows_per_window
    return replace(
        state,
        cache=state.cache.row(rows.start),
        cross=state.cross.rows(np.array([window])),
        cross_bias=state.cross_bias[window : window + 1],
        first=state.first[rows],
        audio_rows=state.audio_rows[rows],
    )


def _token_by_token(
    run: Pass, tokens: IntArray, state: CachedState, positions: IntArray
) -> StepOutput:
    """A token that is not looked at is not projected to the vocabulary."""
    look, away = np.zeros(1, np.int64), np.zeros(0, np.int64)
    places = positions.tolist()
    outputs, n_new = [], tokens.shape[1]
    for column in range(n_new):
        output = run(
            np.ascontiguousarray(tokens[:, column : column + 1]),
            replace(state, n_tokens=state.n_tokens - n_new + column + 1),
            look if column in places else away,
        )
        # The next pass may write to the same arrays.
        kept = output.logits.copy(), output.logsumexp.copy()
        outputs.append(StepOutput(*kept, output.alignment))
    empty = outputs[0].logits[:, :0], outputs[0].logsumexp[:, :0]
    return StepOutput(
        np.concatenate([empty[0], *(outputs[place].logits for place in places)], axis=1),
        np.concatenate([empty[1], *(outputs[place].logsumexp for place in places)], axis=1),
        _alignment(outputs, axis=2),
    )


def _alignment(outputs: Sequence[StepOutput], axis: int) -> FloatArray | None:
    """Alignment weights side by side, where they were asked for."""
    weights = [output.alignment for output in outputs if output.alignment is not None]
    return np.concatenate(weights, axis=axis) if weights else None


class OnnxEncoder(Closing):
    """The encoder graph of a model directory: any even number of frames up to the full context.

    Its name is `onnx-fp32`, `onnx-int8-half` with float16, and so on. `threads` are those of one
    operator; 0 lets the runtime choose.
    """

    n_frames: None = None

    def __init__(self, directory: Path, spec: ModelSpec, threads: int = 0) -> None:
        self._directory = directory
        self.spec = spec
        self._threads = threads
        self.name = f"onnx-{_precision(spec.encoder_quantization)}{'-half' * spec.half}"
        self._session: onnxruntime.InferenceSession | None = None

    def open(self) -> Self:
        """Load the graph."""
        if self._session is None:
            graph = GraphFile(ENCODER_FILE, frozenset({"mel"}), frozenset({"audio_features"}))
            self._session = open_session(self._directory, graph, self.spec, self._threads)
        return self

    def close(self) -> None:
        """Free the graph; `open` loads it again."""
        self._session = None

    def encode(self, mel: FloatArray) -> FloatArray:
        """Encode windows, of any even `n_frames`; see `core.protocols.Encoder`."""
        check_mel(mel, self.spec)
        session = require_open(self._session, self.name)
        array = np.ascontiguousarray(mel, dtype=np.float32)
        # One by one: a window fills the processor by itself, needs less memory, and what it is
        # rounded to in 8 bits does not depend on its neighbours.
        rows = []
        for row in array:
            with running(ENCODER_FILE):
                rows += session.run(["audio_features"], {"mel": row[np.newaxis]})
        features: FloatArray = rows[0] if len(rows) == 1 else np.concatenate(rows)
        return features


_STEP_INPUTS = frozenset(("tokens", "text_positions", "positions", "self_bias", "cross_bias"))
_STEP_INPUTS |= frozenset(("last_column", "n_columns"))
_N_SILENCE_COPIES = 4
_FEWEST_ZERO_ROWS = 16
"""Keys that share the weight of padding: one that had all of it would leave no codes of 8 bits to
the audio of a short window."""


class CachedDecoder(Closing):
    """The cross-attention and decoder graphs of a model directory, with a key and value cache.

    The runtime adds to the cache in place; states share what did not change. Its name is
    `cached-fp32`, `cached-int8` or `cached-int4`. `threads` are those of one operator; 0 lets the
    runtime choose.
    """

    limits = Limits()

    def __init__(self, directory: Path, spec: ModelSpec, threads: int = 0) -> None:
        self._directory = directory
        self.spec = spec
        self._threads = threads
        self.name = f"cached-{_precision(spec.quantization)}"
        self._cross_kv: onnxruntime.InferenceSession | None = None
        self._decoder: onnxruntime.InferenceSession | None = None
        self._inputs = StepInputs(spec.dims.n_text_ctx)
        self._names = CacheNames.of(spec.dims.n_decoder_layers)
        self._cross_names = CrossNames.of(spec)
        self._alignment_heads = heads_by_layer(spec.alignment_heads)

    @cached_property
    def silence_keys(self) -> SilenceKeys:
        """What the model's own encoder makes of silence."""
        encoder = OnnxEncoder(self._directory, self.spec, self._threads)
        return load_silence_keys(self._directory, self.spec, encoder)

    def open(self) -> Self:
        """Load both graphs."""
        if self._decoder is None:
            cross = self._cross_names
            inputs = _STEP_INPUTS | cross.all | frozenset(self._names.past)
            outputs = frozenset(("logits", "logsumexp", *self._names.present))
            outputs |= {f"query_{layer}" for layer, _ in self._alignment_heads}
            graphs = (
                GraphFile(CROSS_KV_FILE, frozenset({"audio_features"}), cross.all),
                GraphFile(DECODER_FILE, inputs, outputs),
            )
            self._cross_kv, self._decoder = (
                open_session(self._directory, graph, self.spec, self._threads) for graph in graphs
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
        """Compute cross keys and values once for a batch; see `core.protocols.Decoder`."""
        n_positions = check_features(audio_features, paddings, n_positions, self.spec)
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
        return CachedState(
            cache=Cache.empty(
                dims.n_decoder_layers,
                (batch, dims.n_decoder_heads, dims.cache_head_size),
                dims.n_text_ctx,
            ),
            cross=self._cross(np.ascontiguousarray(heard, dtype=np.float32)),
            cross_bias=cross_bias(paddings, n_positions, n_audio_ctx, n_zero),
            first=np.zeros(batch, np.int64),
            audio_rows=tuple(range(batch)),
            n_audio_ctx=n_audio_ctx,
            n_tokens=0,
        )

    def _cross(self, audio_features: FloatArray) -> CrossKV:
        """Keys and values of all layers, row by row, each straight to its place in the batch.

        So does the encoder: what a window is rounded to does not depend on its neighbours.
        """
        session = require_open(self._cross_kv, self.name)
        batch, n_positions, _ = audio_features.shape
        cross = CrossKV.empty(self._cross_names, self.spec.dims, batch, n_positions)
        binding = session.io_binding()
        for row in range(batch):
            binding.bind_cpu_input("audio_features", audio_features[row : row + 1])
            for name, array in cross.by_name().items():
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
        first = check_step(tokens, state, positions, first, self.spec)
        n_new = tokens.shape[1]
        after = CachedState(
            state.cache.with_room(state.n_tokens, n_new),
            state.cross,
            state.cross_bias,
            first,
            state.audio_rows,
            state.n_audio_ctx,
            state.n_tokens + n_new,
        )
        if n_new > 1 and state.batch > 1 and state.n_tokens:
            output = in_pieces(partial(self._pass, alignment=alignment), tokens, after, positions)
        else:
            output = self._pass(tokens, after, positions, alignment=alignment)
        return output, after

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
        binding = state.cache.bound(session, self._names, state.cross)
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
        """State of the given rows `(n,)` int64, in that order, repeats allowed (beams)."""
        return select_rows(state, rows)

    def rewind(self, state: CachedState, n_tokens: int) -> CachedState:
        """State cut back to its first `n_tokens` cached tokens; see `core.protocols.Decoder`."""
        check_rewind(state, n_tokens)
        if n_tokens == state.n_tokens:
            return state
        state.cache.give_back(state.n_tokens, n_tokens)
        return replace(state, n_tokens=n_tokens)


def heads_by_layer(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Layers of `(layer, head)` pairs in their order, each with its heads."""
    layers = sorted({layer for layer, _ in pairs})
    return [(layer, [head for of, head in pairs if of == layer]) for layer in layers]


def alignment_weights(
    queries: Sequence[FloatArray],
    cross: CrossKV,
    cross_bias: FloatArray,
    heads: Sequence[tuple[int, Sequence[int]]],
) -> FloatArray:
    """Return cross-attention weights of some heads, `(batch, heads, n_tokens, n_keys)` float32.

    The fused operators keep their weights to themselves: those that somebody looks at are computed
    here once more, over all keys, those of silence included.

    Args:
        queries: of each layer in `heads`, `(batch, n_tokens, heads, head_size)`, with the keys'
            scales where they have any.
        cross: keys and values of the batch.
        cross_bias: `(batch, 1, 1, n_keys)`, what is added to the scores.
        heads: layers and their heads.
    """
    parts = []
    for query, (layer, chosen) in zip(queries, heads, strict=True):
        keys = _columns_of_keys(cross, layer, chosen)
        scores = query[:, :, chosen].transpose(0, 2, 1, 3) @ keys + cross_bias
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        parts.append(weights)
    return np.concatenate(parts, axis=1)


def _columns_of_keys(cross: CrossKV, layer: int, heads: Sequence[int]) -> FloatArray:
    """Keys of some heads, `(batch, heads, head_size, n_keys)` float32, without their scales."""
    keys = cross.arrays[2 * layer][:, heads].astype(np.float32, copy=False)
    if not cross.scales:
        return keys.transpose(0, 1, 3, 2)
    batch, n_heads, _, size, _ = keys.shape
    columns: FloatArray = (keys - SIGNLESS_ZERO).transpose(0, 1, 3, 2, 4)
    return columns.reshape(batch, n_heads, size, -1)


def _precision(quantization: str) -> str:
    return "fp32" if quantization == "none" else quantization
