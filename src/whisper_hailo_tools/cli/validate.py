"""`whisper-hailo validate`: is the converted model what its checkpoint is?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.flags import Flag
from whisper_hailo_tools.options import ValidateOptions

if TYPE_CHECKING:
    from whisper_hailo_tools.validate.stage_checks import FormResult
    from whisper_hailo_tools.validate.validate import ParityReport

HEADINGS = (
    "rung",
    "part",
    "result",
    "max",
    "mean",
    "cosine",
    "SNR dB",
    "PSNR dB",
    "limit",
    "tokens",
)


def validate(
    model_dir: Annotated[Path, Argument("Model directory.")],
    options: ValidateOptions,
    out: Annotated[
        Path | None, Flag("Where to write. [default: the model directory]", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, Flag("Print parity.json instead.", name="--json")] = False,
) -> int:
    """Compare every form of a model with its checkpoint; exit code 4 if one is too far off."""
    from whisper_hailo.core.files import require_writable_folder
    from whisper_hailo_tools.validate.validate import validate as run
    from whisper_hailo_tools.validate.validate import write_report

    if out is not None or model_dir.is_dir():
        require_writable_folder(out or model_dir, "give --out DIR")
    report = run(model_dir, options)
    files = write_report(report, out or model_dir)
    if as_json:
        emit_json(report.to_dict(), indent=1)
    else:
        emit("\n".join(_lines(report)) + f"\n{files[0]}, {files[1]}\n")
    return ExitCode.OK if report.passed else ExitCode.MODEL


def _lines(report: ParityReport) -> Iterator[str]:
    verdict = "passed" if report.passed else "FAILED"
    yield (
        f"{report.model}: {verdict}; {len(report.used)} windows of {report.window_s:g} s, "
        f"against {report.reference}"
    )
    rows = [HEADINGS, *(_row(result) for result in report.results)]
    widths = [
        max(map(len, column)) for column in zip(*(row for row in rows if len(row) > 3), strict=True)
    ]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield "  ".join(cells).rstrip()
    for result in report.results:
        yield from _notes(result)


def _row(result: FormResult) -> tuple[str, ...]:
    found, limit, tokens = result.found, result.limit, result.tokens
    if found is None or limit is None:
        return result.kind, result.part, f"{result.status}: {result.graph}"
    agreed = "" if tokens is None else f"{tokens.same} of {tokens.of}"
    return (
        result.kind,
        result.part,
        result.status,
        f"{found.max_abs:.2g}",
        f"{found.mean_abs:.2g}",
        f"{found.cosine:.6f}",
        _decibels(found.snr_db),
        _decibels(found.psnr_db),
        limit.text,
        agreed,
    )


def _notes(result: FormResult) -> Iterator[str]:
    """Yield where a failed form loses most."""
    fall = result.steepest_fall
    if result.status == "failed" and fall is not None:
        before, after = fall
        yield (
            f"{result.kind} {result.part}: SNR falls most from {before.name} "
            f"({_decibels(before.snr_db)} dB) to {after.name} ({_decibels(after.snr_db)} dB)"
        )


def _decibels(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f}"
