"""Decoders that Optimum exported, as they are: two graphs or a merged one, any input variant."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.backends.checks import check_features, check_step
from whisper_hailo.backends.onnx_file import (
    ForeignEncoder,
    Port,
    Signature,
    encoder_file,
    move_weights_into_branches,
    precision,
    read_signature,
)
from whisper_hailo.backends.padding import pad_features
from whisper_hailo.backends.session import (
    EXPORT_AGAIN,
    open_graph,
    require_open,
    running,
    saturates,
)
from whisper_hailo.backends.silence import measure_silence_keys
from whisper_hailo.backends.step_output import output_of_logits
from whisper_hailo.core.errors import ModelError, ShapeError, display_path
from whisper_hailo.core.protocols import (
    Closing,
    Limits,
    Padding,
    SilenceKeys,
    StepOutput,
)
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import onnxruntime

FIRST: Final = "decoder_model"
LATER: Final = "decoder_with_past_model"
MERGED: Final = "decoder_model_merged"
"""File names of the graph of the first step, of later ones, and of both."""

PAST: Final = "past_key_values."
PRESENT: Final = "present."
"""What comes before names such as `0.decoder.key` in inputs and outputs."""

IDS: Final = {"input_ids", "decoder_input_ids"}
FEATURES: Final = "encoder_hidden_states"
BRANCH: Final = "use_cache_branch"
POSITIONS: Final = {"cache_position", "position_ids", "decoder_position_ids"}
TEXT_MASKS: Final = {"attention_mask", "decoder_attention_mask"}
AUDIO_MASK: Final = "encoder_attention_mask"
_INPUTS: Final = {*IDS, FEATURES, BRANCH, *POSITIONS, *TEXT_MASKS, AUDIO_MASK}
"""Inputs that a graph may have, besides the cache."""

_AGAIN: Final = "export it with --task automatic-speech-recognition-with-past"


def find_graphs(path: Path, spec: ModelSpec) -> tuple[Signature, Signature]:
    """Find and check the graphs of an export: of the first step, and of later ones.

    They are the same object where the export merged them.

    Raises:
        ModelError: there are none, or those of another model.
    """
    for first_path, later_path in _candidate_files(path):
        if not (first_path.is_file() and later_path.is_file()):
            continue
        first = later = read_signature(first_path)
        if later_path != first_path:
            later = read_signature(later_path)
        _check_names(first, later, spec)
        _check_sizes(first, later, spec)
        return first, later
    raise ModelError(
        f"{display_path(path)} holds no {MERGED}.onnx, nor {FIRST}.onnx with {LATER}.onnx, nor a "
        f"checkpoint's model.safetensors; {_AGAIN}, or give the directory with --decoder"
    )


def _candidate_files(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield pairs of files to look for, the best first: one graph takes half the memory of two."""
    if not path.is_dir():
        name = path.name
        if name.startswith(MERGED):
            yield path, path
        elif name.startswith(LATER):
            yield path.with_name(name.replace(LATER, FIRST, 1)), path
        else:
            yield path, path.with_name(name.replace(FIRST, LATER, 1))
        return
    for folder in (path, path / "onnx"):
        for mark in ("", "_quantized", "_int8", "_fp16"):
            merged = folder / f"{MERGED}{mark}.onnx"
            yield merged, merged
            yield folder / f"{FIRST}{mark}.onnx", folder / f"{LATER}{mark}.onnx"


def _check_names(first: Signature, later: Signature, spec: ModelSpec) -> None:
    """Check that both graphs have the inputs and outputs of a cached decoder, and no others."""
    n_layers = spec.dims.n_decoder_layers
    text_cache = _cache_names("decoder", n_layers)
    whole_cache = text_cache | _cache_names("encoder", n_layers)
    for signature in (first, later):
        _check_inputs(signature)
    for signature, ports, prefix, needed in (
        (first, first.outputs, PRESENT, whole_cache),
        (later, later.inputs, PAST, whole_cache),
        (later, later.outputs, PRESENT, text_cache),
    ):
        names = {name.removeprefix(prefix) for name in ports if name.startswith(prefix)}
        surplus = names - whole_cache
        wrong = sorted(surplus or needed - names)
        if wrong:
            verb = "has" if surplus else "lacks"
            raise ModelError(
                f"{display_path(signature.path)} {verb} {prefix}{wrong[0]}, {spec.name} has "
                f"{n_layers} decoder layers; decoder and --model must be from the same model, "
                "exported with its cache"
            )
    if FEATURES not in first.inputs or "logits" not in first.outputs:
        raise ModelError(
            f"{display_path(first.path)} lacks {FEATURES} or logits; {_AGAIN}"
        )


def _cache_names(source: str, n_layers: int) -> set[str]:
    """Return names such as `0.decoder.key`, without the prefix."""
    return {
        f"{layer}.{source}.{part}"
        for layer in range(n_layers)
        for part in ("key", "value")
    }


def _check_inputs(signature: Signature) -> None:
    unknown = [
        name
        for name in signature.inputs
        if name not in _INPUTS and not name.startswith(PAST)
    ]
    if unknown or not IDS & signature.inputs.keys():
        problem = f"input {unknown[0]}" if unknown else "no token ids"
        raise ModelError(
            f"{display_path(signature.path)} has {problem}, which is not a Whisper decoder; "
            f"{_AGAIN}"
        )


def _check_sizes(first: Signature, later: Signature, spec: ModelSpec) -> None:
    """Check width, heads and vocabulary wherever a graph gives a number."""
    dims = spec.dims
    heads = f"{dims.n_decoder_heads} heads of {dims.head_size}"
    cache = next(port for name, port in later.inputs.items() if name.startswith(PAST))
    for signature, port, axis, size, expected in (
        (first, first.inputs[FEATURES], 2, dims.d_model, f"a width of {dims.d_model}"),
        (first, first.outputs["logits"], 2, dims.n_vocab, f"{dims.n_vocab} tokens"),
        (later, cache, 1, dims.n_decoder_heads, heads),
        (later, cache, 3, dims.head_size, heads),
    ):
        stated = port.shape[axis] if len(port.shape) > axis else None
        if isinstance(stated, str):  # any size
            continue
        if stated != size:
            shape = ", ".join(map(str, port.shape))
            raise ModelError(
                f"{display_path(signature.path)} has ({shape}), {spec.name} has {expected}; "
                "decoder and --model must be from the same model"
            )


logger = logging.getLogger(__name__)

Cache = dict[str, Any]
"""`0.decoder.key` and so on to the runtime's tensors."""


@dataclass(frozen=True, slots=True)
class OptimumState:
    """A batch of hypotheses between two steps; nothing in it is ever written to.

    Attributes:
        features: `(batch, n_positions, d_model)`, zero rows included, in the graph's own type.
        cache: keys and values by layer and part; empty before the first step.
        audio_rows: for each row, the row of `start`'s audio features that it belongs to.
    """

    features: NDArray[Any]
    cache: Cache
    audio_rows: tuple[int, ...]
    n_tokens: int

    @property
    def batch(self) -> int:
        return len(self.audio_rows)

    @property
    def first(self) -> IntArray:
        """`(batch,)` zeros: these graphs have no way to skip left padding."""
        return np.zeros(self.batch, np.int64)


class OptimumDecoder(Closing):
    """The decoder of an Optimum export, with its cache in the runtime's memory.

    Padding is real: zero rows behind the features cost as much as other positions. Later tokens are
    fed one at a time: exports traced with one token have no causal mask for more. `path` is the
    export's directory, or one of its graphs. The name is `optimum-merged-int8` and so on.
    """

    limits = Limits(free_padding=False, aligns=False)

    def __init__(self, path: Path, spec: ModelSpec, threads: int = 0) -> None:
        self._first, self._later = find_graphs(path, spec)
        self._is_merged = self._first is self._later
        weights = precision(self._first.path, self._first.inputs[FEATURES].dtype)
        kind = "merged-" if self._is_merged else ""
        self.name = f"optimum-{kind}{weights}"
        quantization = {"fp32": "none", "fp16": "fp16"}.get(
            weights, f"exported {weights}"
        )
        self.spec = replace(spec, quantization=quantization)
        self._threads = threads
        self._sessions: dict[Path, onnxruntime.InferenceSession] = {}

    @cached_property
    def silence_keys(self) -> SilenceKeys | None:
        """What the exported encoder makes of silence; `None` where there is no encoder."""
        try:
            encoder = ForeignEncoder(encoder_file(self._first.path.parent), self.spec)
        except ModelError as error:
            logger.warning("padding with zeros, not with silence: %s", error)
            return None
        # The measurement needs the full context.
        if encoder.n_frames != self.spec.dims.max_frames:
            return None
        with encoder:
            return measure_silence_keys(encoder)

    def open(self) -> Self:
        # Where 8-bit sums are cut off, the exact kernels need the weights in the branches.
        moves_weights = self._is_merged and self._first.signed_codes and saturates()
        for path in {self._first.path, self._later.path} - self._sessions.keys():
            source = move_weights_into_branches(path) if moves_weights else path
            self._sessions[path] = open_graph(
                source, str(path), self._threads, EXPORT_AGAIN
            )
        return self

    def close(self) -> None:
        self._sessions = {}

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> OptimumState:
        """Pad the features with zero rows; see `core.protocols.Decoder`."""
        n_positions = check_features(audio_features, n_positions, self.spec)
        padded = pad_features(audio_features, paddings, n_positions)
        dtype = self._first.inputs[FEATURES].dtype
        rows = tuple(range(audio_features.shape[0]))
        return OptimumState(padded.astype(dtype, copy=False), {}, rows, 0)

    def step(
        self,
        tokens: IntArray,
        state: OptimumState,
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, OptimumState]:
        """Append tokens to the cache, without alignment; see `core.protocols.Decoder`."""
        if np.any(check_step(tokens, state, first, self.spec)):
            raise ShapeError(
                f"{self.name} cannot skip left padding; prompts of one batch must be equally long"
            )
        if state.n_tokens == 0:
            logits, state = self._run(self._first, tokens, state)
        else:
            columns = []
            for index in range(tokens.shape[1]):
                column, state = self._run(
                    self._later, tokens[:, index : index + 1], state
                )
                columns.append(column)
            logits = np.concatenate(columns, axis=1)
        return output_of_logits(logits[:, positions]), state

    def _run(
        self, signature: Signature, tokens: IntArray, state: OptimumState
    ) -> tuple[FloatArray, OptimumState]:
        """Run one graph over some tokens; the binding reads `arrays` in place until it is done."""
        session = require_open(self._sessions.get(signature.path), self.name)
        binding = session.io_binding()
        arrays: dict[str, NDArray[Any]] = {}
        for name, port in signature.inputs.items():
            if name.startswith(PAST) and state.cache:
                binding.bind_ortvalue_input(name, state.cache[name.removeprefix(PAST)])
            else:
                arrays[name] = self._array(name, port, tokens, state)
                binding.bind_cpu_input(name, arrays[name])
        # A merged graph's cache branch gives empty encoder keys: the first step's are kept.
        presents = [
            name
            for name in signature.outputs
            if name.startswith(PRESENT) and (not state.cache or ".decoder." in name)
        ]
        for name in ("logits", *presents):
            binding.bind_output(name, "cpu")
        with running(str(signature.path), EXPORT_AGAIN):
            session.run_with_iobinding(binding)
        logits, *values = binding.get_outputs()
        cache = dict(state.cache)
        for name, value in zip(presents, values, strict=True):
            cache[name.removeprefix(PRESENT)] = value
        after = replace(state, cache=cache, n_tokens=state.n_tokens + tokens.shape[1])
        return logits.numpy().astype(np.float32, copy=False), after

    def _array(
        self,
        name: str,
        port: Port,
        tokens: IntArray,
        state: OptimumState,
    ) -> NDArray[Any]:
        """Return the array of one input."""
        batch, n_new = tokens.shape
        n_tokens = state.n_tokens + n_new
        array: NDArray[Any]
        if name in POSITIONS:
            array = np.arange(state.n_tokens, n_tokens).astype(port.dtype)
            if len(port.shape) > 1:
                array = np.tile(array, (batch, 1))
        elif name.startswith(PAST):
            # Needed by a merged graph, unused by its first branch.
            dims = self.spec.dims
            array = np.zeros(
                (batch, dims.n_decoder_heads, 0, dims.head_size), port.dtype
            )
        elif name in TEXT_MASKS:
            array = np.ones((batch, n_tokens), port.dtype)
        elif name == FEATURES:
            array = state.features
        elif name == BRANCH:
            array = np.full(1, bool(state.cache))
        elif name == AUDIO_MASK:
            array = np.ones(state.features.shape[:2], port.dtype)
        else:
            array = np.ascontiguousarray(tokens, dtype=port.dtype)
        return array

    def batch_size(self, state: OptimumState) -> int:
        return state.batch

    def select(self, state: OptimumState, rows: IntArray) -> OptimumState:
        audio_rows = tuple(state.audio_rows[int(row)] for row in rows)
        keeps_audio = audio_rows == state.audio_rows
        cache: Cache = {}
        for name, value in state.cache.items():
            if keeps_audio and ".encoder." in name:  # large, and the same for beams
                cache[name] = value
            else:
                cache[name] = _copy_to_runtime(value.numpy()[rows])
        features = state.features if keeps_audio else state.features[rows]
        return replace(state, features=features, cache=cache, audio_rows=audio_rows)

    def rewind(self, state: OptimumState, n_tokens: int) -> OptimumState:
        if n_tokens == state.n_tokens:
            return state
        if n_tokens == 0:  # the first step's graph makes the cross keys and values anew
            return replace(state, cache={}, n_tokens=0)
        cache: Cache = {}
        for name, value in state.cache.items():
            if ".decoder." in name:
                cache[name] = _copy_to_runtime(value.numpy()[:, :, :n_tokens])
            else:
                cache[name] = value
        return replace(state, cache=cache, n_tokens=n_tokens)


def _copy_to_runtime(array: FloatArray) -> onnxruntime.OrtValue:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
