"""Compares every form of a model directory with its checkpoint, and writes the report.

The report is `parity.json`, and a picture with a line for each form.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.hub import ASSETS, BUNDLED, locate_checkpoint, parse_name
from whisper_hailo.convert.convert import source_hashes
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.files import write_file
from whisper_hailo.core.scratch import temporary_directory
from whisper_hailo.core.spec import PARITY_FILES, PARTS, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.core.version import __version__
from whisper_hailo_tools.options import ValidateOptions
from whisper_hailo_tools.validate.reference import (
    GraphSources,
    ReferenceModel,
    from_checkpoint,
    from_graphs,
)
from whisper_hailo_tools.validate.stage_checks import FAILED, FormChecks, FormResult
from whisper_hailo_tools.validate.test_inputs import (
    ShownTokens,
    ValidationInputs,
    decode_greedily,
    draw_windows,
)

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class ParityReport:
    """What was found about every form of a model.

    Attributes:
        used: recording and number of the window in it, for each window.
        calibrated_on: the same for the windows that an emulation's scales were chosen by.
        files: file of the model directory to hash.
    """

    model: str
    directory: Path
    reference: str
    window_s: float
    used: tuple[tuple[str, int], ...]
    calibrated_on: tuple[tuple[str, int], ...]
    audio_sha256: dict[str, str]
    files: dict[str, str]
    results: tuple[FormResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every form that was run is within its limit."""
        return all(result.status != FAILED for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "whisper_hailo": __version__,
            "model": self.model,
            "reference": self.reference,
            "passed": self.passed,
            "window_s": self.window_s,
            "windows": [{"file": name, "window": number} for name, number in self.used],
            "calibrated_on": [
                {"file": name, "window": number} for name, number in self.calibrated_on
            ],
            "audio_sha256": self.audio_sha256,
            "files": self.files,
            "rungs": [result.to_dict() for result in self.results],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"


WIDTH: Final = 960
PANEL_HEIGHT: Final = 345
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 46, 100
COLOURS: Final = {
    "float32": "#1b6ca8",
    "quantised": "#d1495b",
    "hailo-form": "#2e8b57",
    "emulated": "#b8860b",
    "hef": "#6a4c93",
}
DASHES: Final = {"hailo-form": "6 4"}
"""Lines of rungs that lie on each other stay both visible."""

CEILING_DB: Final = 180.0
"""Equal arrays have no ratio; they are drawn at the top."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Pixels of a panel: stages from left to right, decibels from bottom to top."""

    n_stages: int
    top_db: float
    y: int

    def x_of(self, index: int) -> float:
        span = WIDTH - LEFT - RIGHT
        return LEFT + span * (index + 0.5) / max(1, self.n_stages)

    def y_of(self, snr_db: float) -> float:
        span = PANEL_HEIGHT - TOP - BOTTOM
        shown = min(max(snr_db, 0.0), self.top_db)
        return self.y + TOP + span * (1 - shown / self.top_db)


def write_report(report: ParityReport, folder: Path) -> tuple[Path, Path]:
    """Write a report's JSON and its picture, each complete or not at all."""
    data, picture = (folder / name for name in PARITY_FILES)
    write_file(data, report.to_json())
    write_file(picture, draw_picture(report))
    return data, picture


def draw_picture(report: ParityReport) -> str:
    """Return an SVG of the report."""
    parts = [part for part in PARTS if any(_lines(report, part))]
    height = max(1, len(parts)) * PANEL_HEIGHT + 30
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 20, f"{report.model}: SNR in dB against {report.reference}", size=14),
    ]
    for number, part in enumerate(parts):
        body += _panel(part, list(_lines(report, part)), 24 + number * PANEL_HEIGHT)
    return "\n".join([*body, "</svg>"]) + "\n"


def _lines(report: ParityReport, part: str) -> Iterator[FormResult]:
    return (result for result in report.results if result.part == part and result.layers)


def _panel(part: str, results: Sequence[FormResult], y: int) -> Iterator[str]:
    """Yield one part: axes, a line and a legend entry for each form."""
    stages = [layer.name for layer in max(results, key=lambda result: len(result.layers)).layers]
    shown = [layer.snr_db for result in results for layer in result.layers]
    highest = max((value for value in shown if math.isfinite(value)), default=20.0)
    has_equal = any(value == math.inf for value in shown)
    top_db = CEILING_DB if has_equal else min(CEILING_DB, 20 * math.ceil(highest / 20 + 0.2))
    axis = _Axis(len(stages), max(20.0, top_db), y)
    yield _text(LEFT, y + TOP - 12, part, weight="bold")
    yield from _grid(axis, stages)
    for number, result in enumerate(results):
        yield from _line(result, stages, axis, y + TOP + 8 + 40 * number)


def _grid(axis: _Axis, stages: Sequence[str]) -> Iterator[str]:
    for db in range(0, int(axis.top_db) + 1, 20):
        y = axis.y_of(db)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
        yield _text(LEFT - 8, y + 4, str(db), anchor="end")
    step = max(1, math.ceil(len(stages) / 26))
    for index in range(0, len(stages), step):
        x, y = axis.x_of(index), axis.y_of(0) + 12
        yield (
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="10" text-anchor="end" '
            f'transform="rotate(-50 {x:.1f} {y:.1f})">{escape(_short(stages[index]))}</text>'
        )


def _line(result: FormResult, stages: Sequence[str], axis: _Axis, legend_y: float) -> Iterator[str]:
    known = {layer.name: layer.snr_db for layer in result.layers}
    points = [
        (axis.x_of(index), axis.y_of(known[stage]))
        for index, stage in enumerate(stages)
        if stage in known and not math.isnan(known[stage])
    ]
    colour = COLOURS.get(result.kind, "#444444")
    dash = f' stroke-dasharray="{DASHES[result.kind]}"' if result.kind in DASHES else ""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
    x = WIDTH - RIGHT + 12
    yield f'<path d="M{x} {legend_y - 4}h18" stroke="{colour}" stroke-width="3"{dash}/>'
    yield _text(x + 24, legend_y, f"{result.kind}, {result.status}")
    if result.found is not None:
        yield _text(x + 24, legend_y + 15, f"{_decibels(result.found.snr_db)} at the end", size=10)


def _short(stage: str) -> str:
    """Return a stage's name without what every one of them begins with."""
    words = stage.removeprefix("encoder.").removeprefix("decoder.").replace("layers.", "")
    return words.replace(".self_attn.residual", " self-att.").replace(
        ".encoder_attn.residual", " cross-att."
    )


def _decibels(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f} dB"


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


logger = logging.getLogger(__name__)

CALIBRATION_WINDOWS = 16
"""Windows, others than those that are compared, that an emulation's scales are chosen by."""

DEFAULT_LENGTH = 32
"""Tokens that decoders are shown where no Hailo decoder says how many it takes."""


def validate(directory: Path, options: ValidateOptions) -> ParityReport:
    """Compare every form of a model directory with its checkpoint."""
    spec = ModelSpec.load(directory)
    checkpoint = _checkpoint(spec, options)
    with temporary_directory() as work:
        sources = GraphSources(directory, spec, checkpoint, work)
        source = from_graphs(sources) if checkpoint is None else from_checkpoint(checkpoint)
        plan, inputs = _inputs(sources, options)
        reference = ReferenceModel.of(source, inputs)
        results = tuple(FormChecks(sources, reference, options.limit).check_all())
    return ParityReport(
        model=spec.name,
        directory=directory,
        reference=reference.name,
        window_s=plan.window_s,
        used=inputs.windows.used,
        calibrated_on=inputs.calibration.used,
        audio_sha256=inputs.windows.sha256,
        files={name: record.sha256 for name, record in spec.files.items()},
        results=results,
    )


def _checkpoint(spec: ModelSpec, options: ValidateOptions) -> Checkpoint | None:
    """Return the checkpoint that a model was made of, opened and recognised by its hashes."""
    if options.checkpoint is not None:
        path, _ = locate_checkpoint(parse_name(options.checkpoint), None)
        opened = Checkpoint(path)
        hashes = source_hashes(opened)
        known = spec.source.sha256
        wrong = sorted(n for n in known.keys() | hashes.keys() if known.get(n) != hashes.get(n))
        if wrong:
            raise ModelError(
                f"{display_path(path)} is not the checkpoint of this model: {', '.join(wrong[:3])} "
                "differs from the one that model.json names; give that one to --checkpoint or "
                "convert again"
            )
        return opened
    bundled = ASSETS / BUNDLED
    if spec.source.name == BUNDLED and bundled.is_dir():
        opened = Checkpoint(bundled)
        return opened if source_hashes(opened) == spec.source.sha256 else None
    return None


def _inputs(sources: GraphSources, options: ValidateOptions) -> tuple[WindowPlan, ValidationInputs]:
    """Return windows of the Hailo forms' size, and tokens for them."""
    spec = sources.spec
    window_s: float | None = next((float(form.window_s) for form in spec.hailo), None)
    length = next((form.length for form in spec.hailo if form.length), DEFAULT_LENGTH)
    length = min(length, spec.dims.n_text_ctx)
    plan = WindowPlan.make(spec.dims, window_s)
    n_calibration = CALIBRATION_WINDOWS if spec.hailo else 0
    folder = options.audio or ASSETS
    drawn = draw_windows(folder, plan, spec.dims.n_mels, options.windows + n_calibration)
    windows, calibration = drawn.split(options.windows)
    logger.info("%d windows of %g s from %s", len(windows.used), plan.window_s, folder)

    def decode(mel: FloatArray) -> ShownTokens:
        return decode_greedily(sources.directory, spec, mel, length, options.language)

    return plan, ValidationInputs(windows, calibration, decode(windows.mel), decode)
