"""Runs of each kind of graph, on the host or on the chip, and of the values inside a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from onnx import GraphProto, ModelProto, ValueInfoProto

from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.onnx_file import parse_message, read_graph_bytes
from whisper_hailo.backends.session import EXPORT_AGAIN, FATAL_ONLY, PROVIDERS, running
from whisper_hailo.backends.state import StepInputs, cache_names
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.convert import hailo_forms
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_tools.check.graph import check_external_data

if TYPE_CHECKING:
    import onnxruntime

VALUES_AT_ONCE: Final = 16
"""Values held in memory: 120 MB in the widest model."""

Feeds = Mapping[str, AnyArray]


class InnerGraph:
    """A graph with its inputs, which returns any of its values.

    Args:
        path: an ONNX file.
        feeds: its inputs.
        label: name for messages; empty: the file's.

    Attributes:
        made: names of all values that nodes make.
    """

    def __init__(self, path: Path, feeds: Feeds, label: str = "") -> None:
        self._label = label or path.name
        self._folder = path.parent
        self.feeds = feeds
        self._encoded = read_graph_bytes(path)
        model = parse_message(self._encoded, self._label)
        graph = model.graph
        for item in graph.initializer:
            check_external_data(item, path)
        self.made = {name for node in graph.node for name in node.output if name}
        self._outputs = {value.name for value in graph.output}

    def values(self, names: Sequence[str]) -> Iterator[dict[str, AnyArray]]:
        """Run the graph as often as these values take, some at each run.

        Args:
            names: values that nodes make; others are left out.

        Yields:
            arrays by value, in the order of the names.
        """
        made = [name for name in names if name in self.made]
        for start in range(0, len(made), VALUES_AT_ONCE):
            batch = made[start : start + VALUES_AT_ONCE]
            (values,) = self.run_each(batch, [self.feeds])
            yield values

    def compute(self, names: Iterable[str]) -> dict[str, AnyArray]:
        """Return these values by name."""
        (values,) = self.run_each(list(names), [self.feeds])
        return values

    def run_each(
        self, names: Sequence[str], feeds: Sequence[Feeds]
    ) -> list[dict[str, AnyArray]]:
        """Return these values for several feeds, the graph loaded once."""
        extra = [
            ValueInfoProto(name=name) for name in names if name not in self._outputs
        ]
        # Protobuf joins messages that follow each other: more outputs, no copy of the weights.
        tail = ModelProto(graph=GraphProto(output=extra)).SerializeToString()
        with running(self._label, EXPORT_AGAIN):
            session = _open_plain_session(self._encoded + tail, self._folder)
            runs = [session.run(list(names), dict(inputs)) for inputs in feeds]
        return [dict(zip(names, run, strict=True)) for run in runs]


def _open_plain_session(encoded: bytes, folder: Path) -> onnxruntime.InferenceSession:
    """Return a session that computes every node as it is written, nothing fused or folded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    options.log_severity_level = FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(folder)
    )
    return onnxruntime.InferenceSession(
        encoded, sess_options=options, providers=PROVIDERS
    )


@dataclass(frozen=True, slots=True)
class EncoderRun:
    """An encoder of any kind.

    Attributes:
        graph: name for reports.
        encode: `(batch, n_mels, n_frames)` to `(batch, n_positions, d_model)`.
        inner: returns the graph, fed with one window `(n_mels, n_frames)`; a chip has none.
        names: stages of the reference to values, where their names differ.
    """

    graph: str
    encode: Callable[[FloatArray], FloatArray]
    inner: Callable[[FloatArray], InnerGraph] | None = None
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecoderRun:
    """A decoder of any kind.

    Attributes:
        graph: name for reports.
        logits: `(batch, n_tokens)` and `(batch, n_positions, d_model)` to
            `(batch, n_tokens, n_vocab)`.
        pad_to: positions that it pads features to.
        inner: returns the graph, fed with one row of tokens `(n_tokens,)` and its features; a chip
            has none.
        names: stages of the reference to values, where their names differ.
    """

    graph: str
    logits: Callable[[IntArray, FloatArray], FloatArray]
    pad_to: int = 0
    inner: Callable[[IntArray, FloatArray], InnerGraph] | None = None
    names: dict[str, str] = field(default_factory=dict)


def stage_values(
    run: EncoderRun | DecoderRun, stages: Iterable[str], *fed: AnyArray
) -> Iterator[tuple[str, AnyArray]]:
    """Yield the values of a graph, fed with one row, at the stages that it has."""
    if run.inner is None:
        return
    by_name = {run.names.get(stage, stage): stage for stage in stages}
    graph = run.inner(*fed)
    for values in graph.values(list(by_name)):
        for name, value in values.items():
            yield by_name[name], value


def cached_encoder(directory: Path) -> EncoderRun:
    """Return a run of a model directory's `encoder.onnx`."""
    spec = ModelSpec.load(directory)
    label = _label_graph(ENCODER_FILE, spec.encoder_quantization)

    def encode(mel: FloatArray) -> FloatArray:
        with OnnxEncoder(directory, spec) as encoder:
            return np.concatenate(
                [encoder.encode(window[np.newaxis]) for window in mel]
            )

    def inner(mel: FloatArray) -> InnerGraph:
        return InnerGraph(directory / ENCODER_FILE, {"mel": mel[np.newaxis]}, label)

    return EncoderRun(label, encode, inner)


def cached_decoder(directory: Path, pad_to: int | None = None) -> DecoderRun:
    """Return a run of a model directory's `cross_kv.onnx` and `decoder.onnx`.

    Features are padded to the full context, as in transcriptions, or to `pad_to`, 0 for not at all.
    """
    spec = ModelSpec.load(directory)
    dims = spec.dims
    label = _label_graph(DECODER_FILE, spec.quantization)
    target = dims.n_audio_ctx if pad_to is None else pad_to
    padding = Padding(target or None)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        positions = np.arange(tokens.shape[1])
        rows = []
        with CachedDecoder(directory, spec) as decoder:
            for row, audio in zip(tokens, features, strict=True):
                state = decoder.start(audio[np.newaxis], (padding,))
                output, _ = decoder.step(row[np.newaxis], state, positions)
                rows.append(output.logits)
        return np.concatenate(rows)

    def inner(tokens: IntArray, features: FloatArray) -> InnerGraph:
        """Return the step graph at a first step of all tokens."""
        n_tokens = tokens.size
        with CachedDecoder(directory, spec) as decoder:
            state = decoder.start(features[np.newaxis], (padding,))
        shape = (1, dims.n_decoder_heads, n_tokens, dims.cache_head_size)
        empty = np.zeros(shape, np.float32)
        past = dict.fromkeys(cache_names("past", dims.n_decoder_layers), empty)
        after = replace(state, n_tokens=n_tokens)
        feeds = state.cross.arrays | past
        feeds |= StepInputs(dims.n_text_ctx).make(tokens[np.newaxis], after)
        feeds["positions"] = np.arange(n_tokens)
        return InnerGraph(directory / DECODER_FILE, feeds, label)

    return DecoderRun(label, logits, target, inner, _name_stages(dims.n_decoder_layers))


def _name_stages(n_layers: int) -> dict[str, str]:
    """Return the cached decoder's values at the stages, which are named after the norm behind."""
    names = {}
    for i in range(n_layers):
        layer = f"decoder.layers.{i}"
        next_norm = f"decoder.layers.{i + 1}.self_attn_layer_norm"
        if i + 1 == n_layers:
            next_norm = "decoder.layer_norm"
        names[f"{layer}.self_attn.residual"] = f"{layer}.encoder_attn_layer_norm.in"
        names[f"{layer}.encoder_attn.residual"] = f"{layer}.final_layer_norm.in"
        names[f"{layer}.out"] = f"{next_norm}.in"
    return names


def _label_graph(file: str, quantization: str) -> str:
    return file if quantization == "none" else f"{file} {quantization}"


def hailo_encoder_run(path: Path, label: str = "") -> EncoderRun:
    """Return a run of a graph with the Hailo-form encoder's input and output."""
    output = hailo_forms.ENCODER_OUTPUT

    def feeds(mel: FloatArray) -> Feeds:
        image = np.ascontiguousarray(mel[np.newaxis, :, np.newaxis])
        return {hailo_forms.ENCODER_INPUT: image}

    def inner(mel: FloatArray) -> InnerGraph:
        return InnerGraph(path, feeds(mel), label)

    def encode(mel: FloatArray) -> FloatArray:
        runs = inner(mel[0]).run_each([output], [feeds(window) for window in mel])
        return np.concatenate([run[output] for run in runs])

    return EncoderRun(label or path.name, encode, inner, {"audio_features": output})


def hailo_decoder_run(path: Path, label: str = "") -> DecoderRun:
    """Return a run of a graph with the Hailo-form decoder's inputs and output."""
    output = hailo_forms.LOGITS

    def feeds(tokens: IntArray, features: FloatArray) -> Feeds:
        return {
            hailo_forms.TOKENS: tokens[np.newaxis],
            hailo_forms.FEATURES: features[np.newaxis],
        }

    def inner(tokens: IntArray, features: FloatArray) -> InnerGraph:
        return InnerGraph(path, feeds(tokens, features), label)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        rows = [feeds(ids, audio) for ids, audio in zip(tokens, features, strict=True)]
        runs = inner(tokens[0], features[0]).run_each([output], rows)
        return np.concatenate([run[output] for run in runs])

    names = {"decoder.embedded": "embedded"}
    return DecoderRun(label or path.name, logits, inner=inner, names=names)


def hef_encoder(path: Path, spec: ModelSpec, n_frames: int) -> EncoderRun | str:
    """Return a run of an encoder on the chip, or why its window cannot be compared."""
    encoder = HefEncoder(path, spec)
    if encoder.n_frames != n_frames:
        return f"{path.name} takes {encoder.n_frames} frames, but the windows here have {n_frames}"

    def encode(mel: FloatArray) -> FloatArray:
        with encoder:
            return np.concatenate(
                [encoder.encode(window[np.newaxis]) for window in mel]
            )

    return EncoderRun(path.name, encode)


def hef_decoder(
    path: Path, spec: ModelSpec, assets: Path, sizes: tuple[int, int]
) -> DecoderRun | str:
    """Return a run of a decoder on the chip, or why its sizes cannot be compared.

    `sizes` are the compared encoder positions and tokens, `assets` has the host's arrays.
    """
    runner = HefRunner(path, spec, assets)
    if (runner.n_positions, runner.length) != sizes:
        n_positions, length = sizes
        return (
            f"{path.name} takes {runner.n_positions} positions and {runner.length} tokens, here "
            f"there are {n_positions} and {length}"
        )

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        with runner:
            return runner.run(tokens, features)

    return DecoderRun(path.name, logits)
