"""A decoder without a cache: the whole sequence at every step, by a graph or on a chip.

Also the graphs of `whisper-hailo emulate`, which compute as the chip will.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from whisper_hailo.backends.checks import check_features, check_positions, check_step
from whisper_hailo.backends.model_files import has_content
from whisper_hailo.backends.onnx_file import (
    Signature,
    can_be,
    precision,
    read_signature,
)
from whisper_hailo.backends.padding import pad_with_zeros
from whisper_hailo.backends.session import OneGraph
from whisper_hailo.backends.step_output import output_of_logits
from whisper_hailo.core.errors import ModelError, ShapeError, display_path
from whisper_hailo.core.paths import resolve_within
from whisper_hailo.core.protocols import Closing, Limits, Padding, StepOutput
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object
from whisper_hailo.core.types import FloatArray, IntArray


class FixedRunner(Closing, Protocol):
    """One graph of fixed sizes that maps a whole token sequence to logits at every position."""

    name: str
    length: int
    n_positions: int

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        """Run all positions; return logits `(batch, length, n_vocab)` float32.

        Tokens `(batch, length)` int64 are padded with 0, features `(batch, n_positions, d_model)`
        float32 with zero rows. Row i of the logits belongs to the token after token i.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedState:
    """A batch of hypotheses between two runs: the graph's inputs, and nothing else.

    Audio features `(batch, n_positions, d_model)` float32, tokens `(batch, n_tokens)` int64, left
    padding included, and `(batch,)` int64 columns of each row's first real token.
    """

    audio_features: FloatArray
    tokens: IntArray
    first: IntArray

    @property
    def batch(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def n_tokens(self) -> int:
        return int(self.tokens.shape[1])


class FixedDecoder(Closing):
    """Decodes by running a fixed graph over the token history at every step."""

    silence_keys: None = None  # the graph has no positions beyond its window

    def __init__(self, runner: FixedRunner, spec: ModelSpec) -> None:
        dims = spec.dims
        length = runner.length
        n_positions = runner.n_positions
        if not (1 < length <= dims.n_text_ctx and 0 < n_positions <= dims.n_audio_ctx):
            raise ShapeError(
                f"{runner.name} has {length} text and {n_positions} encoder positions, {spec.name} "
                f"has {dims.n_text_ctx} and {dims.n_audio_ctx}; decoder and --model must be from "
                "the same model"
            )
        self.runner = runner
        self.name = runner.name
        self.limits = Limits(n_positions=n_positions, free_padding=False, aligns=False)
        narrowed = replace(dims, n_text_ctx=length, n_audio_ctx=n_positions)
        self.spec = replace(spec, dims=narrowed)

    def open(self) -> Self:
        self.runner.open()
        return self

    def close(self) -> None:
        self.runner.close()

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> FixedState:
        """Pad features with zero rows to the graph's positions; see `core.protocols.Decoder`."""
        n_positions = check_features(audio_features, n_positions, self.spec)
        check_positions(self.runner.n_positions, int(n_positions.max()))
        target = max(padding.pad_to or 0 for padding in paddings)
        if target > self.runner.n_positions:
            raise ShapeError(
                f"decoder takes {self.runner.n_positions} positions and cannot be padded to "
                f"{target}; leave --pad-to out and set --repetition-penalty"
            )
        features = pad_with_zeros(audio_features, n_positions, self.runner.n_positions)
        batch = len(features)
        no_tokens = np.zeros((batch, 0), np.int64)
        return FixedState(features, no_tokens, first=np.zeros(batch, np.int64))

    def step(
        self,
        tokens: IntArray,
        state: FixedState,
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, FixedState]:
        """Run the history and the new tokens, without alignment; see `core.protocols.Decoder`."""
        first = check_step(tokens, state, first, self.spec)
        history = np.concatenate([state.tokens, tokens], axis=1)
        state = FixedState(state.audio_features, history, first)
        inputs = np.zeros((state.batch, self.runner.length), np.int64)
        # Real tokens from position 0, then zeros.
        for row, start in enumerate(first.tolist()):
            inputs[row, : state.n_tokens - start] = history[row, start:]
        logits = self.runner.run(inputs, state.audio_features)
        n_before = state.n_tokens - tokens.shape[1]
        columns = n_before + positions[None, :] - first[:, None]
        # Logits at left padding mean nothing: those of any position do.
        columns = np.maximum(columns, 0)
        selected = np.take_along_axis(logits, columns[:, :, None], axis=1)
        return output_of_logits(selected), state

    def batch_size(self, state: FixedState) -> int:
        return state.batch

    def select(self, state: FixedState, rows: IntArray) -> FixedState:
        return FixedState(
            state.audio_features[rows], state.tokens[rows], state.first[rows]
        )

    def rewind(self, state: FixedState, n_tokens: int) -> FixedState:
        first = state.first if n_tokens else np.zeros_like(state.first)
        return replace(state, tokens=state.tokens[:, :n_tokens], first=first)


class OnnxFixedRunner(OneGraph):
    """An ONNX graph of one row at a time, called `fixed-fp32`, `fixed-int8` or as it is given."""

    def __init__(
        self,
        path: Path,
        spec: ModelSpec,
        threads: int = 0,
        name: str = "",
    ) -> None:
        signature = read_signature(path)
        names = fixed_inputs(signature)
        if names is None:
            raise ModelError(
                f"{display_path(path)} takes {signature.describe()}; a fixed decoder takes numbers "
                "of ids (1, length) and audio features (1, n_positions, d_model): make one with "
                "convert --hailo"
            )
        self._ids, self._features = names
        self._ids_port = signature.inputs[self._ids]
        self._features_port = signature.inputs[self._features]
        self._logits, logits_port = next(iter(signature.outputs.items()))
        weights = precision(path, self._features_port.dtype)
        super().__init__(path, threads, name or f"fixed-{weights}")
        self.length = int(self._ids_port.shape[1])
        self.n_positions = int(self._features_port.shape[1])
        width = self._features_port.shape[2]
        n_vocab = logits_port.shape[-1]
        dims = spec.dims
        if not (can_be(width, dims.d_model) and can_be(n_vocab, dims.n_vocab)):
            raise ModelError(
                f"{display_path(path)} has width {width} and {n_vocab} tokens, {spec.name} has "
                f"{dims.d_model} and {dims.n_vocab}; decoder and --model must be from the same "
                "model"
            )

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        parts = []
        for row in range(tokens.shape[0]):
            ids = tokens[row : row + 1].astype(self._ids_port.dtype, copy=False)
            features = audio_features[row : row + 1]
            features = features.astype(self._features_port.dtype, copy=False)
            parts.append(
                self.compute(self._logits, {self._ids: ids, self._features: features})
            )
        return np.concatenate(parts).astype(np.float32, copy=False)


def fixed_inputs(signature: Signature) -> tuple[str, str] | None:
    """Return the names of ids and audio features, if all of their sizes are fixed."""
    if len(signature.inputs) != 2:
        return None
    ids = features = None
    for name, port in signature.inputs.items():
        if any(isinstance(axis, str) for axis in port.shape[1:]):
            return None
        if port.dtype.startswith("int") and len(port.shape) == 2:
            ids = name
        if port.dtype.startswith("float") and len(port.shape) == 3:
            features = name
    if ids is None or features is None:
        return None
    return ids, features


def find_emulated(
    directory: Path, spec: ModelSpec, path: Path | None, part: str
) -> tuple[Path, str]:
    """Return a graph of `whisper-hailo emulate`, and its name, such as `emulated-adds16`."""
    form = spec.hailo_form(part)
    path = path or resolve_within(directory, form.emulated_file)
    return path, f"emulated-{emulated_plan(path, spec, form)}"


def emulated_plan(path: Path, spec: ModelSpec, form: HailoForm) -> str:
    """Return the name of an emulated graph's plan, from the record beside it.

    Raises:
        ModelError: graph or record are missing, damaged, or of another model.
    """

    def error_of(problem: str) -> ModelError:
        command = f"whisper-hailo emulate MODEL_DIR --audio DIR --part {form.part}"
        return ModelError(f"{problem}; make it with: {command}")

    graph_name = display_path(path)
    record_path = path.with_suffix(".json")
    if not path.is_file() or not record_path.is_file():
        raise error_of(f"there is no emulated graph {graph_name} with its .json")
    try:
        record = decode(_Record, read_json_object(record_path))
    except MismatchError as error:
        raise error_of(f"{display_path(record_path)}: {error}") from error
    if record.graph_sha256 != spec.record(form.file).sha256:
        raise error_of(
            f"{graph_name} was made from a different graph than {display_path(form.file)}"
        )
    if not has_content(path, record.sha256):
        raise error_of(
            f"{graph_name} is damaged: it does not match what {display_path(record_path.name)} says"
        )
    return record.plan


@dataclass(frozen=True, slots=True)
class _Record:
    """The used entries of the record beside an emulated graph."""

    plan: str
    sha256: str
    graph_sha256: str
