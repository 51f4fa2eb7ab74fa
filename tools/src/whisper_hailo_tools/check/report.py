"""The whole check of one file: read it, cut it, ask the rules, sum it up."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from onnx import TensorProto

from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.spec import ARCHES, SPEC_FILE, Dimensions, HailoForm, ModelSpec
from whisper_hailo_tools.check.graph import OnnxGraph, Section, cut, load_model
from whisper_hailo_tools.check.rules import (
    Finding,
    Severity,
    check_form,
    check_graph,
    check_nodes,
)

logger = logging.getLogger(__name__)

FLOATS: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)

COMPILERS = {"hailo8": "3.31 or a later 3.x", "hailo8l": "3.31 or a later 3.x", "hailo10h": "5.x"}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found about one graph and one chip.

    Attributes:
        recorded: whether start and end come from the model directory.
        entries: value that enters the section to its shape.
        chip_inputs: the same to its shape on the chip.
        n_weights: numbers in the weights of the section.
    """

    path: Path
    arch: str
    opset: int
    ir_version: int
    section: Section
    recorded: bool
    entries: dict[str, str]
    chip_inputs: dict[str, str]
    n_nodes: int
    operators: dict[str, int]
    n_weights: int
    findings: tuple[Finding, ...]

    @property
    def blocked(self) -> bool:
        """Whether something was found that the compiler is known to refuse."""
        return any(finding.severity is Severity.BLOCKS for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "graph": str(self.path),
            "arch": self.arch,
            "compiler": COMPILERS[self.arch],
            "blocked": self.blocked,
            "opset": self.opset,
            "ir_version": self.ir_version,
            "start_nodes": list(self.section.starts),
            "end_nodes": list(self.section.ends),
            "recorded": self.recorded,
            "entries": self.entries,
            "chip_inputs": self.chip_inputs,
            "nodes": {"checked": len(self.section.nodes), "all": self.n_nodes},
            "operators": self.operators,
            "weights": self.n_weights,
            "findings": [asdict(finding) for finding in self.findings],
        }


def check_file(
    path: Path, arch: str, starts: Sequence[str] = (), ends: Sequence[str] = ()
) -> Report:
    """Check an ONNX file of any origin against what is known of a chip's compiler.

    Args:
        path: the file; start and end are those of the `model.json` it belongs to, if any.
        arch: one of `ARCHES`.
        starts: nodes or values at which the compiler would be told to start.
        ends: nodes or values at which it would be told to end.
    """
    if arch not in ARCHES:
        raise OptionError(f"--arch is {arch!r}, expected one of: {', '.join(ARCHES)}")
    model = load_model(path)
    graph = OnnxGraph(model, path)
    opsets = {entry.domain.replace("ai.onnx", ""): entry.version for entry in model.opset_import}
    opset = opsets.get("", 0)
    recorded = None if starts or ends else _find_recorded_form(path)
    if recorded is not None:
        starts, ends = recorded[0].start_nodes, recorded[0].end_nodes
    section = cut(graph, starts, ends)
    findings = [
        *check_graph(graph, section, opset, model.ir_version),
        *check_nodes(graph, section, arch, opset),
        *(check_form(*recorded, arch) if recorded is not None else ()),
    ]
    nodes = [graph.nodes[index] for index in section.nodes]
    names = {name for node in nodes for name in node.input if name in graph.weights}
    weights = (graph.weights[name] for name in names)
    return Report(
        path=path,
        arch=arch,
        opset=opset,
        ir_version=model.ir_version,
        section=section,
        recorded=recorded is not None,
        entries={name: graph.tensor(name).text for name in section.entries},
        chip_inputs={name: _on_the_chip(graph, name) for name in section.entries},
        n_nodes=len(graph.nodes),
        operators=dict(sorted(Counter(node.op_type for node in nodes).items())),
        n_weights=sum(math.prod(item.dims) for item in weights if item.data_type in FLOATS),
        findings=tuple(sorted(findings, key=lambda one: [*Severity].index(one.severity))),
    )


def _on_the_chip(graph: OnnxGraph, name: str) -> str:
    """Return shape as `(batch, height, width, channels)`; three axes get a height of 1."""
    tensor = graph.tensor(name)
    axes = tensor.shape
    if axes is None or not tensor.static or len(axes) not in (3, 4):
        return "unknown"
    n, *rest = axes
    order = (n, rest[1], rest[2], rest[0]) if len(axes) == 4 else (n, 1, *rest)
    return f"({', '.join(map(str, order))})"


def _find_recorded_form(path: Path) -> tuple[HailoForm, Dimensions] | None:
    """Return the form that a model directory says this file is, and the model's sizes."""
    path = path.resolve()
    directory = next((one for one in path.parents[:2] if (one / SPEC_FILE).is_file()), None)
    if directory is None:
        return None
    try:
        spec = ModelSpec.load(directory)
    except ModelError as error:
        logger.warning("start and end nodes are not known: %s", error)
        return None
    file = path.relative_to(directory).as_posix()
    return next(((form, spec.dims) for form in spec.hailo if form.file == file), None)
