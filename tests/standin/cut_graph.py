"""From an ONNX graph to what the stand-ins call compiled: cut, and with the chip's layout."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import onnx
from onnx.utils import Extractor

if __package__:
    from tests.standin.hef_file import Net, Wish, hef_bytes
else:  # the stand-ins are packages of their own on somebody's path
    from hef_file import Net, Wish, hef_bytes

Network = tuple[str, dict[str, Any], bytes]
"""Name, streams of inputs and outputs, and the graph between them."""

_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def cut(
    path: Path,
    name: str,
    starts: list[str],
    ends: list[str],
    extra: tuple[str, ...] = (),
) -> Network:
    """Cut a graph as the compiler does.

    Args:
        path: the graph.
        name: of the network.
        starts: values to start at, or nodes whose first input it is.
        ends: nodes to end at.
        extra: values to give as outputs, too, before the others.
    """
    model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    graph = model.graph
    nodes = {node.name: node for node in graph.node}
    results = [*extra, *(nodes[end].output[0] for end in ends)]
    shapes = {
        value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output, *graph.value_info)
    }
    entries = [start if start in shapes else nodes[start].input[0] for start in starts]
    facts = {
        "inputs": {
            f"{name}/input_layer{i + 1}": _input(entry, shapes[entry])
            for i, entry in enumerate(entries)
        },
        "outputs": {
            f"{name}/{_layer(i, len(results))}": {
                "tensor": value,
                "shape": shapes[value],
            }
            for i, value in enumerate(results)
        },
    }
    part = Extractor(model).extract_model(entries, results)
    return name, facts, part.SerializeToString()


def hef(
    arch: str,
    networks: list[Network],
    version: int = 1,
    weights: bytes = b"\x5a" * 4096,
    resources: dict[str, bytes] | None = None,
) -> bytes:
    """A HEF with these networks; the same networks and weights give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        facts = {
            "arch": arch,
            "networks": {name: network for name, network, _ in networks},
        }
        archive.writestr(zipfile.ZipInfo("facts.json", _LONG_AGO), json.dumps(facts))
        for i, (_, _, graph) in enumerate(networks):
            archive.writestr(zipfile.ZipInfo(f"{i}.onnx", _LONG_AGO), graph)
    nets = [
        Net(name, _shapes(f["inputs"]), _shapes(f["outputs"]))
        for name, f, _ in networks
    ]
    compiler = "3.33.0" if arch.startswith("hailo8") else "5.1.0"
    wish = Wish(
        nets, arch, version, compiler, mapping=content.getvalue(), weights=weights
    )
    wish.resources = resources or {}
    return hef_bytes(wish)


def _input(tensor: str, shape: list[int]) -> dict[str, Any]:
    """Batch, channels, height, width become height, width, channels; three axes stay in order."""
    if len(shape) == 4:
        _, channels, height, width = shape
        on_chip = [height, width, channels]
        return {"tensor": tensor, "shape": on_chip, "as": shape, "turn": True}
    return {"tensor": tensor, "shape": [1, *shape[1:]], "as": shape, "turn": False}


def _layer(index: int, count: int) -> str:
    """Names as the compiler gives them; a decoder's are not in the order of their numbers."""
    if count == 1:
        return "layer_normalization9"
    return f"conv{(49, 51, 50, 52, 53, 54)[index]}"


def _shapes(streams: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    return {name: tuple(stream["shape"]) for name, stream in streams.items()}
