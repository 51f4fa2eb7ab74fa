"""The rules of Hailo's parser: what they say about a graph, and about each of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onnx import NodeProto, TensorProto

from whisper_hailo.core.spec import Dimensions, HailoForm
from whisper_hailo_tools.check.graph import OnnxGraph, Section, Tensor

PRECISIONS_BITS: Final = (4, 8, 16)
"""What the chip can hold a weight in."""


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
    """Yield what the rules say about versions, cut and entries."""
    yield from _versions(graph)
    yield from _cut(section)
    for name in section.entries:
        yield from _entry(graph, name)


def check_form(form: HailoForm, dims: Dimensions, arch: str) -> Iterator[Finding]:
    """Yield what the rules say about the sizes that a model directory records."""
    yield from _window(form, dims, arch)
    if form.part == "decoder" and arch == "hailo10h":
        yield _finding(
            "host-positions",
            Severity.NOTE,
            "",
            "this form has its position rows added on the host; the vendor's decoders for "
            "Hailo-10H add them on the chip",
            "add them on the host for a HEF of this graph, never for the vendor's",
            "docs/reference/hailo-graphs.md: what the host does",
        )


def _finding(  # noqa: PLR0917 - in the order in which it is read
    rule: str, severity: Severity, name: str, got: str, mend: str, source: str
) -> Finding:
    """Return a finding about a graph input or cut called `name`; empty means the whole graph."""
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
    """Check that every input of the section is a start, and every start is used."""
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
    """Check what the host hands over: static, one at a time, numbers, four axes where cut."""
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
            "start behind the lookup and do it on the host (docs/reference/hailo-graphs.md)",
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
    """Check that cuts inside the graph have four axes, as in the accepted decoder."""
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
    """Check the window against those known to fit; base at 10 s does not fit a Hailo-8."""
    known_s = KNOWN_WINDOWS_S.get((arch, dims.d_model))
    if known_s is not None and form.window_s <= known_s:
        return
    refused = dims.d_model == BASE and form.window_s >= 10 and arch != "hailo10h"
    expected = f"{known_s} s or less" if known_s else "none of this width"
    yield _finding(
        "window",
        Severity.BLOCKS if refused else Severity.UNKNOWN,
        "",
        f"a {form.window_s} s window at width {dims.d_model}; known to fit {arch}: {expected}",
        "convert with a shorter --window" if known_s else "expect to have to shorten --window",
        VENDOR_GUIDE,
    )


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


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node where it stands."""

    graph: OnnxGraph
    section: Section
    index: int
    arch: str

    @property
    def node(self) -> NodeProto:
        return self.graph.nodes[self.index]

    def is_constant(self, name: str) -> bool:
        """Return whether a value is a weight, or made of weights alone, such as one transposed."""
        producer = self.graph.producers.get(name)
        return name in self.graph.weights or producer in self.section.foldable


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A rule about single nodes.

    Attributes:
        got: returns what is wrong with a node, and what was expected; `None` if nothing is.
    """

    name: str
    severity: Severity
    got: Callable[[NodePlace], str | None]
    mend: str
    source: str

    def finding(self, place: NodePlace) -> Finding | None:
        """Return what the rule says about a node."""
        if (got := self.got(place)) is None:
            return None
        label, operator = place.graph.label(place.index), place.node.op_type
        return Finding(self.name, self.severity, label, operator, got, self.mend, self.source)


def check_nodes(graph: OnnxGraph, section: Section, arch: str) -> Iterator[Finding]:
    """Yield what the rules say about each node of a section, node by node.

    Where a node is refused as a whole, or would be folded away, the other rules are not asked.
    """
    for index in section.nodes:
        place = NodePlace(graph, section, index, arch)
        whole = next((found for rule in _WHOLE if (found := rule.finding(place))), None)
        if whole is not None:
            yield whole
        elif index not in section.foldable:
            yield from (found for rule in _DETAILS if (found := rule.finding(place)))


def _operator(operators: Collection[str], text: str) -> Callable[[NodePlace], str | None]:
    """Return what finds these operators; `{}` in the text is the operator's name."""
    return lambda place: (
        text.format(place.node.op_type) if place.node.op_type in operators else None
    )


def _foreign_domain(place: NodePlace) -> str | None:
    if place.node.domain in ("", "ai.onnx"):
        return None
    return f"operator of {place.node.domain}, expected the standard ONNX domain"


def _constant_subgraph(place: NodePlace) -> str | None:
    if place.index not in place.section.foldable or place.node.op_type == "Constant":
        return None
    return "its result is a constant, expected an initializer"


def _conv1d(place: NodePlace) -> str | None:
    kernel = place.graph.tensor(place.node.input[1]) if len(place.node.input) > 1 else Tensor()
    if place.node.op_type != "Conv" or kernel.shape is None or len(kernel.shape) != 3:
        return None
    return f"kernel {kernel.text}, expected four axes"


def _wide_product(*, refused: bool) -> Callable[[NodePlace], str | None]:
    """Return what finds an uncut vocabulary product; the limit is not published."""

    def got(place: NodePlace) -> str | None:
        node = place.node
        if node.op_type not in {"MatMul", "Gemm"} or not place.is_constant(node.input[1]):
            return None
        shape = place.graph.tensor(node.output[0]).shape
        n_columns = shape[-1] if shape else None
        if n_columns is None or n_columns <= WIDEST_ACCEPTED:
            return None
        if (n_columns >= NARROWEST_REFUSED and place.arch != "hailo10h") is not refused:
            return None
        return (
            f"{n_columns} columns; {WIDEST_ACCEPTED} are known to work, {NARROWEST_REFUSED} to "
            "fail on Hailo-8"
        )

    return got


def _unfit_opset(place: NodePlace) -> str | None:
    opset = place.graph.opsets.get("", 0)
    if place.node.op_type != "LayerNormalization" or opset >= LAYER_NORM_OPSET:
        return None
    return f"opset {opset}, expected {LAYER_NORM_OPSET} or more"


def _unseen_operator(place: NodePlace) -> str | None:
    if place.node.op_type in ACCEPTED_OPERATORS:
        return None
    return "an operator that is in no Whisper graph which the compiler is known to accept"


def _many_axes(place: NodePlace) -> str | None:
    tensors = (place.graph.tensor(name) for name in place.node.output)
    wide = next((x for x in tensors if x.shape is not None and len(x.shape) > MAX_AXES), None)
    return (
        None if wide is None else f"a result of shape {wide.text}, expected at most {MAX_AXES} axes"
    )


def _dynamic_result(place: NodePlace) -> str | None:
    """Find the first node whose result has no fixed shape, not what follows it."""
    graph, node = place.graph, place.node
    if not all(graph.tensor(name).static for name in node.input if name):
        return None
    moving = (graph.tensor(name) for name in node.output if name)
    shape = next((tensor.text for tensor in moving if not tensor.static), None)
    return shape and f"a result of shape {shape}, expected numbers"


_FIXED: Final = "export with fixed sizes, or convert with --hailo"
_CUT: Final = "cut the weights into four products and join their results on the host"

_WHOLE: Final = (
    NodeRule(
        "fused-attention",
        Severity.BLOCKS,
        _operator(ATTENTION_OPERATORS, "{} in one node, expected MatMul, Softmax, MatMul"),
        "export with eager attention, or convert with --hailo",
        VENDOR_PATCH,
    ),
    NodeRule(
        "foreign-domain",
        Severity.BLOCKS,
        _foreign_domain,
        "export without that runtime's optimisation or quantisation",
        STANDARD,
    ),
    NodeRule(
        "constant-subgraph",
        Severity.NOTE,
        _constant_subgraph,
        "simplify the graph (onnxsim) if the parser does not do it",
        RETRY,
    ),
    NodeRule(
        "table-lookup",
        Severity.BLOCKS,
        _operator({"Gather"}, "a lookup, which the chip does not have"),
        "start behind it and look rows up on the host (docs/reference/hailo-graphs.md)",
        f"{PARSER_REPORT}; {VENDOR_GUIDE}",
    ),
    NodeRule(
        "broadcast-scaffolding",
        Severity.BLOCKS,
        _operator({"Where", "Expand"}, "{} on values that change, expected none"),
        "make the mask a constant and add it, or convert with --hailo",
        PARSER_REPORT,
    ),
    NodeRule(
        "dynamic-operator",
        Severity.BLOCKS,
        _operator(
            SHAPE_OPERATORS, "{}, which decides at run time; expected sizes that are numbers"
        ),
        _FIXED,
        STATIC,
    ),
)
"""Rules that refuse a node as a whole."""

_DETAILS: Final = (
    NodeRule(
        "conv1d",
        Severity.BLOCKS,
        _conv1d,
        "give it a height of 1, kernel (1, 3) and padding (0, 1), or convert with --hailo",
        f"{VENDOR_GUIDE}; {VENDOR_PATCH}",
    ),
    NodeRule("wide-product", Severity.BLOCKS, _wide_product(refused=True), _CUT, VENDOR_PATCH),
    NodeRule("wide-product", Severity.UNKNOWN, _wide_product(refused=False), _CUT, VENDOR_PATCH),
    NodeRule(
        "unfit-opset",
        Severity.BLOCKS,
        _unfit_opset,
        "write the norm out (ReduceMean, Sub, Pow ...) or export with opset 17",
        f"{STANDARD}onnx__LayerNormalization.html",
    ),
    NodeRule(
        "unseen-operator",
        Severity.UNKNOWN,
        _unseen_operator,
        "try the parser, or convert with --hailo",
        ACCEPTED,
    ),
    NodeRule(
        "many-axes",
        Severity.UNKNOWN,
        _many_axes,
        "merge axes, or convert with --hailo",
        ACCEPTED,
    ),
    NodeRule("dynamic-shape", Severity.BLOCKS, _dynamic_result, _FIXED, STATIC),
)
"""Rules about the details of a node."""
