"""Climbs the parity ladder of a model directory."""

from __future__ import annotations

import logging
from pathlib import Path

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.hub import ASSETS, BUNDLED, locate, parse_name
from whisper_hailo.convert.convert import source_hashes
from whisper_hailo.core.errors import ModelError, shown
from whisper_hailo.core.scratch import temporary_directory
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.validate.options import ValidateOptions
from whisper_hailo_tools.validate.reference_model import Stores, Truth, from_checkpoint, from_graphs
from whisper_hailo_tools.validate.report import ParityReport
from whisper_hailo_tools.validate.stage_checks import Rungs
from whisper_hailo_tools.validate.test_inputs import (
    Material,
    ShownTokens,
    decode_greedily,
    draw_windows,
)

logger = logging.getLogger(__name__)

CALIBRATION_WINDOWS = 16
"""Windows, others than those that are compared, that an emulation's scales are chosen by."""

DEFAULT_LENGTH = 32
"""Tokens that decoders are shown where no Hailo decoder says how many it takes."""


def validate(directory: Path, options: ValidateOptions) -> ParityReport:
    """Compare every rung of a model directory with its checkpoint.

    Args:
        directory: made by `whisper-hailo convert`.
        options: with what.
    """
    spec = ModelSpec.load(directory)
    checkpoint = _checkpoint(spec, options)
    with temporary_directory() as work:
        stores = Stores(directory, spec, checkpoint, work)
        source = from_graphs(stores) if checkpoint is None else from_checkpoint(checkpoint)
        plan, material = _material(stores, options)
        truth = Truth.of(source, material)
        results = tuple(Rungs(stores, truth, options.limit).climb())
    return ParityReport(
        model=spec.name,
        directory=directory,
        reference=truth.name,
        window_s=plan.window_s,
        used=material.windows.used,
        calibrated_on=material.calibration.used,
        audio_sha256=material.windows.sha256,
        files={name: record.sha256 for name, record in spec.files.items()},
        results=results,
    )


def _checkpoint(spec: ModelSpec, options: ValidateOptions) -> Checkpoint | None:
    """The checkpoint that a model was made of, opened and recognised by its hashes."""
    if options.checkpoint is not None:
        path, _ = locate(parse_name(options.checkpoint), None)
        opened = Checkpoint(path)
        hashes = source_hashes(opened)
        known = spec.source.sha256
        wrong = sorted(n for n in known.keys() | hashes.keys() if known.get(n) != hashes.get(n))
        if wrong:
            raise ModelError(
                f"{shown(path)} is not the checkpoint of this model: {', '.join(wrong[:3])} "
                "differs from the one that model.json names; give that one to --checkpoint or "
                "convert again"
            )
        return opened
    bundled = ASSETS / BUNDLED
    if spec.source.name == BUNDLED and bundled.is_dir():
        opened = Checkpoint(bundled)
        return opened if source_hashes(opened) == spec.source.sha256 else None
    return None


def _material(stores: Stores, options: ValidateOptions) -> tuple[WindowPlan, Material]:
    """Windows of the recordings, of the size that the Hailo forms have, and tokens for them."""
    spec = stores.spec
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
        return decode_greedily(stores.directory, spec, mel, length, options.language)

    return plan, Material(windows, calibration, decode(windows.mel), decode)
