"""The whole check of one file: read it, cut it, apply the rules, and summarise the findings."""

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

FLOATS: Final = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.BFLOAT16,
)

COMPILERS = {
    "hailo8": "3.31 or a later 3.x",
    "hailo8l": "3.31 or a later 3.x",
    "hailo10h": "5.x",
}
"""Versions of the compiler by chip."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings about one graph for one chip.

    Attributes:
        recorded: start and end come from the model directory.
        entries: values that enter the section to their shapes.
        chip_inputs: the same values to their shapes on the chip.
        n_weights: how many numbers the weights of the section hold.
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
        """Whether a finding is something that the compiler is known to refuse."""
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
    """Check an ONNX file of any origin against the known limits of a chip's compiler.

    Args:
        path: the file.
        arch: one of `ARCHES`.
        starts: nodes or values at which the compiler is to start.
        ends: nodes or values at which it is to end; without both they are those of the `model.json`
            that the file belongs to, if there is one, else the graph's inputs and outputs.

    Raises:
        OptionError: no such chip, node or value.
        ModelError: no ONNX file, or a broken one.
    """
    if arch not in ARCHES:
        raise OptionError(f"--arch is {arch!r}, expected one of: {', '.join(ARCHES)}")
    model = load_model(path)
    graph = OnnxGraph(model, path)
    opsets = {
        entry.domain.replace("ai.onnx", ""): entry.version
        for entry in model.opset_import
    }
    opset = opsets.get("", 0)
    recorded = None if starts or ends else _find_recorded_form(path)
    if recorded is not None:
        form, dims = recorded
        starts = form.start_nodes
        ends = form.end_nodes
    section = cut(graph, starts, ends)
    findings = [*check_graph(graph, section, opset, model.ir_version)]
    findings += check_nodes(graph, section, arch, opset)
    if recorded is not None:
        findings += check_form(form, dims, arch)
    findings.sort(key=lambda finding: [*Severity].index(finding.severity))
    nodes = [graph.nodes[index] for index in section.nodes]
    operators = Counter(node.op_type for node in nodes)
    return Report(
        path=path,
        arch=arch,
        opset=opset,
        ir_version=model.ir_version,
        section=section,
        recorded=recorded is not None,
        entries={name: graph.tensor(name).text for name in section.entries},
        chip_inputs={
            name: _describe_chip_shape(graph, name) for name in section.entries
        },
        n_nodes=len(graph.nodes),
        operators=dict(sorted(operators.items())),
        n_weights=_count_weights(graph, section),
        findings=tuple(findings),
    )


def _count_weights(graph: OnnxGraph, section: Section) -> int:
    """Return how many numbers the float weights of a section hold."""
    names = {name for index in section.nodes for name in graph.nodes[index].input}
    weights = [graph.weights[name] for name in names & graph.weights.keys()]
    return sum(math.prod(item.dims) for item in weights if item.data_type in FLOATS)


def _describe_chip_shape(graph: OnnxGraph, name: str) -> str:
    """Return a shape as `(batch, height, width, channels)`; three axes get a height of 1."""
    tensor = graph.tensor(name)
    axes = tensor.shape
    if axes is None or not tensor.static or len(axes) not in (3, 4):
        return "unknown"
    if len(axes) == 4:
        batch, channels, height, width = axes
    else:
        batch, width, channels = axes
        height = 1
    return f"({batch}, {height}, {width}, {channels})"


def _find_recorded_form(path: Path) -> tuple[HailoForm, Dimensions] | None:
    """Return the form of this file in the model directory that it belongs to, and its sizes."""
    path = path.resolve()
    for directory in path.parents[:2]:  # the directory itself, or `hailo/` in it
        if (directory / SPEC_FILE).is_file():
            break
    else:
        return None
    try:
        spec = ModelSpec.load(directory)
    except ModelError as error:
        logger.warning("start and end nodes are not known: %s", error)
        return None
    file = path.relative_to(directory).as_posix()
    for form in spec.hailo:
        if form.file == file:
            return form, spec.dims
    return None
