"""The whole check of one file: read it, cut it, ask the rules, sum it up."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.spec import ARCHES, SPEC_FILE, Dimensions, HailoForm, ModelSpec
from whisper_hailo_tools.check.graph import OnnxGraph, Section, cut, load_graph
from whisper_hailo_tools.check.rules import (
    PRECISIONS_BITS,
    Finding,
    Severity,
    check_form,
    check_graph,
    check_nodes,
)

FLOATS: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)

TINY_ENCODER_WEIGHTS: Final = 7_824_388
"""Weights of the one build whose size on a chip is known: tiny's encoder, 10 s, positions and
all, in 9 contexts on a Hailo-8L (the original study's own compilation)."""

TINY_ENCODER_CONTEXTS: Final = 9


@dataclass(frozen=True, slots=True)
class WeightSizes:
    """Weights of a section.

    Attributes:
        contexts: estimate of how many times the chip would have to be reloaded within one run,
            `None` where nothing is known to estimate from.
    """

    count: int
    contexts: int | None

    def nbytes(self, bits: int) -> int:
        """Return bytes at 4, 8 or 16 bits each, without scales."""
        return self.count * bits // 8


def weight_sizes(graph: OnnxGraph, section: Section, arch: str) -> WeightSizes:
    """Count the weights between start and end, each once.

    The estimate scales the one known build by the number of weights. Window, activations and the
    compiler's search matter too, so it is a hint at the order of magnitude and no more.
    """
    names = {name for index in section.nodes for name in graph.nodes[index].input}
    stored = (graph.weights[name] for name in names if name in graph.weights)
    count = sum(_count(tensor.shape) for tensor in stored if tensor.dtype in FLOATS)
    if arch != "hailo8l":
        return WeightSizes(count, None)
    scaled = TINY_ENCODER_CONTEXTS * count / TINY_ENCODER_WEIGHTS
    return WeightSizes(count, max(1, round(scaled)))


def _count(shape: tuple[int | None, ...] | None) -> int:
    return int(np.prod([axis or 0 for axis in shape or ()], dtype=np.int64))


logger = logging.getLogger(__name__)

COMPILERS = {"hailo8": "3.31 or a later 3.x", "hailo8l": "3.31 or a later 3.x", "hailo10h": "5.x"}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found about one graph and one chip.

    Attributes:
        recorded: whether start and end come from the model directory.
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
    weights: WeightSizes
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
            "weights": {
                "count": self.weights.count,
                **{f"bytes_{bits}_bit": self.weights.nbytes(bits) for bits in PRECISIONS_BITS},
                "estimated_contexts": self.weights.contexts,
            },
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
    graph = load_graph(path)
    found = None if starts or ends else _recorded(path)
    if found is not None:
        starts, ends = found[0].start_nodes, found[0].end_nodes
    section = cut(graph, starts, ends)
    findings = [*check_graph(graph, section), *check_nodes(graph, section, arch)]
    if found is not None:
        findings += check_form(*found, arch)
    return _report(graph, section, arch, found is not None, findings)


def _report(
    graph: OnnxGraph, section: Section, arch: str, recorded: bool, findings: Sequence[Finding]
) -> Report:
    order = list(Severity)
    operators = Counter(graph.nodes[index].op_type for index in section.nodes)
    return Report(
        path=graph.path,
        arch=arch,
        opset=graph.opsets.get("", 0),
        ir_version=graph.ir_version,
        section=section,
        recorded=recorded,
        entries={name: graph.tensor(name).text for name in section.entries},
        chip_inputs={name: _on_the_chip(graph, name) for name in section.entries},
        n_nodes=len(graph.nodes),
        operators=dict(sorted(operators.items())),
        weights=weight_sizes(graph, section, arch),
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
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


def _recorded(path: Path) -> tuple[HailoForm, Dimensions] | None:
    """Return the form that a model directory says this file is, and the model's sizes."""
    for directory in path.resolve().parents[:2]:
        if not (directory / SPEC_FILE).is_file():
            continue
        try:
            spec = ModelSpec.load(directory)
        except ModelError as error:
            logger.warning("start and end nodes are not known: %s", error)
            return None
        relative = path.resolve().relative_to(directory).as_posix()
        form = next((form for form in spec.hailo if form.file == relative), None)
        return None if form is None else (form, spec.dims)
    return None
