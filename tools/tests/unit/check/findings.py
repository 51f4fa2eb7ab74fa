"""What a report found, in short."""

from __future__ import annotations

from whisper_hailo_tools.check.report import Report


def rules_of(report: Report) -> set[tuple[str, str]]:
    return {(finding.severity.value, finding.rule) for finding in report.findings}


def only_finding(report: Report, rule: str) -> str:
    (finding,) = [finding for finding in report.findings if finding.rule == rule]
    assert finding.source
    assert finding.mend
    return finding.got
