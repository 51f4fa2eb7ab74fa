"""A decoder without a cache: the whole sequence at every step, by a graph or on a chip.

So are the graphs that compute as the chip will, of both halves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from whisper_hailo.backends.checks import check_features, check_positions, check_step
from whisper_hailo.backends.model_files import has_content
from whisper_hailo.backends.onnx_file import Signature, precision, read_signature
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
    """A batch of hypotheses between two runs: nothing but what the graph is fed.

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
        dims, length, n_positions = spec.dims, runner.length, runner.n_positions
        if not (1 < length <= dims.n_text_ctx and 0 < n_positions <= dims.n_audio_ctx):
            raise ShapeError(
                f"{runner.name} has {length} text and {n_positions} encoder positions, {spec.name} "
                f"has {dims.n_text_ctx} and {dims.n_audio_ctx}; decoder and --model must be of one "
                "model"
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
        n = len(features)
        return FixedState(features, np.zeros((n, 0), np.int64), np.zeros(n, np.int64))

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
        fed = np.zeros((state.batch, self.runner.length), np.int64)
        for row, start in enumerate(first.tolist()):  # real tokens from position 0, then zeros
            fed[row, : state.n_tokens - start] = history[row, start:]
        logits = self.runner.run(fed, state.audio_features)
        n_before = state.n_tokens - tokens.shape[1]
        # Where a row is padded on the left, what is asked for there means nothing: any row will do.
        columns = np.maximum(n_before + positions[None, :] - first[:, None], 0)
        looked_at = np.take_along_axis(logits, columns[:, :, None], axis=1)
        return output_of_logits(looked_at), state

    def batch_size(self, state: FixedState) -> int:
        return state.batch

    def select(self, state: FixedState, rows: IntArray) -> FixedState:
        return FixedState(state.audio_features[rows], state.tokens[rows], state.first[rows])

    def rewind(self, state: FixedState, n_tokens: int) -> FixedState:
        first = state.first if n_tokens else np.zeros_like(state.first)
        return replace(state, tokens=state.tokens[:, :n_tokens], first=first)


class OnnxFixedRunner(OneGraph):
    """An ONNX graph of one row at a time, called `fixed-fp32`, `fixed-int8` or as it is given."""

    def __init__(self, path: Path, spec: ModelSpec, threads: int = 0, name: str = "") -> None:
        signature = read_signature(path)
        names = fixed_inputs(signature)
        if names is None:
            raise ModelError(
                f"{display_path(path)} takes {signature.describe()}; a fixed decoder takes numbers "
                "of ids (1, length) and audio features (1, n_positions, d_model): make one with "
                "convert --hailo"
            )
        self._ids, self._features = names
        ids, features = (signature.inputs[name] for name in names)
        self._logits, logits = next(iter(signature.outputs.items()))
        self._dtypes = (ids.dtype, features.dtype)
        super().__init__(path, threads, name or f"fixed-{precision(path, features.dtype)}")
        self.length, self.n_positions = int(ids.shape[1]), int(features.shape[1])
        dims = spec.dims
        got, wanted = (features.shape[2], logits.shape[-1]), (dims.d_model, dims.n_vocab)
        if any(isinstance(g, int) and g != w for g, w in zip(got, wanted, strict=True)):
            raise ModelError(
                f"{display_path(path)} has width {got[0]} and {got[1]} tokens, {spec.name} has "
                f"{wanted[0]} and {wanted[1]}; decoder and --model must be of one model"
            )

    def run(self, tokens: IntArray, audio_features: FloatArray) -> FloatArray:
        ids_dtype, features_dtype = self._dtypes
        logits = []
        for row in range(tokens.shape[0]):
            arrays = {
                self._ids: tokens[row : row + 1].astype(ids_dtype, copy=False),
                self._features: audio_features[row : row + 1].astype(features_dtype, copy=False),
            }
            logits.append(self.compute(self._logits, arrays))
        return np.concatenate(logits).astype(np.float32, copy=False)


def fixed_inputs(signature: Signature) -> tuple[str, str] | None:
    """Return the names of ids and audio features, if all of their sizes are fixed."""
    ports = signature.inputs
    kinds = {(port.dtype[:3], len(port.shape)): name for name, port in ports.items()}
    sizes = [axis for port in ports.values() for axis in port.shape[1:]]
    if (
        len(ports) != 2
        or kinds.keys() != {("int", 2), ("flo", 3)}
        or not all(isinstance(size, int) for size in sizes)
    ):
        return None
    return kinds["int", 2], kinds["flo", 3]


def find_emulated(
    directory: Path, spec: ModelSpec, path: Path | None, part: str
) -> tuple[Path, str]:
    """Return a graph of `whisper-hailo emulate`, and its name, such as `emulated-adds16`."""
    form = spec.hailo_form(part)
    path = path or resolve_within(directory, form.emulated_file)
    return path, f"emulated-{emulated_plan(path, spec, form)}"


def emulated_plan(path: Path, spec: ModelSpec, form: HailoForm) -> str:
    """Name of the plan of an emulated graph, from the record beside it."""

    def refused(problem: str) -> ModelError:
        again = f"whisper-hailo emulate MODEL_DIR --audio DIR --part {form.part}"
        return ModelError(f"{problem}; make it with: {again}")

    shown, record_path = display_path(path), path.with_suffix(".json")
    if not path.is_file() or not record_path.is_file():
        raise refused(f"there is no emulated graph {shown} with its .json")
    try:
        record = decode(_Record, read_json_object(record_path))
    except MismatchError as error:
        raise refused(f"{display_path(record_path)}: {error}") from error
    if record.graph_sha256 != spec.record(form.file).sha256:
        raise refused(f"{shown} was made from another graph than {display_path(form.file)}")
    if not has_content(path, record.sha256):
        raise refused(f"{shown} is damaged: not what {display_path(record_path.name)} says")
    return record.plan


@dataclass(frozen=True, slots=True)
class _Record:
    """What is read of the record beside an emulated graph."""

    plan: str
    sha256: str
    graph_sha256: str
