"""`whisper-hailo check`: what the Hailo compiler will refuse, before it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.spec import ARCHES

if TYPE_CHECKING:
    from whisper_hailo_tools.check.report import Report
    from whisper_hailo_tools.check.rules import Finding

MAX_NAMED = 3


def check(
    graph: Annotated[Path, Argument("ONNX file, from here or from elsewhere.")],
    arch: Annotated[str, Flag(f"Chip: {', '.join(ARCHES)}.")],
    start: Annotated[
        list[str] | None, Flag("Where the compiler starts; may be repeated.", metavar="NODE")
    ] = None,
    end: Annotated[
        list[str] | None, Flag("Where the compiler ends; may be repeated.", metavar="NODE")
    ] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> int:
    """Check an ONNX graph against what is known of the Hailo compiler; exit code 4 if it blocks."""
    from whisper_hailo_tools.check.report import check_file  # imports onnx: slow

    report = check_file(graph, arch, start or (), end or ())
    if as_json:
        emit_json(report.to_dict(), indent=2)
    else:
        emit("\n".join(_lines(report)) + "\n")
    return ExitCode.MODEL if report.blocked else ExitCode.OK


def _lines(report: Report) -> list[str]:
    section = report.section
    verdict = "blocked" if report.blocked else "nothing found that blocks"
    origin = "as model.json says" if report.recorded else "as given, or the whole graph"
    kinds = _kinds(report.findings)
    sources = list(dict.fromkeys(group[0].source for group in kinds))
    lines = [f"{report.path} for {report.arch}: {verdict}"]
    lines += [_finding(group, 1 + sources.index(group[0].source)) for group in kinds]
    lines.append(f"from {', '.join(section.starts)} to {', '.join(section.ends)} ({origin})")
    lines += [
        f"  {name} {shape}, on the chip {report.chip_inputs[name]}"
        for name, shape in report.entries.items()
    ]
    counts = ", ".join(f"{name} {count}" for name, count in report.operators.items())
    lines.append(f"{len(section.nodes)} of {report.n_nodes} nodes, opset {report.opset}: {counts}")
    lines.append(_weights(report))
    return lines + [f"({number}) {source}" for number, source in enumerate(sources, 1)]


def _kinds(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings of one kind together, kinds in the order in which they first occur."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        kinds.setdefault((finding.severity, finding.rule), []).append(finding)
    return list(kinds.values())


def _finding(group: list[Finding], number: int) -> str:
    """Format all findings of a kind as one line; `number` is that of its source."""
    head = group[0]
    named = [_where(finding) for finding in group[:MAX_NAMED]]
    more = f" and {len(group) - MAX_NAMED} more" if len(group) > MAX_NAMED else ""
    where = f"{', '.join(named)}{more}: "
    return f"{head.severity} [{head.rule}] {where}{head.got}; {head.mend} ({number})"


def _where(finding: Finding) -> str:
    if not finding.operator:
        return finding.node or "graph"
    return f"{finding.node} ({finding.operator})"


def _weights(report: Report) -> str:
    from whisper_hailo_tools.check.rules import PRECISIONS_BITS

    weights = report.weights
    sizes = ", ".join(f"{weights.nbytes(bits) / 1e6:.2f} at {bits}" for bits in PRECISIONS_BITS)
    text = f"{weights.count / 1e6:.2f} million weights; MB by bits: {sizes}"
    if weights.contexts is None:
        return text
    return (
        f"{text}; contexts: {weights.contexts}, an estimate, scaled by weights from the one known "
        "build (tiny's encoder on a Hailo-8L: 9)"
    )
