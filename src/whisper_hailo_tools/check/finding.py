"""What a rule says, how sure it is, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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
        severity: how bad it is.
        node: the node's name, or the graph input's, or empty for the whole graph.
        operator: the node's operator, or empty.
        got: what is there, and what was expected.
        mend: what to do.
        source: who says so.
    """

    rule: str
    severity: Severity
    node: str
    operator: str
    got: str
    mend: str
    source: str
