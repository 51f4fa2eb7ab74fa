"""Engines and settings of `compare captions`, and the record of the comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions, TokenLimits
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import (
    TOKENS_PER_SECOND,
    MoonshineRecognizer,
    WhisperRecognizer,
)
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.captions.comparison import (
    CaptionRun,
    CaptionSetup,
    row_of,
    run_captions,
)
from whisper_hailo_lab.data.datasets import reference_beside
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.score import score_file

logger = logging.getLogger(__name__)

BASE: Final = "decoded anew"
"""Beginning of the labels that other decoder times of the same engine are divided by."""


@dataclass(frozen=True, slots=True)
class CommonSetup:
    """Settings that are the same for all setups.

    Attributes:
        model: checkpoint to convert.
        language: language of the recording.
        threads: threads of every engine.
        moonshine: `tiny-streaming`, another size or a folder; empty leaves Moonshine out.
    """

    model: str
    language: str = "en"
    threads: int = 1
    moonshine: str = "tiny-streaming"


def compare_captions(
    path: Path,
    common: CommonSetup,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> ComparisonRecord:
    """Caption one recording with all setups.

    Args:
        path: recording; its text may lie beside it as a `.txt` file.
        common: model, language and threads.
        report: called with seconds done and seconds in all.
    """
    audio = load_audio(path)
    reference = reference_beside(path)

    def error_rate(hypothesis: str) -> float | None:
        if reference is None:
            return None
        return score_file(
            reference, hypothesis, "normalised", common.language
        ).words.rate

    with ExitStack() as stack:
        setups = [*_our_setups(common, stack), *moonshine_setups(common, stack)]
        runs = run_captions(setups, audio, make_detector, report)
        rows = tuple(rows_with_ratios(runs, error_rate))
    longest_s = min(setup.engine.content_s for setup in setups)
    settings = {
        "model": common.model,
        "threads": common.threads,
        "audio": path.name,
        "audio_s": round(audio.size / SAMPLE_RATE_HZ, 1),
        "segments": (
            f"silence {CaptionOptions().min_silence_s:g} s, at most {longest_s:g} s"
        ),
    }
    return ComparisonRecord("captions", settings, rows)


def rows_with_ratios(
    runs: list[CaptionRun], error_rate: Callable[[str], float | None]
) -> Iterator[dict[str, object]]:
    """Yield rows with decoder times relative to the same engine that decodes from scratch.

    Args:
        runs: runs after the stream; the first of an engine that decodes from scratch is its base.
        error_rate: returns the word error rate of a text; `None` without a reference.
    """
    rows = [row_of(run, error_rate) for run in runs]
    base_ms: dict[int, float | None] = {}
    for run, row in zip(runs, rows, strict=True):
        if row["way"].startswith(BASE):
            base_ms.setdefault(id(run.setup.engine), row["decode_ms_per_partial"])
    for run, row in zip(runs, rows, strict=True):
        own_ms = row["decode_ms_per_partial"]
        scratch_ms = base_ms.get(id(run.setup.engine))
        yield row | {
            "less_decoding": scratch_ms / own_ms if own_ms and scratch_ms else None
        }


def _our_setups(common: CommonSetup, stack: ExitStack) -> Iterator[CaptionSetup]:
    """Yield our engine with its settings, then with smaller weights."""
    usual = CaptionOptions()
    whole = CaptionOptions(hold_back_s=0.0)
    engine = open_engine(common, "none", stack)
    yield CaptionSetup("drafts", engine, usual)
    yield CaptionSetup("no drafts", engine, CaptionOptions(drafts=False))
    yield CaptionSetup("drafts, guesses shown", engine, whole)
    yield CaptionSetup("no drafts, guesses shown", engine, replace(whole, drafts=False))
    yield CaptionSetup(BASE, engine, whole, keeps=False)
    yield CaptionSetup("decoded anew, guesses held back", engine, usual, keeps=False)
    yield CaptionSetup(
        "drafts, a partial each 0.2 s", engine, CaptionOptions(min_partial_s=0.2)
    )
    for quantize, weights in (("int8", "8-bit weights"), ("int4", "4-bit weights")):
        smaller = open_engine(common, quantize, stack)
        yield CaptionSetup(f"drafts, {weights}", smaller, usual)
        yield CaptionSetup(f"{BASE}, {weights}", smaller, whole, keeps=False)


def open_engine(
    common: CommonSetup, quantize: str, stack: ExitStack
) -> WhisperRecognizer:
    """Open our engine with weights as in `--quantize`, until the stack unwinds."""
    convert = ConvertOptions(quantize, "none")
    transcriber = Transcriber.from_model(
        common.model, convert=convert, threads=common.threads
    )
    options = DecodingOptions(
        language=common.language,
        anti_repetition=transcriber.default_anti_repetition,
        limits=TokenLimits(max_per_second=TOKENS_PER_SECOND),
    )
    return WhisperRecognizer(stack.enter_context(transcriber), options)


def moonshine_setups(common: CommonSetup, stack: ExitStack) -> Iterator[CaptionSetup]:
    """Yield Moonshine, where its package and its weights are available."""
    if not common.moonshine:
        return
    engine = MoonshineRecognizer(common.moonshine)
    try:
        stack.enter_context(engine)
    except WhisperHailoError as error:
        logger.warning("Moonshine is left out: %s", error)
        return
    yield CaptionSetup("Moonshine", engine, CaptionOptions())
