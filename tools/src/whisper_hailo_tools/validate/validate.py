"""Validation: every form of a model directory compared with its checkpoint."""

from __future__ import annotations

import itertools
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

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
    DecoderTokens,
    GraphReference,
    GraphSources,
    Reference,
    ReferenceModel,
)
from whisper_hailo_tools.validate.stage_checks import (
    FAILED,
    FormChecks,
    FormResult,
    try_mel,
)

logger = logging.getLogger(__name__)

FORMAT_VERSION = 3

SEED = 0
"""Fixed: validations of the same model and recordings compare the same windows."""

DEFAULT_LENGTH = 32
"""Tokens that decoders are fed where no Hailo decoder has a length."""


@dataclass(frozen=True, slots=True)
class ParityReport:
    """The results for every form of a model.

    Attributes:
        used: recording and number of the window in it, for each window.
        files: files of the model directory to their hashes.
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

    The windows have the size of the Hailo forms, and the decoders are fed as many tokens.

    Raises:
        ModelError: the model is damaged, or not of the given checkpoint.
        AudioError: there is no usable speech.
    """
    spec = ModelSpec.load(directory)
    checkpoint = _open_checkpoint(spec, options)
    window_s = next((float(form.window_s) for form in spec.hailo), None)
    length = next((form.length for form in spec.hailo if form.length), DEFAULT_LENGTH)
    plan = WindowPlan.make(spec.dims, window_s)
    with TemporaryDirectory(prefix="whisper-hailo.") as scratch:
        work = Path(scratch)
        sources = GraphSources(directory, spec, checkpoint, work)
        source = (
            GraphReference(sources) if checkpoint is None else Reference(checkpoint)
        )
        folder = options.audio or bundled_speech(work)
        windows = draw_windows(folder, plan, spec.dims.n_mels, options.windows)
        logger.info(
            "%d windows of %g s from %s",
            len(windows.used),
            plan.window_s,
            options.audio or "the bundled recordings",
        )
        length = min(length, spec.dims.n_text_ctx)
        fed = decode_greedily(directory, spec, windows.mel, length, options.language)
        reference = ReferenceModel(source, windows.mel, fed)
        results = (
            try_mel(windows.audio, windows.mel),
            *FormChecks(sources, reference).check_all(),
        )
    return ParityReport(
        model=spec.name,
        reference=source.name,
        window_s=plan.window_s,
        used=windows.used,
        audio_sha256=windows.sha256,
        files={name: record.sha256 for name, record in spec.files.items()},
        results=results,
    )


SPEECH: Final = ("jfk.flac", "silence/english.flac")
"""Recordings of people that are bundled, in English."""


def bundled_speech(work: Path) -> Path:
    """Return a folder with the bundled recordings of people."""
    folder = work / "speech"
    folder.mkdir()
    for name in SPEECH:
        shutil.copy2(ASSETS / name, folder)
    return folder


def _open_checkpoint(spec: ModelSpec, options: ValidateOptions) -> Checkpoint | None:
    """Return the checkpoint that a model was converted from, which its hashes prove.

    Without the option it is the bundled one, if the model is of that.
    """
    recorded = spec.source.sha256
    if options.checkpoint is None:
        return _open_bundled(spec)
    path, _ = locate_checkpoint(parse_name(options.checkpoint), None)
    checkpoint = Checkpoint(path)
    hashes = source_hashes(checkpoint)
    names = sorted(recorded.keys() | hashes.keys())
    differing = [name for name in names if recorded.get(name) != hashes.get(name)]
    if differing:
        raise ModelError(
            f"{display_path(path)} is not the checkpoint of this model: "
            f"{', '.join(differing[:3])} differs from the one that model.json names; give that one "
            "with --checkpoint or convert again"
        )
    return checkpoint


def _open_bundled(spec: ModelSpec) -> Checkpoint | None:
    path = ASSETS / BUNDLED
    if spec.source.name != BUNDLED or not path.is_dir():
        return None
    checkpoint = Checkpoint(path)
    if source_hashes(checkpoint) != spec.source.sha256:  # another version's
        return None
    return checkpoint


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of recordings.

    Attributes:
        audio: samples of each, as many as a window has.
        mel: `(n_windows, n_mels, n_frames)` float32.
        used: recording and number of the window in it, for each.
        sha256: of the recordings by their names.
    """

    audio: tuple[FloatArray, ...]
    mel: FloatArray
    used: tuple[tuple[str, int], ...]
    sha256: dict[str, str]


def draw_windows(
    folder: Path,
    plan: WindowPlan,
    n_mels: int,
    count: int,
) -> Windows:
    """Return windows from the recordings of a folder, speakers taking turns.

    A folder that has fewer gives fewer than `count`.
    """
    sources = find_sources(folder, SEED)
    windows: list[FloatArray] = []
    used: list[tuple[str, int]] = []
    hashes: dict[str, str] = {}
    for name, index, audio in _draw_windows(sources, plan):
        windows.append(pad_or_trim(audio, plan.window_samples))
        used.append((name, index))
        hashes[name] = sha256(folder / name)
        if len(windows) == count:
            break
    if not windows:
        raise no_speech_error(sources)
    mel = np.stack([log_mel(window, n_mels) for window in windows])
    return Windows(tuple(windows), mel, tuple(used), hashes)


def _draw_windows(
    sources: Sources, plan: WindowPlan
) -> Iterator[tuple[str, int, FloatArray]]:
    """Yield one window of every file, then a second of each, until none has any more."""
    for turn in itertools.count():
        is_empty = True
        for name in sources.files:
            with suppress(AudioError):  # a broken recording; the others serve as well
                for index, audio in draw(
                    sources.folder / name, name, plan, SEED, (turn, 1)
                ):
                    is_empty = False
                    yield name, index, audio
        if is_empty:
            return


def decode_greedily(
    directory: Path, spec: ModelSpec, mel: FloatArray, length: int, language: str
) -> DecoderTokens:
    """Return the transcripts of windows by the model directory's own encoder and cached decoder.

    `mel` is `(n_windows, n_mels, n_frames)` float32; a row has `length` tokens.
    """
    options = DecodingOptions(language=language)
    # Without a tokenizer nothing else is known.
    prefix: tuple[int, ...] = (spec.tokens.sot,)
    if TOKENIZER_FILE in spec.files:
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
        prefix = tokenizer.prefix(options.language, options.task)[:length]
    rows = np.zeros((len(mel), length), np.int64)
    lengths = []
    with open_greedy_decoder(directory, spec, options, prefix) as decode:
        for row, window in zip(rows, mel, strict=True):
            _, tokens = decode(window)
            tokens = tokens[:length]
            row[: len(tokens)] = tokens
            lengths.append(len(tokens))
    return DecoderTokens(rows, len(prefix), tuple(lengths))
