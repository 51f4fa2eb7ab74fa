"""Compares every form of a model directory with its checkpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.hub import ASSETS, BUNDLED, locate_checkpoint, parse_name
from whisper_hailo.convert.convert import source_hashes
from whisper_hailo.core.errors import AudioError, ModelError, display_path
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.core.version import __version__
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_tools.calibrate.windows import (
    Sources,
    draw,
    find_sources,
    no_speech_error,
    open_greedy_decoder,
)
from whisper_hailo_tools.options import ValidateOptions
from whisper_hailo_tools.validate.reference import (
    GraphReference,
    GraphSources,
    Reference,
    ReferenceModel,
    ShownTokens,
)
from whisper_hailo_tools.validate.stage_checks import FAILED, FormChecks, FormResult

logger = logging.getLogger(__name__)

FORMAT_VERSION = 3

SEED = 0

DEFAULT_LENGTH = 32
"""Tokens that decoders are shown where no Hailo decoder says how many it takes."""


@dataclass(frozen=True, slots=True)
class ParityReport:
    """What was found about every form of a model.

    Attributes:
        used: recording and number of the window in it, for each window.
        files: file of the model directory to hash.
    """

    model: str
    reference: str
    window_s: float
    used: tuple[tuple[str, int], ...]
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
            "audio_sha256": self.audio_sha256,
            "files": self.files,
            "rungs": [result.to_dict() for result in self.results],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"


def validate(directory: Path, options: ValidateOptions) -> ParityReport:
    """Compare every form of a model directory with its checkpoint.

    The windows have the size of the Hailo forms, and the decoders are shown as many tokens.
    """
    spec = ModelSpec.load(directory)
    checkpoint = _open_checkpoint(spec, options)
    window_s = next((float(form.window_s) for form in spec.hailo), None)
    length = next((form.length for form in spec.hailo if form.length), DEFAULT_LENGTH)
    plan = WindowPlan.make(spec.dims, window_s)
    with TemporaryDirectory(prefix="whisper-hailo.") as scratch:
        work = Path(scratch)
        sources = GraphSources(directory, spec, checkpoint, work)
        source = GraphReference(sources) if checkpoint is None else Reference(checkpoint)
        folder = options.audio or ASSETS
        windows = draw_windows(folder, plan, spec.dims.n_mels, options.windows)
        logger.info("%d windows of %g s from %s", len(windows.used), plan.window_s, folder)
        length = min(length, spec.dims.n_text_ctx)
        shown = decode_greedily(directory, spec, windows.mel, length, options.language)
        reference = ReferenceModel(source, windows.mel, shown)
        results = tuple(FormChecks(sources, reference).check_all())
    return ParityReport(
        model=spec.name,
        reference=source.name,
        window_s=plan.window_s,
        used=windows.used,
        audio_sha256=windows.sha256,
        files={name: record.sha256 for name, record in spec.files.items()},
        results=results,
    )


def _open_checkpoint(spec: ModelSpec, options: ValidateOptions) -> Checkpoint | None:
    """Return the checkpoint that a model was made of, opened and recognised by its hashes."""
    known = spec.source.sha256
    if options.checkpoint is None:
        bundled = ASSETS / BUNDLED
        opened = Checkpoint(bundled) if spec.source.name == BUNDLED and bundled.is_dir() else None
        return opened if opened is not None and source_hashes(opened) == known else None
    path, _ = locate_checkpoint(parse_name(options.checkpoint), None)
    opened = Checkpoint(path)
    hashes = source_hashes(opened)
    wrong = sorted(n for n in known.keys() | hashes.keys() if known.get(n) != hashes.get(n))
    if wrong:
        raise ModelError(
            f"{display_path(path)} is not the checkpoint of this model: {', '.join(wrong[:3])} "
            "differs from the one that model.json names; give that one to --checkpoint or "
            "convert again"
        )
    return opened


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of recordings.

    Attributes:
        mel: `(n_windows, n_mels, n_frames)` float32.
        used: recording and number of the window in it, for each.
    """

    mel: FloatArray
    used: tuple[tuple[str, int], ...]
    sha256: dict[str, str]


def draw_windows(folder: Path, plan: WindowPlan, n_mels: int, count: int) -> Windows:
    """Return windows from the recordings of a folder, speakers taking turns.

    A folder that has fewer gives fewer than `count`.
    """
    sources = find_sources(folder, SEED)
    mels, used, hashes = [], [], {}
    for name, index, audio in _draw_windows(sources, plan):
        mels.append(log_mel(pad_or_trim(audio, plan.window_samples), n_mels))
        used.append((name, index))
        hashes[name] = sha256(folder / name)
        if len(mels) == count:
            break
    if not mels:
        raise no_speech_error(sources)
    return Windows(np.stack(mels), tuple(used), hashes)


def _draw_windows(sources: Sources, plan: WindowPlan) -> Iterator[tuple[str, int, FloatArray]]:
    """Yield one window of every file, then a second of each, until none gives any more."""
    turn, found = 0, True
    while found:
        found = False
        for name in sources.files:
            try:
                for index, audio in draw(sources.folder / name, name, plan, SEED, (turn, 1)):
                    found = True
                    yield name, index, audio
            except AudioError:
                continue
        turn += 1


def decode_greedily(
    directory: Path, spec: ModelSpec, mel: FloatArray, length: int, language: str
) -> ShownTokens:
    """Return what the model directory's own encoder and cached decoder make of windows.

    `mel` is `(n_windows, n_mels, n_frames)` float32; a row has `length` tokens.
    """
    options = DecodingOptions(language=language)
    prefix: tuple[int, ...] = (spec.tokens.sot,)  # all that is forced without a tokenizer
    if TOKENIZER_FILE in spec.files:
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
        prefix = tokenizer.prefix(options.language, options.task)[:length]
    shown = np.zeros((len(mel), length), np.int64)
    n_known = []
    with open_greedy_decoder(directory, spec, options, prefix) as decode:
        for row, window in zip(shown, mel, strict=True):
            tokens = decode(window)[1][:length]
            row[: len(tokens)] = tokens
            n_known.append(len(tokens))
    return ShownTokens(shown, len(prefix), tuple(n_known))
