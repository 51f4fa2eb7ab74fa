"""Rules of captions on people who hardly pause: when words settle, how often they change."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import (
    WhisperRecognizer,
    caption_defaults,
    warm_up,
)
from whisper_hailo_lab.captions.playback import play_stream, word_error_percent
from whisper_hailo_lab.captions.streams import choose_unbroken, join_recordings
from whisper_hailo_lab.data.speech import (
    SpeechRecording,
    read_speech,
    speech_folder,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to caption.

    Attributes:
        label: name for the table.
        options: of the captions.
        times_slower: how much slower the core is than this machine.
    """

    label: str
    options: CaptionOptions
    times_slower: float = 1.0


DEFAULT: Final = Rule("default", CaptionOptions())
LOCAL_AGREEMENT: Final = Rule(
    "any two hypotheses agree (LocalAgreement-2)", CaptionOptions(settle_s=0.0)
)
RULES: Final = (
    DEFAULT,
    LOCAL_AGREEMENT,
    Rule("`settle` 1 s", CaptionOptions(settle_s=1.0)),
    Rule("`settle` 2 s", CaptionOptions(settle_s=2.0)),
    Rule("words settle with their segment", CaptionOptions(settle_s=30.0)),
    Rule("a partial each 1 s", CaptionOptions(min_partial_s=1.0)),
    Rule("default, core four times slower", CaptionOptions(), times_slower=4.0),
)

RUNS: Final = {
    ("base", "en"): RULES,
    ("tiny.en", "en"): RULES,
    ("base", "de"): (DEFAULT, LOCAL_AGREEMENT),
    ("base", "fr"): (DEFAULT, LOCAL_AGREEMENT),
    ("base", "es"): (DEFAULT, LOCAL_AGREEMENT),
    ("base", "pt"): (DEFAULT, LOCAL_AGREEMENT),
}


@dataclass(frozen=True, slots=True)
class CaptionedRecording:
    """A recording by one rule, beside its transcript.

    Attributes:
        seconds: of the recording.
        processor_s: that captions took.
        words: of the captions.
        rewritten: words that were shown and then changed.
        partials: that were made.
        skipped_partials: that were left out.
        settle_s: of each word, from its end until it could not change any more.
        reference: what was said.
        text: of the captions.
        whole_text: of the transcript.
    """

    seconds: float
    processor_s: float
    words: int
    rewritten: int
    partials: int
    skipped_partials: int
    settle_s: tuple[float, ...]
    reference: str
    text: str
    whole_text: str


@contextmanager
def caption_engine(
    model: str, language: str
) -> Iterator[tuple[Transcriber, WhisperRecognizer]]:
    """Yield what `whisper-hailo caption --language ...` has on one thread, warm."""
    with Transcriber.from_model(model, threads=1) as transcriber:
        options = caption_defaults(transcriber.default_anti_repetition)
        recognizer = WhisperRecognizer(transcriber, replace(options, language=language))
        warm_up(recognizer)
        yield transcriber, recognizer


def caption_recording(
    recognizer: WhisperRecognizer,
    recording: SpeechRecording,
    rule: Rule,
    whole_text: str,
) -> CaptionedRecording:
    """Caption one recording at the speed of speech, on a core without other work."""
    stream = join_recordings([recording], recording.seconds, seed=recording.key)
    run = play_stream(recognizer, stream, rule.options, rule.times_slower)
    statistics = run.captioner.statistics
    return CaptionedRecording(
        seconds=stream.seconds,
        processor_s=run.processor_s,
        words=statistics.words_in.total(),
        rewritten=statistics.n_corrected,
        partials=statistics.n_partials,
        skipped_partials=statistics.n_skipped,
        settle_s=tuple(statistics.settle_s),
        reference=stream.text,
        text=" ".join(run.settled),
        whole_text=whole_text,
    )


def pool_figures(
    captions: Sequence[CaptionedRecording], language: str
) -> dict[str, Any]:
    """Return the figures of several recordings as of one."""
    settle_s = [second for caption in captions for second in caption.settle_s]
    seconds = sum(caption.seconds for caption in captions)
    processor_s = sum(caption.processor_s for caption in captions)
    n_words = sum(caption.words for caption in captions)
    n_rewritten = sum(caption.rewritten for caption in captions)
    reference = " ".join(caption.reference for caption in captions)
    text = " ".join(caption.text for caption in captions)
    whole_text = " ".join(caption.whole_text for caption in captions)
    return {
        "recordings": len(captions),
        "seconds": round(seconds, 1),
        "words": n_words,
        "settle_s_median": round(float(np.median(settle_s)), 2),
        "settle_s_p95": round(float(np.percentile(settle_s, 95)), 2),
        "rewritten": round(n_rewritten / n_words, 3),
        "partials": sum(caption.partials for caption in captions),
        "skipped_partials": sum(caption.skipped_partials for caption in captions),
        "share": round(processor_s / seconds, 3),
        "wer": word_error_percent(reference, text, language),
        "whole_wer": word_error_percent(reference, whole_text, language),
    }


def compare_rules() -> dict[str, Any]:
    """Caption people who hardly pause by several rules, beside transcripts of the recordings."""
    recordings = read_speech(speech_folder())
    rows = []
    for (model, language), rules in RUNS.items():
        chosen = choose_unbroken(recordings, language)
        with caption_engine(model, language) as (transcriber, recognizer):
            whole_texts = [
                transcriber.transcribe(recording.load(), language=language).text
                for recording in chosen
            ]
            for rule in rules:
                captions = [
                    caption_recording(recognizer, recording, rule, whole_text)
                    for recording, whole_text in zip(chosen, whole_texts, strict=True)
                ]
                row = {
                    "model": model,
                    "language": language,
                    "rule": rule.label,
                    "times_slower": rule.times_slower,
                    **pool_figures(captions, language),
                }
                rows.append(row)
                logger.info("%s", row)
    return {"models": ["base", "tiny.en"], "rows": rows}
