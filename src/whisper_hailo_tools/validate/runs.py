"""One way to run each graph, on the host or on the chip, and to look at the values inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from whisper_hailo.backends.hailo.hef_catalog import matching_hef
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.onnx_file import parse_message, read_graph_bytes
from whisper_hailo.backends.select import find_npu
from whisper_hailo.backends.session import EXPORT_AGAIN, FATAL_ONLY, PROVIDERS, running
from whisper_hailo.backends.state import StepInputs, cache_names
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.convert.hailo import decoder as hailo_decoder
from whisper_hailo.convert.hailo import encoder as hailo_encoder
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_tools.check.graph import SMALL_BYTES, check_external_data

if TYPE_CHECKING:
    import onnxruntime

BATCH_BYTES: Final = 1 << 27
"""Values held at once; a value larger than that is looked at alone."""

_SUBGRAPHS: Final = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)

Feeds = Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A graph with what it is fed: its nodes, its weights, and any of its values on demand.

    Attributes:
        label: name for messages, such as the file's.
        nodes: in the file's order, which is one of the data path.
        sizes: value to bytes, where they follow from the feeds.
        folder: where data files of the graph lie.
    """

    label: str
    nodes: tuple[NodeProto, ...]
    outputs: tuple[str, ...]
    feeds: Feeds
    sizes: dict[str, int]
    folder: Path
    encoded: bytes

    @classmethod
    def from_file(cls, path: Path, feeds: Feeds, *, label: str = "") -> InnerGraph:
        """Open an ONNX file, which is called by its name unless `label` says otherwise."""
        encoded = read_graph_bytes(path)
        return cls.from_bytes(encoded, feeds, label=label or path.name, folder=path.parent)

    @classmethod
    def from_bytes(cls, encoded: bytes, feeds: Feeds, *, label: str, folder: Path) -> InnerGraph:
        """Open a serialised model; see `from_file`."""
        model = parse_message(encoded, label)
        for item in model.graph.initializer:
            check_external_data(item, folder / label)
        nested = [
            n.name for n in model.graph.node if any(a.type in _SUBGRAPHS for a in n.attribute)
        ]
        if nested:
            raise ModelError(
                f"{label} has a graph inside a graph ({nested[0] or 'unnamed'}), whose values "
                "cannot be looked at; export it without branches (not merged, without a cache)"
            )
        sizes = _sizes(model, feeds)
        _drop_unnamed_outputs(model.graph.node)
        return cls(
            label=label,
            nodes=tuple(model.graph.node),
            outputs=tuple(value.name for value in model.graph.output),
            feeds=feeds,
            sizes=sizes,
            folder=folder,
            encoded=encoded,
        )

    def values(self, names: Sequence[str]) -> Iterator[dict[str, AnyArray]]:
        """Run the graph as often as needed to see these values, some at each run.

        Args:
            names: values that nodes make; others are left out.

        Yields:
            value to array, in the order of the names, at most `BATCH_BYTES` together.
        """
        for batch in self.batches(names):
            yield self.run(batch)

    def batches(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Yield names in groups whose values fit `BATCH_BYTES`."""
        made = {output for node in self.nodes for output in node.output}
        unknown = max(self.sizes.values(), default=BATCH_BYTES)
        batch: list[str] = []
        room = BATCH_BYTES
        for name in names:
            if name not in made:
                continue
            size = self.sizes.get(name, unknown)
            if batch and size > room:
                yield batch
                batch, room = [], BATCH_BYTES
            batch.append(name)
            room -= size
        if batch:
            yield batch

    def run(self, names: Sequence[str]) -> dict[str, AnyArray]:
        """Return these values at once."""
        return self.run_each(names, [self.feeds])[0]

    def run_each(self, names: Sequence[str], feeds: Sequence[Feeds]) -> list[dict[str, AnyArray]]:
        """Return these values for several feeds, the graph loaded once."""
        extra = [ValueInfoProto(name=name) for name in names if name not in self.outputs]
        # Protobuf joins messages that follow each other: more outputs, no copy of the weights.
        tail = ModelProto(graph=GraphProto(output=extra)).SerializeToString()
        with running(self.label, EXPORT_AGAIN):
            session = _session(self.encoded + tail, self.folder)
        runs = []
        for one in feeds:
            with running(self.label, EXPORT_AGAIN):
                runs.append(session.run(list(names), dict(one)))
        return [dict(zip(names, run, strict=True)) for run in runs]


def _session(encoded: bytes, folder: Path) -> onnxruntime.InferenceSession:
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


def _drop_unnamed_outputs(nodes: Iterable[NodeProto]) -> None:
    """Unused optional outputs of a node: no values, and no link between nodes."""
    for node in nodes:
        named = [name for name in node.output if name]
        del node.output[:]
        node.output.extend(named)


def _sizes(model: ModelProto, feeds: Feeds) -> dict[str, int]:
    """Return bytes of each value, where they follow from the shapes of the feeds."""
    bare = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    bare.graph.node.extend(model.graph.node)
    bare.graph.input.extend(model.graph.input)
    bare.graph.output.extend(model.graph.output)
    bare.graph.initializer.extend(_without_values(item) for item in model.graph.initializer)
    for value in bare.graph.input:
        if value.name in feeds:
            for axis, length in zip(
                value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=False
            ):
                axis.dim_value = length
    try:
        graph = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    except Exception:  # a foreign graph that inference cannot follow still runs
        return {}
    sizes = {}
    for value in (*graph.value_info, *graph.output):
        kind = value.type.tensor_type
        axes = [axis.dim_value for axis in kind.shape.dim]
        if all(axes):
            width = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type or 1).itemsize
            sizes[value.name] = int(np.prod(axes, dtype=np.int64)) * width
    return sizes


def _without_values(item: onnx.TensorProto) -> onnx.TensorProto:
    """Return a weight without its values if it is large: inference reads small ones only."""
    if len(item.raw_data) <= SMALL_BYTES and item.data_location != onnx.TensorProto.EXTERNAL:
        return item
    stub = onnx.TensorProto(name=item.name, data_type=item.data_type, dims=item.dims)
    stub.data_location = onnx.TensorProto.EXTERNAL
    stub.external_data.add(key="location", value="elsewhere")
    return stub


Encode: TypeAlias = Callable[[FloatArray], FloatArray]
"""`(batch, n_mels, n_frames)` to `(batch, n_positions, d_model)`."""

Logits: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]
"""`(batch, n_tokens)` and `(batch, n_positions, d_model)` to `(batch, n_tokens, n_vocab)`."""


@dataclass(frozen=True, slots=True)
class NamedEncoder:
    """An encoder of any kind: its name for reports, and what runs it on windows."""

    graph: str
    encode: Encode


@dataclass(frozen=True, slots=True)
class NamedDecoder:
    """A decoder of any kind."""

    graph: str
    logits: Logits
    pad_to: int


@dataclass(frozen=True, slots=True)
class EncoderRun(NamedEncoder):
    """An encoder graph, which can be looked into.

    Attributes:
        feeds: graph inputs of one window `(n_mels, n_frames)`.
        open: the graph with such inputs.
        names: its value for each stage of the reference that is called otherwise.
    """

    feeds: Callable[[FloatArray], Feeds]
    open: Callable[[Feeds], InnerGraph]
    names: dict[str, str] = field(default_factory=dict)

    def inner(self, mel: FloatArray) -> InnerGraph:
        """Return the graph, fed with one window."""
        return self.open(self.feeds(mel))


@dataclass(frozen=True, slots=True)
class DecoderRun(NamedDecoder):
    """A decoder graph, which can be looked into.

    Attributes:
        feeds: graph inputs of one row of tokens `(n_tokens,)` and features.
        open: the graph with such inputs.
        names: its value for each stage of the reference that is called otherwise.
    """

    feeds: Callable[[IntArray, FloatArray], Feeds]
    open: Callable[[Feeds], InnerGraph]
    names: dict[str, str] = field(default_factory=dict)

    def inner(self, tokens: IntArray, features: FloatArray) -> InnerGraph:
        """Return the graph, fed with one row."""
        return self.open(self.feeds(tokens, features))


def cached_encoder(directory: Path) -> EncoderRun:
    """`encoder.onnx` of a model directory."""
    spec = ModelSpec.load(directory)
    label = _label(ENCODER_FILE, spec.encoder_quantization)

    def encode(mel: FloatArray) -> FloatArray:
        with OnnxEncoder(directory, spec) as encoder:
            return np.concatenate([encoder.encode(window[np.newaxis]) for window in mel])

    def opened(feeds: Feeds) -> InnerGraph:
        return InnerGraph.from_file(directory / ENCODER_FILE, feeds, label=label)

    return EncoderRun(label, encode, lambda mel: {"mel": mel[np.newaxis]}, opened)


def cached_decoder(directory: Path, pad_to: int | None = None) -> DecoderRun:
    """`cross_kv.onnx` and `decoder.onnx`, padded to the full context as they are used.

    `pad_to` is another target, 0 for none.
    """
    spec = ModelSpec.load(directory)
    label = _label(DECODER_FILE, spec.quantization)
    target = spec.dims.n_audio_ctx if pad_to is None else pad_to
    padding = Padding(target or None)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        positions = np.arange(tokens.shape[1])
        rows = []
        with CachedDecoder(directory, spec) as decoder:
            for row, audio in zip(tokens, features, strict=True):
                state = decoder.start(audio[np.newaxis], (padding,))
                rows.append(decoder.step(row[np.newaxis], state, positions)[0].logits)
        return np.concatenate(rows)

    def feeds(tokens: IntArray, features: FloatArray) -> Feeds:
        return _step_feeds(directory, spec, tokens[np.newaxis], features[np.newaxis], padding)

    def opened(feeds: Feeds) -> InnerGraph:
        return InnerGraph.from_file(directory / DECODER_FILE, feeds, label=label)

    return DecoderRun(label, logits, target, feeds, opened, _sums(spec.dims.n_decoder_layers))


def _sums(n_layers: int) -> dict[str, str]:
    """Of the cached decoder: each stage's value, called by the norm that takes it."""
    found = {}
    for i in range(n_layers):
        stem, after = f"decoder.layers.{i}", f"decoder.layers.{i + 1}.self_attn_layer_norm"
        found[f"{stem}.self_attn.residual"] = f"{stem}.encoder_attn_layer_norm.in"
        found[f"{stem}.encoder_attn.residual"] = f"{stem}.final_layer_norm.in"
        found[f"{stem}.out"] = f"{after if i + 1 < n_layers else 'decoder.layer_norm'}.in"
    return found


def _label(file: str, quantization: str) -> str:
    return file if quantization == "none" else f"{file} {quantization}"


def _step_feeds(
    directory: Path, spec: ModelSpec, tokens: IntArray, features: FloatArray, padding: Padding
) -> dict[str, AnyArray]:
    """Return inputs of the step graph for a first step of all tokens."""
    dims = spec.dims
    with CachedDecoder(directory, spec) as decoder:
        state = decoder.start(features, (padding,))
    shape = (1, dims.n_decoder_heads, tokens.shape[1], dims.cache_head_size)
    past = dict.fromkeys(cache_names("past", dims.n_decoder_layers), np.zeros(shape, np.float32))
    after = replace(state, n_tokens=tokens.shape[1])
    feeds = state.cross.arrays | past | StepInputs(dims.n_text_ctx).make(tokens, after)
    return feeds | {"positions": np.arange(tokens.shape[1])}


def hailo_encoder_run(path: Path, encoded: bytes | None = None, name: str = "") -> EncoderRun:
    """Return a graph with the Hailo-form encoder's input and output: a file, or serialised."""
    label, output = name or path.name, hailo_encoder.OUTPUT

    def feeds(mel: FloatArray) -> Feeds:
        return {hailo_encoder.INPUT: np.ascontiguousarray(mel[np.newaxis, :, np.newaxis])}

    def opened(feeds: Feeds) -> InnerGraph:
        data = read_graph_bytes(path) if encoded is None else encoded
        return InnerGraph.from_bytes(data, feeds, label=label, folder=path.parent)

    def encode(mel: FloatArray) -> FloatArray:
        rows = [feeds(window) for window in mel]
        runs = opened(rows[0]).run_each([output], rows)
        return np.concatenate([run[output] for run in runs])

    return EncoderRun(label, encode, feeds, opened, {"audio_features": output})


def hailo_decoder_run(path: Path, encoded: bytes | None = None, name: str = "") -> DecoderRun:
    """Return a graph with the Hailo-form decoder's inputs and output: a file, or serialised."""
    label, output = name or path.name, hailo_decoder.LOGITS

    def feeds(tokens: IntArray, features: FloatArray) -> Feeds:
        return {
            hailo_decoder.TOKENS: tokens[np.newaxis],
            hailo_decoder.FEATURES: features[np.newaxis],
        }

    def opened(feeds: Feeds) -> InnerGraph:
        data = read_graph_bytes(path) if encoded is None else encoded
        return InnerGraph.from_bytes(data, feeds, label=label, folder=path.parent)

    def logits(tokens: IntArray, features: FloatArray) -> FloatArray:
        rows = [feeds(*row) for row in zip(tokens, features, strict=True)]
        runs = opened(rows[0]).run_each([output], rows)
        return np.concatenate([run[output] for run in runs])

    return DecoderRun(label, logits, 0, feeds, opened, {"decoder.embedded": "embedded"})


def find_hef(directory: Path, spec: ModelSpec, part: str) -> Path | str:
    """Return the HEF of one part that this machine's chip takes, or why there is nothing to run."""
    arch, what = find_npu()
    if arch is None:
        return f"{what}; validate on the device"
    path = matching_hef(directory, spec, arch, part)
    if path is None:
        return f"no HEF of this model for {what}; whisper-hailo compile makes one"
    return path


def hef_encoder(path: Path, spec: ModelSpec, n_frames: int) -> NamedEncoder | str:
    """Return an encoder on the chip, or why its window is not the one that is compared."""
    encoder = HefEncoder(path, spec)
    if encoder.n_frames != n_frames:
        return f"{path.name} takes {encoder.n_frames} frames, the windows here have {n_frames}"

    def encode(mel: FloatArray) -> FloatArray:
        with encoder:
            return np.concatenate([encoder.encode(window[np.newaxis]) for window in mel])

    return NamedEncoder(path.name, encode)


def hef_decoder(
    path: Path, spec: ModelSpec, assets: Path, sizes: tuple[int, int]
) -> NamedDecoder | str:
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

    return NamedDecoder(path.name, logits, pad_to=0)
