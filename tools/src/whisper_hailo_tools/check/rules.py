"""The rules of Hailo's parser: what they say about a graph, and about each of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from onnx import NodeProto, TensorProto

from whisper_hailo.backends.hailo.known_windows import KNOWN_WINDOWS, is_failing
from whisper_hailo.core.spec import Dimensions, HailoForm
from whisper_hailo_tools.check.graph import OnnxGraph, Section


class Severity(StrEnum):
    """How bad a finding is."""

    BLOCKS = "blocks"
    """The source says that the compiler refuses it."""
    UNKNOWN = "unknown"
    """In no graph that the compiler is known to accept; it may work."""
    NOTE = "note"
    """Nothing wrong, but good to know."""


ACCEPTED: Final = (
    "docs/reference/hailo-graphs.md: the two graphs that the vendor compiled for tiny and base "
    "have no such thing"
)
_VENDOR: Final = (
    "https://github.com/hailocs/hailo-whisper/blob/347d8a0526622b5e9c88e0bba577dfb3952eb14b/"
)
VENDOR_GUIDE: Final = f"{_VENDOR}docs/Conversion.md"
VENDOR_PATCH: Final = f"{_VENDOR}hailo-compatibility-changes.patch"
VENDOR_DECODER: Final = f"{_VENDOR}conversion/convert_whisper_decoder.py"
STATIC: Final = (
    "https://github.com/ktomanek/huggingface_whisper_to_hailo_conversion (among the compiler's "
    "requirements: fixed lengths, no dynamic dimensions)"
)
PARSER_REPORT: Final = (
    "https://github.com/ruvnet/RuVector, ADR-167 (compiler 3.33): UnsupportedGatherLayerError on a "
    "token lookup, UnexpectedNodeError on Where and Expand"
)
RETRY: Final = (
    "https://github.com/hailo-ai/hailo_model_zoo/issues/161 (log: the parser retries on a "
    "simplified graph)"
)
IR_REPORT: Final = "https://community.hailo.ai/t/erroe-while-converting-onnx-model-to-hef/5357"
STANDARD: Final = "https://onnx.ai/onnx/operators/"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a graph that its owner should know.

    Attributes:
        rule: name of the rule, as in `docs/reference/hailo-graphs.md`.
        node: the node's name, or the graph input's, or empty for the whole graph.
        operator: the node's operator, or empty.
        got: what is there, and what was expected.
    """

    rule: str
    severity: Severity
    node: str
    operator: str
    got: str
    mend: str
    source: str


_FIXED: Final = "export with fixed sizes, or convert with --hailo"
_BLOCKS, _UNKNOWN, _NOTE = Severity.BLOCKS, Severity.UNKNOWN, Severity.NOTE

RULES: Final = {
    # Of the whole graph
    "opset": (_UNKNOWN, "export with one of them", ACCEPTED),
    "file-format": (_UNKNOWN, "set ir_version to it and save the file again", IR_REPORT),
    "cut": (_BLOCKS, "choose --start nodes that lead to the ends, and all of them", VENDOR_DECODER),
    "window": (_UNKNOWN, "expect to convert with a shorter --window", VENDOR_GUIDE),
    "host-positions": (
        _NOTE,
        "add them on the host for a HEF of this graph, never for the vendor's",
        "docs/reference/hailo-graphs.md: what the host does",
    ),
    # Of a value at which the graph is cut
    "dynamic-shape": (_BLOCKS, _FIXED, STATIC),
    "element-type": (
        _BLOCKS,
        "start behind the lookup and do it on the host (docs/reference/hailo-graphs.md)",
        VENDOR_GUIDE,
    ),
    "batch": (_UNKNOWN, "export with batch 1: the compiler makes batches by itself", ACCEPTED),
    "layout": (
        _UNKNOWN,
        "start at the node that flattens four axes to three (/Reshape)",
        VENDOR_DECODER,
    ),
    # Of a node as a whole
    "fused-attention": (
        _BLOCKS,
        "export with eager attention, or convert with --hailo",
        VENDOR_PATCH,
    ),
    "foreign-domain": (
        _BLOCKS,
        "export without that runtime's optimisation or quantisation",
        STANDARD,
    ),
    "constant-subgraph": (
        _NOTE,
        "simplify the graph (onnxsim) if the parser does not do it",
        RETRY,
    ),
    "table-lookup": (
        _BLOCKS,
        "start behind it and look rows up on the host (docs/reference/hailo-graphs.md)",
        f"{PARSER_REPORT}; {VENDOR_GUIDE}",
    ),
    "broadcast-scaffolding": (
        _BLOCKS,
        "make the mask a constant and add it, or convert with --hailo",
        PARSER_REPORT,
    ),
    "dynamic-operator": (_BLOCKS, _FIXED, STATIC),
    # Of the details of a node
    "conv1d": (
        _BLOCKS,
        "give it a height of 1, kernel (1, 3) and padding (0, 1), or convert with --hailo",
        f"{VENDOR_GUIDE}; {VENDOR_PATCH}",
    ),
    "wide-product": (
        _BLOCKS,
        "cut the weights into four products and join their results on the host",
        VENDOR_PATCH,
    ),
    "unfit-opset": (
        _BLOCKS,
        "write the norm out (ReduceMean, Sub, Pow ...) or export with opset 17",
        f"{STANDARD}onnx__LayerNormalization.html",
    ),
    "unseen-operator": (_UNKNOWN, "try the parser, or convert with --hailo", ACCEPTED),
    "many-axes": (_UNKNOWN, "merge axes, or convert with --hailo", ACCEPTED),
}
"""Rule to its severity, what to do, and who says so."""


def _make_finding(
    rule: str, got: str, node: str = "", operator: str = "", severity: Severity | None = None
) -> Finding:
    usual, mend, source = RULES[rule]
    return Finding(rule, severity or usual, node, operator, got, mend, source)


ACCEPTED_OPSETS: Final = (13, 17)
NEWEST_IR: Final = 9


ACCEPTED_OPERATORS: Final = frozenset(
    {"Add", "Conv", "Div", "Erf", "LayerNormalization", "MatMul", "Mul", "Pow", "ReduceMean"}
    | {"Reshape", "Softmax", "Split", "Sqrt", "Sub", "Transpose"}
)
"""Between the start and end nodes of the two graphs that the vendor compiled."""

SHAPE_OPERATORS: Final = frozenset({"Shape", "Size", "If", "Loop", "Scan"})
ATTENTION_OPERATORS: Final = frozenset(
    {"Attention", "MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention"}
)
LAYER_NORM_OPSET: Final = 17
WIDEST_ACCEPTED: Final = 12_967
"""Columns of the largest of the four chunks that the vendor cut tiny's vocabulary into."""
NARROWEST_REFUSED: Final = 51_864
"""Columns of the uncut product, of which the vendor says that it is too large for Hailo-8."""
MAX_AXES: Final = 4


def check_graph(
    graph: OnnxGraph, section: Section, opset: int, ir_version: int
) -> Iterator[Finding]:
    """Yield what the rules say about versions, cut and entries."""
    if opset not in ACCEPTED_OPSETS:
        known = "the compiler is known to accept 17 (encoder) and 13 (decoder)"
        yield _make_finding("opset", f"opset {opset}; {known}")
    if ir_version > NEWEST_IR:
        known = f"compilers have refused more than {NEWEST_IR}"
        yield _make_finding("file-format", f"ONNX IR version {ir_version}; {known}")
    for name in section.strays:
        needs = f"the nodes before the ends also need input {name}, to which no start leads"
        yield _make_finding("cut", needs, name)
    for name in section.unused:
        yield _make_finding("cut", f"no end depends on start {name}", name)
    for name in section.entries:
        tensor = graph.tensor(name)
        enters = f"enters with shape {tensor.text}, expected"
        if not tensor.static:
            yield _make_finding("dynamic-shape", f"{enters} numbers", name)
        if tensor.dtype not in (TensorProto.FLOAT, TensorProto.UNDEFINED):
            got = f"enters as {tensor.dtype_name}, expected float: the chip takes no ids"
            yield _make_finding("element-type", got, name)
        if tensor.shape and tensor.shape[0] not in (1, None):
            yield _make_finding("batch", f"{enters} a first axis of 1", name)
        if name not in graph.inputs and tensor.shape is not None and len(tensor.shape) != MAX_AXES:
            got = (
                f"the graph is cut at a tensor of shape {tensor.text}; the accepted decoder is cut "
                "where it has four axes, (1, d_model, length, 1)"
            )
            yield _make_finding("layout", got, name)


def check_form(form: HailoForm, dims: Dimensions, arch: str) -> Iterator[Finding]:
    """Yield what the rules say about the sizes that a model directory records."""
    known = KNOWN_WINDOWS.get((arch, dims.d_model))
    if known is None or form.window_s > known.window_s:
        fitting = "none of this width" if known is None else f"{known.window_s} s or less"
        yield _make_finding(
            "window",
            f"a {form.window_s} s window at width {dims.d_model}; known to fit {arch}: {fitting}",
            severity=_BLOCKS if is_failing(arch, dims.d_model, form.window_s) else None,
        )
    if form.part == "decoder" and arch == "hailo10h":
        yield _make_finding(
            "host-positions",
            "this form has its position rows added on the host; the vendor's decoders for "
            "Hailo-10H add them on the chip",
        )


def check_nodes(graph: OnnxGraph, section: Section, arch: str, opset: int) -> Iterator[Finding]:
    """Yield what the rules say about each node of a section, node by node.

    Where a node is refused as a whole, or would be folded away, the other rules are not asked.
    """
    for index in section.nodes:
        node, is_foldable = graph.nodes[index], index in section.foldable
        refusal = _find_refusal(node, is_foldable=is_foldable)
        if refusal is not None:
            yield _make_finding(*refusal, graph.label(index), node.op_type)
        elif not is_foldable:
            yield from _check_details(graph, section, index, arch, opset)


def _find_refusal(node: NodeProto, *, is_foldable: bool) -> tuple[str, str] | None:
    """Return the rule that refuses a node as a whole, and what it says."""
    operator = node.op_type
    refusal = None
    if operator in ATTENTION_OPERATORS:
        refusal = "fused-attention", f"{operator} in one node, expected MatMul, Softmax, MatMul"
    elif node.domain not in ("", "ai.onnx"):
        refusal = "foreign-domain", f"operator of {node.domain}, expected the standard ONNX domain"
    elif is_foldable:
        if operator != "Constant":
            refusal = "constant-subgraph", "its result is a constant, expected an initializer"
    elif operator == "Gather":
        refusal = "table-lookup", "a lookup, which the chip does not have"
    elif operator in {"Where", "Expand"}:
        refusal = "broadcast-scaffolding", f"{operator} on values that change, expected none"
    elif operator in SHAPE_OPERATORS:
        got = f"{operator}, which decides at run time; expected sizes that are numbers"
        refusal = "dynamic-operator", got
    return refusal


def _check_details(
    graph: OnnxGraph, section: Section, index: int, arch: str, opset: int
) -> Iterator[Finding]:
    """Yield what the rules say about the details of a node."""
    node, operator = graph.nodes[index], graph.nodes[index].op_type
    found = partial(_make_finding, node=graph.label(index), operator=operator)
    outputs = [graph.tensor(name) for name in node.output if name]
    kernel = graph.tensor(node.input[1]) if len(node.input) > 1 else None
    if operator == "Conv" and kernel is not None and kernel.shape and len(kernel.shape) == 3:
        yield found("conv1d", f"kernel {kernel.text}, expected four axes")
    if operator in {"MatMul", "Gemm"} and _is_constant(graph, section, node.input[1]):
        n_columns = (outputs[0].shape or (0,))[-1] or 0
        if n_columns > WIDEST_ACCEPTED:
            # The limit is not published.
            is_refused = n_columns >= NARROWEST_REFUSED and arch != "hailo10h"
            known = f"{WIDEST_ACCEPTED} are known to work, {NARROWEST_REFUSED} to fail on Hailo-8"
            severity = _BLOCKS if is_refused else _UNKNOWN
            yield found("wide-product", f"{n_columns} columns; {known}", severity=severity)
    if operator == "LayerNormalization" and opset < LAYER_NORM_OPSET:
        yield found("unfit-opset", f"opset {opset}, expected {LAYER_NORM_OPSET} or more")
    if operator not in ACCEPTED_OPERATORS:
        yield found(
            "unseen-operator",
            "an operator that is in no Whisper graph which the compiler is known to accept",
        )
    wide = next((x for x in outputs if x.shape is not None and len(x.shape) > MAX_AXES), None)
    if wide is not None:
        got = f"a result of shape {wide.text}, expected at most {MAX_AXES} axes"
        yield found("many-axes", got)
    moving = next((x for x in outputs if not x.static), None)
    if moving is not None and all(graph.tensor(name).static for name in node.input if name):
        # The first node whose result has no fixed shape, not what follows it.
        yield found("dynamic-shape", f"a result of shape {moving.text}, expected numbers")


def _is_constant(graph: OnnxGraph, section: Section, name: str) -> bool:
    """Return whether a value is a weight, or made of weights alone, such as one transposed."""
    return name in graph.weights or graph.producers.get(name) in section.foldable
