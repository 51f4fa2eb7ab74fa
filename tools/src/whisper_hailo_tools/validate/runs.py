"""One way to run each graph, on the host or on the chip, and to look at the values inside."""

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
    """A graph with what it is fed, and any of its values on demand.

    Args:
        path: an ONNX file.
        feeds: its inputs.
        label: name for messages; empty: the file's.
    """

    def __init__(self, path: Path, feeds: Feeds, label: str = "") -> None:
        self._label = label or path.name
        self._folder = path.parent
        self._feeds = feeds
        self._encoded = read_graph_bytes(path)
        model = parse_message(self._encoded, self._label)
        graph = model.graph
        for item in graph.initializer:
            check_external_data(item, path)
        self._made = {name for node in graph.node for name in node.output if name}
        self._outputs = {value.name for value in graph.output}

    def values(self, names: Sequence[str]) -> Iterator[dict[str, AnyArray]]:
        """Run the graph as often as needed to see these values, some at each run.

        Args:
            names: values that nodes make; others are left out.

        Yields:
            value to array, in the order of the names.
        """
        made = [name for name in names if name in self._made]
        for start in range(0, len(made), VALUES_AT_ONCE):
            yield self.run_each(made[start : start + VALUES_AT_ONCE], [self._feeds])[0]

    def run_each(self, names: Sequence[str], feeds: Sequence[Feeds]) -> list[dict[str, AnyArray]]:
        """Return these values for several feeds, the graph loaded once."""
        extra = [ValueInfoProto(name=name) for name in names if name not in self._outputs]
        # Protobuf joins messages that follow each other: more outputs, no copy of the weights.
        tail = ModelProto(graph=GraphProto(output=extra)).SerializeToString()
        with running(self._label, EXPORT_AGAIN):
            session = _open_plain_session(self._encoded + tail, self._folder)
            runs = [session.run(list(names), dict(one)) for one in feeds]
        return [dict(zip(names, run, strict=True)) for run in runs]


def _open_plain_session(encoded: bytes, folder: Path) -> onnxruntime.InferenceSession:
    """Return a session that computes every node as it is written: nothing fused, nothing folded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(folder)
    )
    return onnxruntime.InferenceSession(encoded, sess_options=options, providers=PROVIDERS)


@dataclass(frozen=True, slots=True)
class EncoderRun:
    """An encoder of any kind.

    Attributes:
        graph: name for reports.
        encode: `(batch, n_mels, n_frames)` to `(batch, n_positions, d_model)`.
        inner: the graph fed with one window `(n_mels, n_frames)`; a chip has none.
        names: its value for each stage of the reference that is called otherwise.
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
        inner: the graph fed with one row of tokens `(n_tokens,)` and features; a chip has none.
        names: its value for each stage of the reference that is called otherwise.
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
    by_name = {run.names.get(stage, stage): stage for stage in stages}
    if run.inner is not None:
        for values in run.inner(*fed).values(list(by_name)):
            yield from ((by_name[name], value) for name, value in values.items())


def cached_encoder(directory: Path) -> EncoderRun:
    """`encoder.onnx` of a model directory."""
    spec = ModelSpec.load(directory)
    label = _label_graph(ENCODER_FILE, spec.encoder_quantization)

    def encode(mel: FloatArray) -> FloatArray:
        with OnnxEncoder(directory, spec) as encoder:
            return np.concatenate([encoder.encode(window[np.newaxis]) for window in mel])

    def inner(mel: FloatArray) -> InnerGraph:
        return InnerGraph(directory / ENCODER_FILE, {"mel": mel[np.newaxis]}, label)

    return EncoderRun(label, encode, inner)


def cached_decoder(directory: Path, pad_to: int | None = None) -> DecoderRun:
    """`cross_kv.onnx` and `decoder.onnx`, padded to the full context as they are used.

    `pad_to` is another target, 0 for none.
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
                rows.append(decoder.step(row[np.newaxis], state, positions)[0].logits)
        return np.concatenate(rows)

    def inner(tokens: IntArray, features: FloatArray) -> InnerGraph:
        """Return the step graph at a first step of all tokens."""
        n_tokens = tokens.size
        with CachedDecoder(directory, spec) as decoder:
            state = decoder.start(features[np.newaxis], (padding,))
        shape = (1, dims.n_decoder_heads, n_tokens, dims.cache_head_size)
        past = dict.fromkeys(
            cache_names("past", dims.n_decoder_layers), np.zeros(shape, np.float32)
        )
        after = replace(state, n_tokens=n_tokens)
        feeds = state.cross.arrays | past
        feeds |= StepInputs(dims.n_text_ctx).make(tokens[np.newaxis], after)
        feeds["positions"] = np.arange(n_tokens)
        return InnerGraph(directory / DECODER_FILE, feeds, label)

    return DecoderRun(label, logits, target, inner, _name_stages(dims.n_decoder_layers))


def _name_stages(n_layers: int) -> dict[str, str]:
    """Of the cached decoder: each stage's value, called by the norm that takes it."""
    found = {}
    for i in range(n_layers):
        stem, after = f"decoder.layers.{i}", f"decoder.layers.{i + 1}.self_attn_layer_norm"
        found[f"{stem}.self_attn.residual"] = f"{stem}.encoder_attn_layer_norm.in"
        found[f"{stem}.encoder_attn.residual"] = f"{stem}.final_layer_norm.in"
        found[f"{stem}.out"] = f"{after if i + 1 < n_layers else 'decoder.layer_norm'}.in"
    return found


def _label_graph(file: str, quantization: str) -> str:
    return file if quantization == "none" else f"{file} {quantization}"


def hailo_encoder_run(path: Path, label: str = "") -> EncoderRun:
    """Return a graph with the Hailo-form encoder's input and output."""
    output = hailo_forms.ENCODER_OUTPUT

    def feeds(mel: FloatArray) -> Feeds:
        return {hailo_forms.ENCODER_INPUT: np.ascontiguousarray(mel[np.newaxis, :, np.newaxis])}

    def inner(mel: FloatArray) -> InnerGraph:
        return InnerGraph(path, feeds(mel), label)

    def encode(mel: FloatArray) -> FloatArray:
        runs = inner(mel[0]).run_each([output], [feeds(window) for window in mel])
        return np.concatenate([run[output] for run in runs])

    return EncoderRun(label or path.name, encode, inner, {"audio_features": output})


def hailo_decoder_run(path: Path, label: str = "") -> DecoderRun:
    """Return a graph with the Hailo-form decoder's inputs and output."""
    output, names = hailo_forms.LOGITS, {"decoder.embedded": "embedded"}

    def feeds(tokens: IntArray, features: FloatArray) -> Feeds:
        return {
            hailo_forms.TOKENS: tokens[np.newaxis],
            hailo_forms.FEATURES: features[np.newaxis],
        }

    def inner(tokens: IntArray, features: FloatArray) -> InnerGraph:
        return InnerGraph(path, feeds(tokens, features), label)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        rows = [feeds(*row) for row in zip(tokens, features, strict=True)]
        runs = inner(tokens[0], features[0]).run_each([output], rows)
        return np.concatenate([run[output] for run in runs])

    return DecoderRun(label or path.name, logits, inner=inner, names=names)


def hef_encoder(path: Path, spec: ModelSpec, n_frames: int) -> EncoderRun | str:
    """Return an encoder on the chip, or why its window is not the one that is compared."""
    encoder = HefEncoder(path, spec)
    if encoder.n_frames != n_frames:
        return f"{path.name} takes {encoder.n_frames} frames, the windows here have {n_frames}"

    def encode(mel: FloatArray) -> FloatArray:
        with encoder:
            return np.concatenate([encoder.encode(window[np.newaxis]) for window in mel])

    return EncoderRun(path.name, encode)


def hef_decoder(
    path: Path, spec: ModelSpec, assets: Path, sizes: tuple[int, int]
) -> DecoderRun | str:
    """Return a decoder on the chip, or why its sizes are not those that are compared.

    `sizes` are encoder positions and tokens of what is compared, `assets` has the host's arrays.
    """
    runner = HefRunner(path, spec, assets)
    if (runner.n_positions, runner.length) != sizes:
        return (
            f"{path.name} takes {runner.n_positions} positions and {runner.length} tokens, here "
            f"there are {sizes[0]} and {sizes[1]}"
        )

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        with runner:
            return runner.run(tokens, features)

    return DecoderRun(path.name, logits)
