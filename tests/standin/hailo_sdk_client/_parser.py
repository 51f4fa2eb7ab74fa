"""From an ONNX graph to a network, layers numbered in the graph's order, and model scripts."""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import onnx
from onnx import shape_inference

_COMMANDS = {
    "model_optimization_flavor",
    "model_optimization_config",
    "post_quantization_optimization",
    "pre_quantization_optimization",
    "quantization_param",
    "performance_param",
    "resources_param",
}
_LINE = re.compile(r"(\w+)\((.*)\)$")
_KINDS = {
    "Softmax": "softmax",
    "LayerNormalization": "normalization",
    "ReduceMean": "reduce_mean",
}


def parse(path: Path, net: str, starts: list[str], ends: list[str]) -> dict[str, Any]:
    """The part of the graph from `starts` to `ends`."""
    model = shape_inference.infer_shapes(
        onnx.load(path), strict_mode=True, data_prop=True
    )
    graph = model.graph
    nodes = {node.name: node for node in graph.node}
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    shapes = {
        value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output, *graph.value_info)
    }
    entries = [
        _entry(name, nodes, [value.name for value in graph.input]) for name in starts
    ]
    layers: dict[str, dict[str, Any]] = {}
    for i, value in enumerate(entries):
        shape = _on_chip(shapes[value])
        layers[f"{net}/input_layer{i + 1}"] = {
            "type": "input_layer",
            "output_shapes": [shape],
        }
    counts: Counter[str] = Counter()
    reached = set(entries)
    for node in graph.node:
        dynamic = [name for name in node.input if name and name not in weights]
        if not dynamic or not reached.issuperset(dynamic):
            continue
        reached.update(node.output)
        kind, parameters = _layer(node, dynamic, weights)
        if kind is not None:
            counts[kind] += 1
            layers[f"{net}/{kind}{counts[kind]}"] = {"type": kind, "params": parameters}
    for i, name in enumerate(ends):
        if not reached.issuperset(nodes[name].output):
            raise ValueError(f"{name} does not follow from the start nodes")
        layers[f"{net}/output_layer{i + 1}"] = {"type": "output_layer"}
    return {"name": net, "layers": layers}


def _entry(name: str, nodes: dict[str, Any], inputs: list[str]) -> str:
    return name if name in inputs else str(nodes[name].input[0])


def _on_chip(shape: list[int]) -> list[int]:
    if len(shape) == 4:  # batch, channels, height, width
        return [-1, shape[2], shape[3], shape[1]]
    return [-1, 1, shape[1], shape[2]]


def _layer(
    node: Any, dynamic: list[str], weights: dict[str, Any]
) -> tuple[str | None, Any]:
    if node.op_type == "Conv":
        n_out, n_in, height, width = weights[node.input[1]]
        return "conv", {"kernel_shape": [height, width, n_in, n_out]}
    if node.op_type == "MatMul" and len(dynamic) == 1:
        return "conv", {"kernel_shape": [1, 1, *weights[node.input[1]]]}
    if node.op_type == "MatMul":
        return "matmul", {}
    if node.op_type == "Add" and len(dynamic) == 2:
        return "ew_add", {}
    return _KINDS.get(node.op_type), {}


def read_script(path: Path, names: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Commands with their arguments; raises on what is no command or names no layer."""
    commands = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or match.group(1) not in _COMMANDS:
            raise ValueError(f"no command: {line}")
        words = [word.strip() for word in match.group(2).split(",")]
        arguments = dict(word.split("=", 1) for word in words if "=" in word)
        patterns = [arguments.get("layers", "")]
        if match.group(1) == "quantization_param":
            patterns.append(words[0])
        for pattern in filter(None, patterns):
            if not any(fnmatch(name, pattern.strip("{}")) for name in names):
                raise ValueError(f"no layer is called {pattern}")
        commands.append((match.group(1), arguments))
    if not commands:
        raise ValueError("an empty script")
    return commands
