"""Rules on a graph as a whole: its versions, where it is cut, what enters it, its sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from onnx import TensorProto

from whisper_hailo.core.dimensions import Dimensions
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.hailo_tools.check.finding import (
    ACCEPTED,
    IR_REPORT,
    STATIC,
    VENDOR_DECODER,
    VENDOR_GUIDE,
    Finding,
    Severity,
)
from whisper_hailo.hailo_tools.check.graph import OnnxGraph, Tensor
from whisper_hailo.hailo_tools.check.section import Section

ACCEPTED_OPSETS: Final = (13, 17)
NEWEST_IR: Final = 9
TINY, BASE = 384, 512
KNOWN_WINDOWS_S: Final = {
    ("hailo8", TINY): 10,
    ("hailo8l", TINY): 10,
    ("hailo8", BASE): 5,
    ("hailo8l", BASE): 5,
    ("hailo10h", TINY): 10,
    ("hailo10h", BASE): 10,
}
"""Longest window of each size (by `d_model`) that the vendor publishes a compiled encoder of."""


def check_graph(graph: OnnxGraph, section: Section) -> Iterator[Finding]:
    """What the rules say about versions, cut and entries."""
    yield from _versions(graph)
    yield from _cut(section)
    for name in section.entries:
        yield from _entry(graph, name)


def check_form(form: HailoForm, dims: Dimensions, arch: str) -> Iterator[Finding]:
    """What the rules say about the sizes that a model directory records."""
    yield from _window(form, dims, arch)
    if form.part == "decoder" and arch == "hailo10h":
        yield _finding(
            "host-positions",
            Severity.NOTE,
            "",
            "this form has its position rows added on the host; the vendor's decoders for "
            "Hailo-10H add them on the chip",
            "add them on the host for a HEF of this graph, never for the vendor's",
            "docs/hailo.md: what the host does",
        )


def _finding(  # noqa: PLR0917 - in the order in which it is read
    rule: str, severity: Severity, name: str, got: str, mend: str, source: str
) -> Finding:
    """A finding about a graph input or cut called `name`; empty means the whole graph."""
    return Finding(rule, severity, name, "", got, mend, source)


def _versions(graph: OnnxGraph) -> Iterator[Finding]:
    """Opset and file format: what the compiler is known to read."""
    opset = graph.opsets.get("", 0)
    if opset not in ACCEPTED_OPSETS:
        yield _finding(
            "opset",
            Severity.UNKNOWN,
            "",
            f"opset {opset}; the compiler is known to accept 17 (encoder) and 13 (decoder)",
            "export with one of them",
            ACCEPTED,
        )
    if graph.ir_version > NEWEST_IR:
        yield _finding(
            "file-format",
            Severity.UNKNOWN,
            "",
            f"ONNX IR version {graph.ir_version}; compilers have refused more than {NEWEST_IR}",
            f"set ir_version to {NEWEST_IR} and save the file again",
            IR_REPORT,
        )


def _cut(section: Section) -> Iterator[Finding]:
    """Every input of the section is a start, and every start is used."""
    for name in section.strays:
        yield _finding(
            "cut",
            Severity.BLOCKS,
            name,
            f"the nodes before the ends also need input {name}, to which no start leads",
            f"add --start {name}, or a node behind it",
            VENDOR_DECODER,
        )
    for name in section.unused:
        yield _finding(
            "cut",
            Severity.BLOCKS,
            name,
            f"no end depends on start {name}",
            "choose starts that lead to the ends",
            VENDOR_DECODER,
        )


def _entry(graph: OnnxGraph, name: str) -> Iterator[Finding]:
    """What the host hands to the chip: static, one at a time, numbers, four axes where cut."""
    tensor = graph.tensor(name)
    if not tensor.static:
        yield _finding(
            "dynamic-shape",
            Severity.BLOCKS,
            name,
            f"enters with shape {tensor.text}, expected numbers",
            "export with fixed sizes, or convert with --hailo",
            STATIC,
        )
    if tensor.dtype not in (TensorProto.FLOAT, TensorProto.UNDEFINED):
        yield _finding(
            "element-type",
            Severity.BLOCKS,
            name,
            f"enters as {tensor.dtype_name}, expected float: the chip takes no ids",
            "start behind the lookup and do it on the host (docs/hailo.md)",
            VENDOR_GUIDE,
        )
    if tensor.shape and tensor.shape[0] not in (1, None):
        yield _finding(
            "batch",
            Severity.UNKNOWN,
            name,
            f"enters with shape {tensor.text}, expected a first axis of 1",
            "export with batch 1: the compiler makes batches by itself",
            ACCEPTED,
        )
    yield from _layout(graph, name, tensor)


def _layout(graph: OnnxGraph, name: str, tensor: Tensor) -> Iterator[Finding]:
    """A cut inside the graph is where the tensor has four axes, as in the accepted decoder."""
    inside = name not in graph.inputs
    if inside and tensor.shape is not None and len(tensor.shape) != 4:
        yield _finding(
            "layout",
            Severity.UNKNOWN,
            name,
            f"the graph is cut at a tensor of shape {tensor.text}; the accepted decoder is cut "
            "where it has four axes, (1, d_model, length, 1)",
            "start at the node that flattens four axes to three (/Reshape)",
            VENDOR_DECODER,
        )


def _window(form: HailoForm, dims: Dimensions, arch: str) -> Iterator[Finding]:
    """The windows that are known to fit; for base at 10 s on Hailo-8 it is known not to."""
    known_s = KNOWN_WINDOWS_S.get((arch, dims.d_model))
    if known_s is not None and form.window_s <= known_s:
        return
    refused = dims.d_model == BASE and form.window_s >= 10 and arch != "hailo10h"
    expected = f"{known_s} s or less" if known_s else "nothing is published of this width"
    yield _finding(
        "window",
        Severity.BLOCKS if refused else Severity.UNKNOWN,
        "",
        f"a {form.window_s} s window at width {dims.d_model}; known to fit {arch}: {expected}",
        "convert with a shorter --window" if known_s else "expect to have to shorten --window",
        VENDOR_GUIDE,
    )
