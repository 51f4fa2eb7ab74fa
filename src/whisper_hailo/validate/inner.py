"""The values inside an ONNX graph, of any origin, looked at a few at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, numpy_helper

from whisper_hailo.backends.graph_run import EXPORT_AGAIN, running
from whisper_hailo.backends.onnx_message import parse_message, read_graph_bytes
from whisper_hailo.backends.saturation import saturates
from whisper_hailo.backends.session import FATAL_ONLY, PROVIDERS
from whisper_hailo.backends.unsigned_codes import without_signs
from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.errors import ModelError
from whisper_hailo.hailo_tools.check.graph import SMALL_BYTES, check_external_data

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
        weights: initializers by name, still packed.
        constants: values of Constant nodes.
        outputs: names of the graph outputs.
        feeds: input to array.
        sizes: value to bytes, where they follow from the feeds.
        folder: where data files of the graph lie.
        encoded: the whole model, serialised.
    """

    label: str
    nodes: tuple[NodeProto, ...]
    weights: dict[str, onnx.TensorProto]
    constants: dict[str, AnyArray]
    outputs: tuple[str, ...]
    feeds: Feeds
    sizes: dict[str, int]
    folder: Path
    encoded: bytes

    @classmethod
    def from_file(cls, path: Path, feeds: Feeds, *, label: str = "") -> InnerGraph:
        """Open an ONNX file, which is called by its name unless `label` says otherwise.

        Raises:
            ModelError: no ONNX file, cut short, or without its data file.
        """
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
        # Nodes run as they are written, so the runtime cannot mend what a processor cuts off.
        if saturates() and without_signs(model):
            encoded = bytes(model.SerializeToString())
        sizes = _sizes(model, feeds)
        _drop_unnamed_outputs(model.graph.node)
        return cls(
            label=label,
            nodes=tuple(model.graph.node),
            weights={item.name: item for item in model.graph.initializer},
            constants=_constants(model.graph),
            outputs=tuple(value.name for value in model.graph.output),
            feeds=feeds,
            sizes=sizes,
            folder=folder,
            encoded=encoded,
        )

    def weight(self, name: str) -> AnyArray | None:
        """An initializer or constant by name; `None` for values that are computed."""
        if name in self.constants:
            return self.constants[name]
        if name not in self.weights:
            return None
        return numpy_helper.to_array(self.weights[name], str(self.folder))

    def values(self, names: Sequence[str]) -> Iterator[dict[str, AnyArray]]:
        """Run the graph as often as needed to see these values, some at each run.

        Args:
            names: values that nodes make; others are left out.

        Yields:
            value to array, in the order of the names, at most `BATCH_BYTES` together.

        Raises:
            ModelError: the graph does not run on these feeds.
        """
        for batch in self.batches(names):
            yield self.run(batch)

    def batches(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Names in groups whose values fit `BATCH_BYTES`."""
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
        """These values at once.

        Raises:
            ModelError: the graph does not run on these feeds.
        """
        return self.run_each(names, [self.feeds])[0]

    def run_each(self, names: Sequence[str], feeds: Sequence[Feeds]) -> list[dict[str, AnyArray]]:
        """These values for several feeds, the graph loaded once.

        Raises:
            ModelError: the graph does not run on these feeds.
        """
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
    """A session that computes every node as it is written: nothing fused, nothing folded."""
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
    """Outputs that a node could have and nobody wanted: no values, and no link between nodes."""
    for node in nodes:
        named = [name for name in node.output if name]
        del node.output[:]
        node.output.extend(named)


def _constants(graph: GraphProto) -> dict[str, AnyArray]:
    """What Constant nodes hold; exporters keep small numbers there."""
    found = {}
    for node in graph.node:
        if node.op_type != "Constant" or not node.attribute:
            continue
        value = onnx.helper.get_attribute_value(node.attribute[0])
        is_tensor = isinstance(value, onnx.TensorProto)
        found[node.output[0]] = numpy_helper.to_array(value) if is_tensor else np.asarray(value)
    return found


def _sizes(model: ModelProto, feeds: Feeds) -> dict[str, int]:
    """Bytes of each value once the inputs have the shapes of the feeds, where they follow."""
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
    """A large weight's name and shape; inference reads only the small ones, such as targets."""
    if len(item.raw_data) <= SMALL_BYTES and item.data_location != onnx.TensorProto.EXTERNAL:
        return item
    stub = onnx.TensorProto(name=item.name, data_type=item.data_type, dims=item.dims)
    stub.data_location = onnx.TensorProto.EXTERNAL
    stub.external_data.add(key="location", value="elsewhere")
    return stub
