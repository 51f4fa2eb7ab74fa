"""Rules of captions on people who hardly pause: when words settle, how often they change."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from whisper_hailo import Transcriber
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import (
    WhisperRecognizer,
    caption_defaults,
    warm_up,
)
from whisper_hailo_lab.captions.playback import (
    figures_of,
    play_stream,
    word_error_percent,
)
from whisper_hailo_lab.captions.streams import join_unbroken
from whisper_hailo_lab.data.speech import read_speech, speech_folder

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

MOST_S: Final = 150.0
"""Seconds of speech in each language."""

RUNS: Final = {
    ("base", "en"): RULES,
    ("tiny.en", "en"): RULES,
    ("base", "de"): (DEFAULT, LOCAL_AGREEMENT),
    ("base", "fr"): (DEFAULT, LOCAL_AGREEMENT),
    ("base", "es"): (DEFAULT, LOCAL_AGREEMENT),
}


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


def compare_rules() -> dict[str, Any]:
    """Caption people who hardly pause by several rules, beside transcripts of the recordings."""
    recordings = read_speech(speech_folder())
    rows = []
    for (model, language), rules in RUNS.items():
        stream = join_unbroken(recordings, language, MOST_S)
        with caption_engine(model, language) as (transcriber, recognizer):
            whole = transcriber.transcribe(stream.audio, language=language).text
            whole_wer = word_error_percent(stream.text, whole, language)
            for rule in rules:
                run = play_stream(recognizer, stream, rule.options, rule.times_slower)
                row = {
                    "model": model,
                    "language": language,
                    "rule": rule.label,
                    "times_slower": rule.times_slower,
                    "whole_wer": whole_wer,
                    **figures_of(run, stream, language),
                }
                rows.append(row)
                logger.info("%s", row)
    return {"models": ["base", "tiny.en"], "rows": rows}
