"""ONNX graphs of other programs: given as encoder and decoder, read and checked."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import onnx

from tests.fuzz.mutate import mutated_bytes
from tests.fuzz.target import Input
from tests.fuzz.targets.toy import toy_model
from whisper_hailo.backends.fixed import OnnxFixedRunner
from whisper_hailo.backends.onnx_file import ForeignEncoder, read_signature
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.check.report import check_file

OWN = ("hailo/encoder-2s.onnx", "hailo/decoder-2s-16.onnx")
OPERATORS = (
    "Loop", "If", "Scan", "Identity", "Expand", "Tile", "Reshape", "Pad", "Gather", "Resize",
    "ConstantOfShape", "Range", "TopK", "OneHot", "",
)  # fmt: skip


class Fuzzed:
    """A small graph with one or a few things changed."""

    def prepare(self, base: Path) -> None:
        """Graphs in our fixed form."""
        toy_model(base)

    def make(self, rng: Random, base: Path) -> Input:
        """Half as bytes, half as a message that is still one."""
        name = rng.choice(OWN)
        data = (toy_model(base) / name).read_bytes()
        content = (
            mutated_bytes(rng, data) if rng.random() < 0.4 else _changed(rng, data)
        )
        return Path(name).name, content

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Read its inputs and outputs, check it for a chip, and run it."""
        path = folder / name
        path.write_bytes(content)
        kind = len(content) % 4
        if kind == 0:
            read_signature(path)
            return
        if kind == 1:
            check_file(path, "hailo8l", (), ())
            return
        spec = ModelSpec.load(toy_model(base))
        rng = np.random.default_rng(0)
        if name.startswith("encoder"):
            with ForeignEncoder(path, spec, 1) as encoder:
                shape = (1, spec.dims.n_mels, encoder.n_frames)
                encoder.encode(rng.normal(size=shape).astype(np.float32))
        else:
            with OnnxFixedRunner(path, spec, 1) as runner:
                features = rng.normal(size=(1, runner.n_positions, spec.dims.d_model))
                tokens = np.zeros((1, runner.length), np.int64)
                runner.run(tokens, features.astype(np.float32))


def _changed(rng: Random, data: bytes) -> bytes:
    """Another operator, attribute, shape or wire."""
    model = onnx.load_model_from_string(data)
    graph = model.graph
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not graph.node:
            break
        node = rng.choice(graph.node)
        kind = rng.randrange(8)
        if kind == 0:
            node.op_type = rng.choice((*OPERATORS, rng.choice(graph.node).op_type))
        elif kind == 1 and node.attribute:
            _change_attribute(rng, rng.choice(node.attribute))
        elif kind == 2 and node.input:
            names = [
                name for other in graph.node for name in (*other.input, *other.output)
            ]
            node.input[rng.randrange(len(node.input))] = rng.choice(
                (*names, "", "nowhere")
            )
        elif kind == 3:
            graph.node.remove(node)
        elif kind == 4:
            graph.node.append(node)
        elif kind == 5:
            value = rng.choice((*graph.input, *graph.output))
            dims = value.type.tensor_type.shape.dim
            if dims:
                rng.choice(dims).dim_value = rng.choice(
                    (-1, 0, 1, 2, 3, 199, 2**31, 2**62)
                )
        elif kind == 6 and graph.initializer:
            _change_tensor(rng, rng.choice(graph.initializer))
        else:
            model.opset_import[0].version = rng.choice((0, 1, 6, 12, 17, 99, 2**40))
    return bytes(model.SerializeToString())


def _change_attribute(rng: Random, attribute: onnx.AttributeProto) -> None:
    attribute.i = rng.choice((-(2**63), -1, 0, 1, 2**31, 2**62))
    attribute.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
    if attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = attribute.i
    if rng.random() < 0.3:
        attribute.type = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8))


def _change_tensor(rng: Random, tensor: onnx.TensorProto) -> None:
    kind = rng.randrange(4)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(
            (-1, 0, 1, 7, 2**31, 2**62)
        )
    elif kind == 1:
        tensor.data_type = rng.choice((0, 1, 2, 7, 8, 9, 10, 11, 16, 22, 99))
    elif kind == 2:
        tensor.raw_data = mutated_bytes(rng, tensor.raw_data)
    else:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        place = rng.choice(
            ("../x", "/etc/hostname", "", "x", "encoder-2s.onnx", "a\0b")
        )
        tensor.external_data.add(key="location", value=place)
        tensor.external_data.add(
            key="offset", value=rng.choice(("0", "-1", "x", str(2**63)))
        )
