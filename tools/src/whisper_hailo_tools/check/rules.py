"""The rules of Hailo's parser, applied to a graph and to each of its nodes."""

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
_VENDOR: Final = "https://github.com/hailocs/hailo-whisper/blob/347d8a0526622b5e9c88e0bba577dfb3952eb14b/"
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
IR_REPORT: Final = (
    "https://community.hailo.ai/t/erroe-while-converting-onnx-model-to-hef/5357"
)
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
_BLOCKS = Severity.BLOCKS
_UNKNOWN = Severity.UNKNOWN
_NOTE = Severity.NOTE

RULES: Final = {
    # The whole graph
    "opset": (_UNKNOWN, "export with one of them", ACCEPTED),
    "file-format": (
        _UNKNOWN,
        "set ir_version to it and save the file again",
        IR_REPORT,
    ),
    "cut": (
        _BLOCKS,
        "choose --start nodes that lead to the ends, and all of them",
        VENDOR_DECODER,
    ),
    "window": (_UNKNOWN, "expect to convert with a shorter --window", VENDOR_GUIDE),
    "host-positions": (
        _NOTE,
        "add them on the host for a HEF of this graph, never for the vendor's",
        "docs/reference/hailo-graphs.md: what the host does",
    ),
    # Values at which the graph is cut
    "dynamic-shape": (_BLOCKS, _FIXED, STATIC),
    "element-type": (
        _BLOCKS,
        "start behind the lookup and do it on the host (docs/reference/hailo-graphs.md)",
        VENDOR_GUIDE,
    ),
    "batch": (
        _UNKNOWN,
        "export with batch 1: the compiler makes batches by itself",
        ACCEPTED,
    ),
    "layout": (
        _UNKNOWN,
        "start at the node that flattens four axes to three (/Reshape)",
        VENDOR_DECODER,
    ),
    # Nodes as a whole
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
    # Details of nodes
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
"""Rule to its severity, the advice, and the source."""


def _make_finding(
    rule: str,
    got: str,
    node: str = "",
    operator: str = "",
    severity: Severity | None = None,
) -> Finding:
    rule_severity, mend, source = RULES[rule]
    return Finding(
        rule=rule,
        severity=severity or rule_severity,
        node=node,
        operator=operator,
        got=got,
        mend=mend,
        source=source,
    )


ACCEPTED_OPSETS: Final = (13, 17)
NEWEST_IR: Final = 9


ACCEPTED_OPERATORS: Final = frozenset(
    {
        "Add",
        "Conv",
        "Div",
        "Erf",
        "LayerNormalization",
        "MatMul",
        "Mul",
        "Pow",
        "ReduceMean",
    }
    | {"Reshape", "Softmax", "Split", "Sqrt", "Sub", "Transpose"}
)
"""Between the start and end nodes of the two graphs that the vendor compiled."""

SHAPE_OPERATORS: Final = frozenset({"Shape", "Size", "If", "Loop", "Scan"})
ATTENTION_OPERATORS: Final = frozenset(
    {
        "Attention",
        "MultiHeadAttention",
        "GroupQueryAttention",
        "DecoderMaskedMultiHeadAttention",
    }
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
    """Yield findings about versions, cut and entries."""
    if opset not in ACCEPTED_OPSETS:
        yield _make_finding(
            "opset",
            f"opset {opset}; the compiler is known to accept 17 (encoder) and 13 (decoder)",
        )
    if ir_version > NEWEST_IR:
        yield _make_finding(
            "file-format",
            f"ONNX IR version {ir_version}; compilers have refused more than {NEWEST_IR}",
        )
    for name in section.strays:
        got = (
            f"the nodes before the ends also need input {name}, to which no start leads"
        )
        yield _make_finding("cut", got, name)
    for name in section.unused:
        yield _make_finding("cut", f"no end depends on start {name}", name)
    for name in section.entries:
        yield from _check_entry(graph, name)


def _check_entry(graph: OnnxGraph, name: str) -> Iterator[Finding]:
    """Yield findings about one value that enters the section."""
    tensor = graph.tensor(name)
    if not tensor.static:
        got = f"enters with shape {tensor.text}, expected numbers"
        yield _make_finding("dynamic-shape", got, name)
    if tensor.dtype not in (TensorProto.FLOAT, TensorProto.UNDEFINED):
        got = f"enters as {tensor.dtype_name}, expected float: the chip takes no ids"
        yield _make_finding("element-type", got, name)
    if tensor.shape and tensor.shape[0] not in (1, None):
        got = f"enters with shape {tensor.text}, expected a first axis of 1"
        yield _make_finding("batch", got, name)
    is_inner = name not in graph.inputs
    if is_inner and tensor.shape is not None and len(tensor.shape) != MAX_AXES:
        got = (
            f"the graph is cut at a tensor of shape {tensor.text}; the accepted decoder is cut "
            "where it has four axes, (1, d_model, length, 1)"
        )
        yield _make_finding("layout", got, name)


def check_form(form: HailoForm, dims: Dimensions, arch: str) -> Iterator[Finding]:
    """Yield findings about the sizes that a model directory records."""
    window = KNOWN_WINDOWS.get((arch, dims.d_model))
    if window is None or form.window_s > window.window_s:
        fitting = (
            "none of this width" if window is None else f"{window.window_s} s or less"
        )
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


def check_nodes(
    graph: OnnxGraph,
    section: Section,
    arch: str,
    opset: int,
) -> Iterator[Finding]:
    """Yield findings about each node of a section, node by node.

    A node that is refused as a whole, or would be folded, is not checked in its details.
    """
    for index in section.nodes:
        node = graph.nodes[index]
        is_foldable = index in section.foldable
        refusal = _find_refusal(node, is_foldable=is_foldable)
        if refusal is not None:
            rule, got = refusal
            yield _make_finding(rule, got, graph.label(index), node.op_type)
        elif not is_foldable:
            yield from _check_details(graph, section, index, arch, opset)


def _find_refusal(node: NodeProto, *, is_foldable: bool) -> tuple[str, str] | None:
    """Return the rule that refuses a node as a whole, and what is wrong with the node."""
    operator = node.op_type
    refusal = None
    if operator in ATTENTION_OPERATORS:
        got = f"{operator} in one node, expected MatMul, Softmax, MatMul"
        refusal = ("fused-attention", got)
    elif node.domain not in ("", "ai.onnx"):
        got = f"operator of {node.domain}, expected the standard ONNX domain"
        refusal = ("foreign-domain", got)
    elif is_foldable:
        if operator != "Constant":
            got = "its result is a constant, expected an initializer"
            refusal = ("constant-subgraph", got)
    elif operator == "Gather":
        refusal = ("table-lookup", "a lookup, which the chip does not have")
    elif operator in {"Where", "Expand"}:
        got = f"{operator} on values that change, expected none"
        refusal = ("broadcast-scaffolding", got)
    elif operator in SHAPE_OPERATORS:
        got = f"{operator}, which decides at run time; expected sizes that are numbers"
        refusal = ("dynamic-operator", got)
    return refusal


def _check_details(
    graph: OnnxGraph, section: Section, index: int, arch: str, opset: int
) -> Iterator[Finding]:
    """Yield findings about the details of a node."""
    node = graph.nodes[index]
    operator = node.op_type
    make_finding = partial(_make_finding, node=graph.label(index), operator=operator)
    outputs = [graph.tensor(name) for name in node.output if name]
    if operator == "Conv" and len(node.input) > 1:
        kernel = graph.tensor(node.input[1])
        if kernel.shape and len(kernel.shape) == 3:
            yield make_finding("conv1d", f"kernel {kernel.text}, expected four axes")
    if operator in {"MatMul", "Gemm"} and _is_constant(graph, section, node.input[1]):
        n_columns = outputs[0].shape[-1] if outputs[0].shape else None
        if n_columns is not None and n_columns > WIDEST_ACCEPTED:
            # Between the two the limit is not published.
            is_refused = n_columns >= NARROWEST_REFUSED and arch != "hailo10h"
            yield make_finding(
                "wide-product",
                f"{n_columns} columns; {WIDEST_ACCEPTED} are known to work, {NARROWEST_REFUSED} to "
                "fail on Hailo-8",
                severity=_BLOCKS if is_refused else _UNKNOWN,
            )
    if operator == "LayerNormalization" and opset < LAYER_NORM_OPSET:
        yield make_finding(
            "unfit-opset", f"opset {opset}, expected {LAYER_NORM_OPSET} or more"
        )
    if operator not in ACCEPTED_OPERATORS:
        yield make_finding(
            "unseen-operator",
            "an operator that is in no Whisper graph which the compiler is known to accept",
        )
    for tensor in outputs:
        if tensor.shape is not None and len(tensor.shape) > MAX_AXES:
            got = f"a result of shape {tensor.text}, expected at most {MAX_AXES} axes"
            yield make_finding("many-axes", got)
            break
    dynamic = [tensor for tensor in outputs if not tensor.static]
    # Only where the shape is lost, not at the nodes that follow.
    if dynamic and all(graph.tensor(name).static for name in node.input if name):
        got = f"a result of shape {dynamic[0].text}, expected numbers"
        yield make_finding("dynamic-shape", got)


def _is_constant(graph: OnnxGraph, section: Section, name: str) -> bool:
    """Return whether a value is a weight, or made of weights alone, such as one transposed."""
    return name in graph.weights or graph.producers.get(name) in section.foldable
