"""The engines and settings of `compare captions`, and the record of the comparison."""

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
from whisper_hailo.live.recognizer import TOKENS_PER_SECOND, MoonshineRecognizer, WhisperRecognizer
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.captions.comparison import CaptionRun, CaptionSetup, row_of, run_captions
from whisper_hailo_lab.data.datasets import reference_beside
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.score import score_file

logger = logging.getLogger(__name__)

BASE: Final = "decoded anew"
"""How the labels begin of what the decoder time of others with the same engine is divided by."""


@dataclass(frozen=True, slots=True)
class CommonSetup:
    """What holds for all setups.

    Attributes:
        model: checkpoint to convert.
        language: of the recording.
        threads: for every engine.
        moonshine: `tiny-streaming`, another size or a folder; empty leaves Moonshine out.
    """

    model: str
    language: str = "en"
    threads: int = 1
    moonshine: str = "tiny-streaming"


def compare_captions(
    path: Path, common: CommonSetup, tick: Callable[[int, int], None] = lambda done, total: None
) -> ComparisonRecord:
    """Caption one recording with all setups.

    Args:
        path: the recording; what was said may lie beside it as a `.txt` file.
        common: model, language and threads.
        tick: told how many seconds are done, of how many.
    """
    audio = load_audio(path)
    reference = reference_beside(path)

    def error_rate(hypothesis: str) -> float | None:
        if reference is None:
            return None
        return score_file(reference, hypothesis, "normalised", common.language).words.rate

    with ExitStack() as stack:
        setups = [*_ours(common, stack), *moonshine_setup(common, stack)]
        runs = run_captions(setups, audio, make_detector, tick)
        rows = with_ratios(runs, error_rate)
    settings = {
        "model": common.model,
        "threads": common.threads,
        "audio": path.name,
        "audio_s": round(audio.size / SAMPLE_RATE_HZ, 1),
        "segments": f"silence {CaptionOptions().min_silence_s:g} s, "
        f"at most {min(setup.engine.content_s for setup in setups):g} s",
    }
    return ComparisonRecord("captions", settings, tuple(rows))


def with_ratios(
    runs: list[CaptionRun], error_rate: Callable[[str], float | None]
) -> Iterator[dict[str, object]]:
    """Rows with their decoder time as a ratio to that of the same engine decoding anew.

    Args:
        runs: after the stream; the first of an engine that decodes anew is its measure.
        error_rate: word error rate of a text; `None` where what was said is not known.
    """
    rows = [row_of(run, error_rate) for run in runs]
    anew_ms: dict[int, float | None] = {}
    for run, row in zip(runs, rows, strict=True):
        if row["way"].startswith(BASE):
            anew_ms.setdefault(id(run.setup.engine), row["decode_ms_per_partial"])
    for run, row in zip(runs, rows, strict=True):
        ms, base_ms = row["decode_ms_per_partial"], anew_ms.get(id(run.setup.engine))
        yield row | {"less_decoding": base_ms / ms if ms and base_ms else None}


def _ours(common: CommonSetup, stack: ExitStack) -> Iterator[CaptionSetup]:
    """Our engine with its settings, then with smaller weights."""
    whole = CaptionOptions(hold_back_s=0.0)
    engine = engine_of(common, "none", stack)
    yield CaptionSetup("drafts", engine, CaptionOptions())
    yield CaptionSetup("no drafts", engine, CaptionOptions(drafts=False))
    yield CaptionSetup("drafts, guesses shown", engine, whole)
    yield CaptionSetup("no drafts, guesses shown", engine, replace(whole, drafts=False))
    yield CaptionSetup(BASE, engine, whole, keeps=False)
    yield CaptionSetup("decoded anew, guesses held back", engine, CaptionOptions(), keeps=False)
    yield CaptionSetup("drafts, a partial each 0.2 s", engine, CaptionOptions(min_partial_s=0.2))
    for quantize, weights in (("int8", "8-bit weights"), ("int4", "4-bit weights")):
        smaller = engine_of(common, quantize, stack)
        yield CaptionSetup(f"drafts, {weights}", smaller, CaptionOptions())
        yield CaptionSetup(f"{BASE}, {weights}", smaller, whole, keeps=False)


def engine_of(common: CommonSetup, quantize: str, stack: ExitStack) -> WhisperRecognizer:
    """Our engine with weights as `--quantize` has them, open until the stack unwinds."""
    transcriber = Transcriber.from_model(
        common.model, convert=ConvertOptions(quantize, "none"), threads=common.threads
    )
    options = DecodingOptions(
        language=common.language,
        anti_repetition=transcriber.default_anti_repetition,
        limits=TokenLimits(max_per_second=TOKENS_PER_SECOND),
    )
    return WhisperRecognizer(stack.enter_context(transcriber), options)


def moonshine_setup(common: CommonSetup, stack: ExitStack) -> Iterator[CaptionSetup]:
    """Moonshine, where its package and its weights are."""
    if not common.moonshine:
        return
    engine = MoonshineRecognizer(common.moonshine)
    try:
        stack.enter_context(engine)
    except WhisperHailoError as error:
        logger.warning("Moonshine is left out: %s", error)
        return
    yield CaptionSetup("Moonshine", engine, CaptionOptions())
